"""A network from outside in place of f: it is sampled, trained, evaluated, checked, saved and loaded like our own."""

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open
from support.custom_networks import CentroidNetwork, EncodingCentroids, SizingCentroids
from support.lumpy_shapes import TINY_NETWORK, lumpy_puzzle, seeded, two_puzzles
from support.rigid_motions import random_se3_batch
from support.small_datasets import dataset_of, lumpy_example, tiny_run
from support.training_runs import ALONE, assert_same_bits, trained
from torch import nn

from eda import SE3, Eda, EdaConfig, InputError, Pieces, Puzzle, register_network
from eda.evaluate import NetworkAnswers, Sampling, check_equivariance, evaluate, scatter
from eda.flow.loss import spatial_twist
from eda.nn import EdaNetwork
from eda.nn.protocol import CustomNetwork, Labels
from eda.train import Run, TrainConfig, overridden
from eda.train.watch import loss_names

pytestmark = pytest.mark.usefixtures("registries")


def model_of(kind: type[CentroidNetwork] = CentroidNetwork) -> Eda:
    torch.manual_seed(0)
    return Eda(network=kind()).double()


# -- velocities and samples --------------------------------------------------------------------------------


def test_the_velocity_is_what_the_network_says_of_the_moved_pieces():
    model, pieces, poses = model_of(), two_puzzles(12, 12), random_se3_batch(5)
    tau = torch.tensor([0.2, 0.7], dtype=torch.float64)
    said = model.network(pieces.move(poses), tau)
    expected = spatial_twist(said, pieces.move(poses).centroids())
    torch.testing.assert_close(model.velocity(pieces, poses, tau), expected)
    assert expected.abs().max() > 1e-3


def test_an_encoding_network_is_asked_once_and_moves_as_the_plain_one_does():
    plain, encoding, pieces = model_of(), model_of(EncodingCentroids), two_puzzles(12, 12)
    noise = random_se3_batch(3, 5)
    both = [model.sample(pieces, 3, noise=noise, steps=4).matrix() for model in (plain, encoding)]
    torch.testing.assert_close(*both)
    assert encoding.network.calls == 1


def test_samples_do_not_depend_on_their_companions():
    model, pieces, noise = model_of(), two_puzzles(12, 12), random_se3_batch(2, 5)
    both = model.sample(pieces, 2, noise=noise, steps=3)
    for k in range(2):
        alone = model.sample(pieces, noise=noise[k][None], steps=3)
        torch.testing.assert_close(both[k].matrix(), alone[0].matrix())


def test_pins_work_as_for_our_own_network():
    model, pieces = model_of(), two_puzzles(12, 12)
    pin = random_se3_batch(1)[0]
    assert torch.equal(model.sample(pieces, pins={0: pin}, steps=1, generator=seeded())[0, 0].matrix(), pin.matrix())


@pytest.mark.parametrize("said", [torch.zeros(5, 3), torch.zeros(6), None], ids=["vectors", "one", "nothing"])
def test_an_answer_of_another_shape_is_an_input_error(said):
    class Wrong(nn.Module):
        def forward(self, pieces, tau):
            return said

    with pytest.raises(InputError, match=r"must return \(w, u\) of every piece, \(5, 6\)"):
        Eda(network=Wrong()).velocity(two_puzzles(12, 12), random_se3_batch(5), 0.5)


def test_a_network_without_weights_takes_any_precision():
    class Still(nn.Module):
        def forward(self, pieces, tau):
            return torch.zeros(pieces.num_pieces, 6)

    noise, model = random_se3_batch(1, 5), Eda(network=Still())
    torch.testing.assert_close(model.sample(two_puzzles(12, 12), noise=noise, steps=1).matrix(), noise.matrix())


def test_it_has_no_break_head():
    model = model_of()
    assert not model.has_break_head
    with pytest.raises(InputError, match="no break head"):
        model.break_probability(two_puzzles(12, 12))


