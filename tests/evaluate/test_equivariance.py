"""check_equivariance finds what it is for: it passes sound models and catches every kind of broken one."""

import dataclasses
import json
import math

import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK

from eda import Eda, EdaConfig
from eda.evaluate import EquivarianceReport, LawResult, check_equivariance
from eda.evaluate.equivariance import LAWS
from eda.nn import EdaNetwork

TINY = EdaConfig(TINY_NETWORK)
NAMES = [law for law, *_ in LAWS]
DOUBLE = (torch.float64,)


def model_of(kind: type[EdaNetwork] = EdaNetwork, **options: object) -> Eda:
    """A tiny model whose network is of another kind, with the same weights."""
    model = Eda(dataclasses.replace(TINY, network=dataclasses.replace(TINY.network, **options)))
    model.network.__class__ = kind
    return model


def broken(report: EquivarianceReport) -> set[str]:
    return {result.law for result in report.results if not result.holds}


# -- sound models ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def report(seen) -> EquivarianceReport:
    return check_equivariance(
        model_of(), draws=2, points=12, seed=1, progress=lambda done, total: seen.append((done, total))
    )


def test_a_sound_model_holds_in_both_precisions(report):
    assert report.holds
    assert broken(report) == set()
    assert report.field_norm > 0
    assert report.draws == 2
    assert [(r.law, r.dtype) for r in report.results] == [(n, d) for d in ("float32", "float64") for n in NAMES]


def test_errors_are_rounding_but_not_all_zero(report):
    """An error of exactly zero everywhere would mean that nothing was changed."""
    for dtype, largest in (("float32", 1e-4), ("float64", 1e-12)):
        rows = [r for r in report.results if r.dtype == dtype]
        assert all(0 <= r.relative < largest for r in rows)
        assert sum(r.relative > 0 for r in rows) >= 4
        assert all((r.absolute > 0) == (r.relative > 0) for r in rows)


def test_float64_is_closer_than_float32(report):
    half = len(NAMES)
    for single, double in zip(report.results[:half], report.results[half:], strict=True):
        assert single.law == double.law
        assert double.bound < single.bound
        assert double.relative <= single.relative


def test_progress_counts_every_draw(report, seen):
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_report_is_plain_json(report):
    values = report.as_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["holds"] is True
    assert values["draws"] == 2
    assert values["field_norm"] == report.field_norm
    assert len(values["laws"]) == len(report.results)
    assert values["laws"][0] == {**dataclasses.asdict(report.results[0]), "holds": True}


@pytest.mark.parametrize(
    "options",
    [
        dict(cross_neighbors=None, time_in_encoder=False),
        dict(normals="unoriented"),
        dict(normals="absent", max_degree=1),
        dict(match_width=8, time_in_encoder=False),
    ],
    ids=["all neighbours, time-free encoder", "unoriented", "no normals, degree 1", "matches"],
)
def test_every_kind_of_network_holds(options):
    assert check_equivariance(model_of(**options), draws=1, points=12, seed=1, dtypes=DOUBLE).holds


def test_fits_to_matches_may_round_as_much_as_encoding_anew(report):
    matched = check_equivariance(model_of(match_width=8, time_in_encoder=False), draws=1, points=12, dtypes=DOUBLE)
    once, again, *_ = (
        [r.bound for r in rows[: len(NAMES)]] for rows in (matched.results, report.results[len(NAMES) :])
    )
    assert once[:4] == [1e-12] * 4
    assert again[:4] == [1e-13, 1e-13, 1e-12, 1e-12]
    assert once[4:] == again[4:]


def test_the_seed_decides_the_report_and_nothing_else_is_touched():
    model, state = model_of(), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    one, same, other = (check_equivariance(model, draws=1, points=12, seed=s, dtypes=DOUBLE) for s in (3, 3, 4))
    assert one == same
    assert one.field_norm != other.field_norm
    assert {r.dtype for r in one.results} == {"float64"}
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, before[name])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


# -- broken models -----------------------------------------------------------------------------------------


class Drifting(EdaNetwork):
    """Adds one vector to all velocities, which does not turn with the pieces."""

    def relate(self, tokens, poses, tau, *bold):
        return super().relate(tokens, poses, tau, *bold) + 0.1 * torch.eye(6)[4].to(tau)


class Counting(EdaNetwork):
    """Moves later pieces faster."""

    def relate(self, tokens, poses, tau, *bold):
        return super().relate(tokens, poses, tau, *bold) * torch.arange(1.0, 1 + len(poses)).to(tau)[:, None]


class FrameSeeing(EdaNetwork):
    """Turns every piece about an axis of its own frame: it sees the pose, not only the moved piece."""

    def relate(self, tokens, poses, tau, *bold):
        own_axis = torch.nn.functional.pad(poses.rotation[:, :, 0], (0, 3))
        return super().relate(tokens, poses, tau, *bold) + 0.1 * own_axis


