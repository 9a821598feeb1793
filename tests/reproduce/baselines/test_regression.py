"""Networks that regress poses: they learn by the usual loop, and one of them is equivariant."""

import pytest
import torch
from support.lumpy_shapes import seeded, two_puzzles
from support.small_datasets import dataset_of, lumpy_example
from support.training_runs import trained

from eda import SE3, Eda, EdaConfig, Pieces
from eda.lie import so3
from eda.nn.protocol import CustomNetwork
from eda.reproduce.baselines import REGRESSIONS, regression_config
from eda.train import overridden

pytestmark = pytest.mark.usefixtures("registries")


def network_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return REGRESSIONS[name]().double()


def said(network: torch.nn.Module, pieces: Pieces) -> torch.Tensor:
    return network(pieces, torch.zeros(pieces.num_puzzles, dtype=torch.float64))


def turned(pieces: Pieces, rotation: torch.Tensor) -> Pieces:
    each = SE3(rotation.expand(pieces.num_pieces, 3, 3), torch.zeros(pieces.num_pieces, 3, dtype=torch.float64))
    return pieces.move(each)


@pytest.mark.parametrize("name", REGRESSIONS)
@torch.no_grad()
def test_the_order_of_the_pieces_does_not_matter(name):
    network, pieces = network_of(name), two_puzzles(12, 12)
    order = torch.tensor([2, 0, 1, 4, 3])
    assert pieces.counts.tolist() == [3, 2]
    torch.testing.assert_close(said(network, pieces.permute(order)), said(network, pieces)[order])


@pytest.mark.parametrize("name", REGRESSIONS)
@torch.no_grad()
def test_only_lev_turns_with_the_whole(name):
    network, pieces = network_of(name), two_puzzles(12, 12)
    rotation = so3.random(1, generator=seeded(3), dtype=torch.float64)[0]
    before, after = said(network, pieces), said(network, turned(pieces, rotation))
    error = float(((rotation @ before.unflatten(-1, (2, 3)).mT).mT.flatten(1) - after).abs().max())
    assert before.abs().max() > 1e-3
    assert (error < 1e-9) == (name == "LEV")


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_baseline_learns_by_the_usual_loop_and_is_saved(name, tmp_path):
    dataset_of(tmp_path / "set", [lumpy_example(0, 2)])
    config = regression_config(name, str(tmp_path / "set"), points=60, steps=60)
    assert config.model.tau_sampler == "start"
    config = overridden(config, ["data.draws=16", "optimizer.lr=1e-2", "optimizer.ema=0.9"])
    run = trained(config, tmp_path)
    puzzle = lumpy_example(0, 2).downsample(60).puzzle()
    before, after = (
        model.loss(puzzle, draws=64, generator=seeded()) for model in (Eda(config.model, seed=0), run.averaged)
    )
    # The frame of the answer depends on all pieces, which takes the two that do not turn with it much longer.
    assert after.translation < (0.8 if name == "LEV" else 0.99) * before.translation
    loaded = Eda.load(tmp_path / "model.safetensors")
    assert loaded.config.network == CustomNetwork(f"regression-{name.lower()}", {"width": 32 if name == "LEV" else 64})
    pieces = lumpy_example(1, 2).downsample(60).puzzle().pieces
    noise = loaded.sample_noise(pieces, generator=seeded())
    both = [model.sample(pieces, noise=noise, solver="rk1", steps=1).matrix() for model in (loaded, run.averaged)]
    torch.testing.assert_close(*both)


def test_pieces_without_normals_are_taken():
    pieces = Pieces.from_clouds([torch.randn(20, 3, generator=seeded(i)) for i in range(2)])
    model = Eda(EdaConfig(noise_std=0.5), network=REGRESSIONS["LEV"]())
    assert model.sample(pieces, solver="rk1", steps=1).isfinite()