def test_our_own_network_may_be_given_too():
    model = Eda(EdaConfig(noise_std=0.7), network=EdaNetwork(TINY_NETWORK))
    assert model.config == EdaConfig(TINY_NETWORK, noise_std=0.7)
    assert model.takes_normals


# -- losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CentroidNetwork, EncodingCentroids])
def test_every_weight_has_a_gradient(kind):
    model = model_of(kind)
    loss = model.loss(lumpy_puzzle(3, 12), draws=3, generator=seeded())
    loss.total.backward()
    assert all(p.grad.norm() > 0 for p in model.parameters())
    assert loss.auxiliary is loss.breaks is loss.matches is loss.motions is None


@pytest.mark.parametrize("draws", [0, 2])
def test_an_auxiliary_loss_is_added_once(draws):
    model, puzzle = model_of(SizingCentroids), lumpy_puzzle(3, 12)  # of 12, 15 and 18 points
    with torch.no_grad():
        loss = model.loss(puzzle, draws=draws, generator=seeded())
    assert float(loss.auxiliary) == pytest.approx((12**2 + 15**2 + 18**2) / 3)
    flow = 2 * loss.rotation + loss.translation
    assert float(loss.total) == pytest.approx(float(flow + loss.auxiliary))
    assert (float(flow) > 0) == (draws > 0)


def test_an_auxiliary_loss_gets_the_labels():
    own = torch.tensor([True, False, True])
    loss = model_of(SizingCentroids).loss(lumpy_puzzle(3, 12), labels=Labels(own=own), generator=seeded())
    assert float(loss.auxiliary.detach()) == pytest.approx((12**2 + 18**2) / 2)


# -- evaluation --------------------------------------------------------------------------------------------


def test_the_laws_are_checked_and_a_broken_one_is_found():
    assert check_equivariance(model_of(), draws=3, points=12).holds

    class Drifting(CentroidNetwork):
        def forward(self, pieces: Pieces, tau: torch.Tensor) -> torch.Tensor:
            return super().forward(pieces, tau) + 0.01

    report = check_equivariance(model_of(Drifting), draws=3, points=12)
    assert {"L_R", "whole moved"} <= {row.law for row in report.results if not row.holds}


@pytest.mark.parametrize("normals", [True, False])
def test_it_is_evaluated_on_data_with_and_without_normals(normals):
    examples = [lumpy_example(i, 2, 20, normals=normals) for i in range(2)]
    source = NetworkAnswers(model_of().float(), Sampling(steps=2, points=40))
    found = evaluate(source.answers(scatter(examples, 0)), "pairwise")
    assert found.shape == (2, 3, 1)


# -- on disk -----------------------------------------------------------------------------------------------


def test_a_saved_model_is_found_by_the_name_of_its_network(tmp_path):
    register_network("centroids", CentroidNetwork)
    model = Eda(EdaConfig(noise_std=0.3), network=CentroidNetwork(6))
    model.save(tmp_path / "model.safetensors")
    again = Eda.load(tmp_path / "model.safetensors")
    assert type(again.network) is CentroidNetwork
    assert again.config == EdaConfig(CustomNetwork("centroids", {"width": 6}), noise_std=0.3)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        written = json.loads(file.metadata()["config"])
    assert written["network"] == {"name": "centroids", "settings": {"width": 6}}