class Slipping(EdaNetwork):
    """A constant drift a thousand times the rounding of float32, and far below what an eye would see."""

    def relate(self, tokens, poses, tau, *bold):
        return super().relate(tokens, poses, tau, *bold) + 1e-4 * torch.eye(6)[0].to(tau)


TURNED = {"L_R", "whole moved", "samples, whole turned"}
PERMUTED = {"L_P", "samples, pieces permuted"}
FRAMED = {"Prop. 4.5", "samples, pieces turned"}

# Seeds whose first draw does not permute its two pieces by the identity.
PERMUTING = {torch.float32: 1, torch.float64: 3}


@pytest.mark.parametrize(
    ("kind", "laws"),
    [
        (Drifting, TURNED),
        (Slipping, TURNED),
        (Counting, PERMUTED),
        (FrameSeeing, FRAMED),
    ],
)
def test_a_broken_model_is_caught_by_its_law_and_no_other(kind, laws):
    report = check_equivariance(model_of(kind), draws=1, points=12, seed=PERMUTING[torch.float64], dtypes=DOUBLE)
    assert broken(report) == laws
    assert not report.holds
    assert report.as_dict()["holds"] is False
    assert {row["law"] for row in report.as_dict()["laws"] if not row["holds"]} == laws


class Lawless(Counting, FrameSeeing, Drifting):
    """Breaks all laws at once."""


def test_a_lawless_model_is_caught_in_float32():
    seed, dtypes = PERMUTING[torch.float32], (torch.float32,)
    report = check_equivariance(model_of(Lawless), draws=1, points=12, seed=seed, dtypes=dtypes)
    assert broken(report) == set(NAMES)


def test_every_law_can_be_broken():
    """The cases above leave no law untried."""
    assert set(NAMES) == TURNED | PERMUTED | FRAMED


def test_one_draw_is_enough_to_see_a_broken_permutation():
    report = check_equivariance(model_of(Counting), draws=1, points=12, dtypes=DOUBLE)
    assert "L_P" in broken(report)


# -- nothing to see ----------------------------------------------------------------------------------------


def test_a_field_of_zero_does_not_hold():
    model = model_of()
    torch.nn.init.zeros_(model.network.head.output.weight)
    report = check_equivariance(model, draws=1, points=12, dtypes=DOUBLE)
    assert report.field_norm == 0
    assert broken(report) == set()
    assert not report.holds
    assert report.as_dict()["holds"] is False


def row(relative: float) -> LawResult:
    return LawResult("L_R", "", "float64", relative, relative, 1e-13)


@pytest.mark.parametrize(("relative", "holds"), [(0.0, True), (1e-13, True), (2e-13, False), (math.inf, False)])
def test_a_law_holds_up_to_its_bound(relative, holds):
    assert row(relative).holds is holds
    assert EquivarianceReport([row(0.0), row(relative)], 1.0, 1).holds is holds


def test_nan_does_not_hold():
    assert not row(math.nan).holds
    assert not EquivarianceReport([row(0.0), row(math.nan)], 1.0, 1).holds
    assert not EquivarianceReport([row(0.0)], math.nan, 1).holds


class NanBetweenSteps(EdaNetwork):
    """NaN at all times but those at which samples are made."""

    def relate(self, tokens, poses, tau, *bold):
        velocity = super().relate(tokens, poses, tau, *bold)
        return velocity if float(tau[0]) in (0, 0.25, 0.5, 0.75) else velocity * torch.nan


class NanForTwo(NanBetweenSteps):
    """The same for puzzles of two pieces only, which is the first of every seven draws."""

    def relate(self, tokens, poses, tau, *bold):
        kind = NanBetweenSteps if len(poses) == 2 else EdaNetwork
        return kind.relate(self, tokens, poses, tau, *bold)


def test_a_field_of_nan_does_not_hold():
    report = check_equivariance(model_of(NanBetweenSteps), draws=1, points=12, dtypes=DOUBLE)
    assert broken(report) == {"L_R", "L_P", "whole moved", "Prop. 4.5"}
    assert not report.holds


def test_nan_in_one_draw_does_not_hold():
    report = check_equivariance(model_of(NanForTwo), draws=3, points=12, dtypes=DOUBLE)
    assert not report.holds


def test_weights_of_nan_do_not_hold():
    model = model_of()
    torch.nn.init.constant_(model.network.head.output.weight, torch.nan)
    assert not check_equivariance(model, draws=1, points=12, dtypes=DOUBLE).holds


def test_no_draws_are_an_input_error():
    with pytest.raises(ValueError, match="draws"):
        check_equivariance(model_of(), draws=0)
