"""What of a network that matches places is used: all of it, pairs of pieces alone, or the Croco path alone."""

from dataclasses import replace

import pytest
import torch
from support.matching_networks import COMPLEMENTARY, SYNCHRONISING, ragged
from support.rigid_motions import random_se3
from support.soft_matches import model_of

from eda import InputError, Pieces

KINDS = {"search": COMPLEMENTARY, "synchronising": {**COMPLEMENTARY, **SYNCHRONISING}}


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return model_of(**KINDS[request.param])


@pytest.fixture(scope="module")
def pieces():
    return Pieces.collate(ragged())


def test_the_croco_path_is_the_network_without_correspondences(model, pieces):
    poses, tau = (
        random_se3(pieces.num_pieces, 0, spread=0.7).to(pieces.points),
        torch.full((pieces.num_puzzles,), 0.3).to(pieces.points),
    )
    pyramid = model.pyramid(pieces)
    tokens = model.network.encode(pyramid, None)
    assert tokens.arrangements is not None or tokens.graph is not None
    plain = model.network.relate(replace(tokens, arrangements=None, graph=None), poses, tau)
    torch.testing.assert_close(model.field(pyramid, paths="croco").velocities(poses, tau), plain)
    assert not torch.allclose(model.field(pyramid).velocities(poses, tau), plain)


@torch.no_grad()
def test_without_a_search_of_the_whole_one_arrangement_has_a_say(pieces):
    """Of the two pieces of the second puzzle, by the hypothesis with the best score."""
    model = model_of(**COMPLEMENTARY)
    pyramid = model.pyramid(pieces)
    found = model.network.encode(pyramid, None, "pairs").arrangements
    every = model.network.encode(pyramid, None).arrangements
    assert found.valid.shape == (pieces.num_puzzles, 1)
    assert every.valid.shape[1] > 1
    network = model.network
    scores, levels = network.motions.pair_scores, network.descend(pyramid, None)
    of_second = network.hypothesize(pyramid, network.match(pyramid, levels))[1]
    best = float(scores.joint(of_second.features)[of_second.valid].max())
    of_two = found.features[(found.first >= 3) & (found.first < 5)]
    assert float(scores.joint(of_two).squeeze()) == pytest.approx(best, abs=1e-5)


def test_samples_differ_by_the_paths_and_not_by_their_default(model, pieces):
    options = {"solver": "rk1", "steps": 2}
    drawn = {
        paths: model.sample(pieces, generator=torch.Generator().manual_seed(1), paths=paths, **options).matrix()
        for paths in ("all", "pairs", "croco")
    }
    usual = model.sample(pieces, generator=torch.Generator().manual_seed(1), **options).matrix()
    assert torch.equal(drawn["all"], usual)
    assert not torch.allclose(drawn["all"], drawn["pairs"])
    assert not torch.allclose(drawn["pairs"], drawn["croco"])


def test_other_paths_are_refused(model, pieces):
    with pytest.raises(InputError, match="paths"):
        model.sample(pieces, paths="thorough")