def test_a_network_may_get_its_name_after_the_model_was_made(tmp_path):
    model = model_of()
    with pytest.raises(InputError, match=r"not saved: give its network a name.*CentroidNetwork"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
    register_network("late", CentroidNetwork)
    model.save(tmp_path / "model.safetensors")
    assert Eda.load(tmp_path / "model.safetensors").config.network.name == "late"


def test_a_file_whose_network_is_not_known_here_says_so(tmp_path, registries):
    from eda.nn.protocol import NETWORKS

    register_network("centroids", CentroidNetwork)
    model_of().save(tmp_path / "model.safetensors")
    NETWORKS.clear()
    with pytest.raises(InputError, match=r"model\.safetensors: the network 'centroids' is not known here.*--plugin"):
        Eda.load(tmp_path / "model.safetensors")


def test_a_file_of_another_version_of_the_network_is_refused(tmp_path):
    from eda.nn.protocol import NETWORKS

    register_network("centroids", CentroidNetwork)
    model_of().save(tmp_path / "model.safetensors")
    NETWORKS["centroids"] = SizingCentroids
    with pytest.raises(InputError, match=r"do not belong together.*network\.size"):
        Eda.load(tmp_path / "model.safetensors")


def test_a_config_that_does_not_make_the_network_again_is_not_saved(tmp_path):
    register_network("centroids", CentroidNetwork)
    model = model_of()
    model.network.config = {"width": 5}
    with pytest.raises(InputError, match=r"not saved: CentroidNetwork.*has other weights"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_whole_numbers_and_tied_weights_come_back(tmp_path):
    class Tied(CentroidNetwork):
        def __init__(self, width: int = 2) -> None:
            super().__init__(width)
            self.again = self.layers[0]
            self.register_buffer("seen", torch.tensor(2**24 + 1))  # which float32 does not hold

    register_network("tied", Tied)
    model = Eda(network=Tied())
    model.save(tmp_path / "model.safetensors", dtype=torch.float16)
    assert int(Eda.load(tmp_path / "model.safetensors").network.seen) == 2**24 + 1


# -- training ----------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path) -> TrainConfig:
    dataset = dataset_of(tmp_path / "data", [lumpy_example(i, 2 + i % 2, 24) for i in range(6)])
    run = tiny_run(dataset.folders[0], steps=4)
    return dataclasses.replace(run, model=EdaConfig(CustomNetwork("sizing", {"width": 3}), num_points=60))


def test_a_run_trains_saves_and_resumes_it(config, tmp_path):
    register_network("sizing", SizingCentroids)
    run = trained(config, tmp_path / "run")
    begin = Eda(config.model, seed=config.seed).state_dict()
    assert not any(torch.equal(tensor, begin[name]) for name, tensor in run.model.state_dict().items())
    loaded = Eda.load(tmp_path / "run" / "model.safetensors")
    assert loaded.config == config.model
    assert_same_bits(run, Run(config, tmp_path / "run", ALONE))
    assert loss_names(config.model) == ("loss", "rotation", "translation", "auxiliary")
    assert run.objective(next(run.loader.batches()), 0)[3] > 0


def test_a_run_may_begin_with_a_model_of_the_same_network(config, tmp_path):
    register_network("sizing", SizingCentroids)
    Eda(config.model, seed=9).save(tmp_path / "old.safetensors")
    begun = dataclasses.replace(config, begin_with=str(tmp_path / "old.safetensors"))
    found = Run(begun, tmp_path, ALONE).model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in Eda(config.model, seed=9).state_dict().items())
    wider = overridden(begun, ["model.network.settings.width=5"])
    with pytest.raises(InputError, match="its network is not the one of this recipe"):
        Run(wider, tmp_path, ALONE)


def test_settings_survive_json(config):
    register_network("sizing", SizingCentroids)
    values = json.loads(json.dumps(dataclasses.asdict(config)))
    assert TrainConfig.from_dict(values) == config
    assert overridden(config, ["model.network.settings.width=8"]).model.network.settings == {"width": 8}


def test_it_learns():
    """From noise that is far apart the pieces are pulled together, which centroids alone can tell."""
    puzzle: Puzzle = lumpy_puzzle(2, 12, dtype=torch.float32)
    torch.manual_seed(0)
    model = Eda(EdaConfig(noise_std=3.0), network=CentroidNetwork(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for step in range(60):
        optimizer.zero_grad()
        loss = model.loss(puzzle, draws=32, generator=seeded(step))
        loss.total.backward()
        optimizer.step()
        losses.append(float(loss.translation.detach()))
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_poses_are_rigid(generator):
    poses = model_of().sample(two_puzzles(12, 12), 2, steps=3, generator=generator)
    assert isinstance(poses, SE3)
    assert torch.allclose(poses.rotation @ poses.rotation.mT, torch.eye(3, dtype=torch.float64).expand(2, 5, 3, 3))
