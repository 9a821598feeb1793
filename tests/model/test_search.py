"""How a network that matches places looks for arrangements: by a beam, greedily, or not at all."""

from dataclasses import replace

import pytest
import torch
from support.matching_networks import COMPLEMENTARY, ragged
from support.rigid_motions import random_se3
from support.soft_matches import model_of

from eda import InputError, Pieces


@pytest.fixture(scope="module")
def model():
    return model_of(**COMPLEMENTARY)


@pytest.fixture(scope="module")
def pieces():
    return Pieces.collate(ragged())


def test_the_plain_head_is_the_network_without_arrangements(model, pieces):
    poses, tau = (
        random_se3(pieces.num_pieces, 0, spread=0.7).to(pieces.points),
        torch.full((pieces.num_puzzles,), 0.3).to(pieces.points),
    )
    pyramid = model.pyramid(pieces)
    tokens = model.network.encode(pyramid, None)
    assert tokens.arrangements is not None
    plain = model.network.relate(replace(tokens, arrangements=None), poses, tau)
    torch.testing.assert_close(model.field(pyramid, search="none").velocities(poses, tau), plain)
    assert not torch.allclose(model.field(pyramid).velocities(poses, tau), plain)


@torch.no_grad()
def test_a_greedy_search_weighs_one_arrangement_alone(model, pieces):
    """Of the two pieces of the second puzzle, by the hypothesis with the best score."""
    pyramid = model.pyramid(pieces)
    found = model.network.encode(pyramid, None, "greedy").arrangements
    every = model.network.encode(pyramid, None).arrangements
    assert found.valid.shape == (pieces.num_puzzles, 1)
    assert every.valid.shape[1] > 1
    network = model.network
    scores, levels = network.motions.pair_scores, network.descend(pyramid, None)
    of_second = network.hypothesize(pyramid, network.match(pyramid, levels))[1]
    best = float(scores.joint(of_second.features)[of_second.valid].max())
    of_two = found.features[(found.first >= 3) & (found.first < 5)]
    assert float(scores.joint(of_two).squeeze()) == pytest.approx(best, abs=1e-5)


def test_samples_differ_by_the_search_and_not_by_its_default(model, pieces):
    options = {"solver": "rk1", "steps": 2}
    drawn = {
        search: model.sample(pieces, generator=torch.Generator().manual_seed(1), search=search, **options).matrix()
        for search in ("beam", "greedy", "none")
    }
    usual = model.sample(pieces, generator=torch.Generator().manual_seed(1), **options).matrix()
    assert torch.equal(drawn["beam"], usual)
    assert not torch.allclose(drawn["beam"], drawn["greedy"])
    assert not torch.allclose(drawn["greedy"], drawn["none"])


def test_another_search_is_refused(model, pieces):
    with pytest.raises(InputError, match="search"):
        model.sample(pieces, search="thorough")
