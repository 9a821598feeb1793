"""PairScorer poses: one only moves the finished assembly; several make their pieces one rigid piece."""

import math

import pytest
import torch
from support.lumpy_shapes import lumpy_pieces
from support.rigid_motions import random_se3

from eda import Eda, EdaConfig, NetworkConfig
from eda.errors import InputError
from eda.flow import sample_noise
from eda.lie import SE3
from eda.pieces import Pieces
from eda.registration.rigid_groups import merge_pinned

COUNTS = (3, 4)
TOTAL = sum(COUNTS)

# The pieces of puzzle 0 are 0, 1, 2; those of puzzle 1 are 3, 4, 5, 6.
PINNED = {
    "one": (1,),
    "two": (0, 2),
    "three": (4, 5, 6),
    "two puzzles": (0, 2, 3, 6),
    "one in each": (2, 5),
    "a whole puzzle": (0, 1, 2),
    "everything": tuple(range(TOTAL)),
}

all_cases = pytest.mark.parametrize("pinned", PINNED.values(), ids=PINNED.keys())


def batch(dtype: torch.dtype = torch.float64, *, normals: bool = True) -> Pieces:
    return Pieces.collate([lumpy_pieces(n, 16, seed=n, dtype=dtype, normals=normals) for n in COUNTS])


def poses(count: int = TOTAL, seed: int = 0) -> SE3:
    return random_se3(count, seed)


def pins_of(indices: tuple[int, ...], seed: int = 5) -> dict[int, SE3]:
    known = poses(seed=seed)
    return {i: known[i] for i in indices}


def puzzle_of(piece: int) -> int:
    return 0 if piece < COUNTS[0] else 1


def clouds(pieces: Pieces, of: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.split(of, pieces.sizes.tolist()))


def distances(points: torch.Tensor) -> torch.Tensor:
    return (points[:, None] - points).norm(dim=-1)


def members(merged, part: int) -> list[int]:
    """The original pieces of a merged one."""
    return [i for i, other in enumerate(merged.groups.group.tolist()) if other == part]


def expected_groups(pinned: tuple[int, ...]) -> list[list[int]]:
    """The pinned pieces of a puzzle together, in the place of the first of them; the others alone."""
    groups: list[list[int]] = []
    for piece in range(TOTAL):
        together = [i for i in pinned if puzzle_of(i) == puzzle_of(piece)]
        if piece not in together:
            groups.append([piece])
        elif piece == min(together):
            groups.append(sorted(together))
    return groups


# -- merging -------------------------------------------------------------------------------------------------


@all_cases
def test_pinned_pieces_of_a_puzzle_become_one(pinned):
    merged, groups = merge_pinned(batch(), pins_of(pinned)), expected_groups(pinned)
    assert [members(merged, part) for part in range(merged.pieces.num_pieces)] == groups
    assert merged.pieces.counts.tolist() == [sum(puzzle_of(g[0]) == b for g in groups) for b in (0, 1)]
    sizes = batch().sizes.tolist()
    assert merged.pieces.sizes.tolist() == [sum(sizes[i] for i in group) for group in groups]


@all_cases
@pytest.mark.parametrize("normals", [True, False])
def test_a_merged_cloud_is_the_union_of_the_placed_clouds(pinned, normals):
    """Up to its recentring; what is not pinned stays as it was."""
    pieces, pins = batch(normals=normals), pins_of(pinned)
    merged = merge_pinned(pieces, pins)
    for part, group in enumerate(expected_groups(pinned)):
        cloud = clouds(merged.pieces, merged.pieces.points)[part]
        if group[0] in pins:
            placed = torch.cat(
                [clouds(pieces, pieces.points)[i] @ pins[i].rotation.mT + pins[i].translation for i in group]
            )
            torch.testing.assert_close(cloud, placed - placed.mean(0), rtol=0, atol=1e-13)
        else:
            assert torch.equal(cloud, clouds(pieces, pieces.points)[group[0]])
        if normals:
            turned = [
                clouds(pieces, pieces.normals)[i] @ (pins[i].rotation.mT if i in pins else torch.eye(3).double())
                for i in group
            ]
            found = clouds(merged.pieces, merged.pieces.normals)[part]
            torch.testing.assert_close(found, torch.cat(turned), rtol=0, atol=1e-13)


@all_cases
def test_merged_pieces_are_centred(pinned):
    centroids = merge_pinned(batch(), pins_of(pinned)).pieces.centroids()
    torch.testing.assert_close(centroids, torch.zeros_like(centroids), rtol=0, atol=1e-14)


@all_cases
def test_the_scale_is_kept(pinned):
    assert torch.equal(merge_pinned(batch(), pins_of(pinned)).pieces.scales, batch().scales)


@all_cases
def test_poses_of_merged_pieces_place_the_same_points(pinned):
    """Merged pieces moved, or the original ones by the restored poses, up to one motion per puzzle."""
    pieces = batch()
    merged = merge_pinned(pieces, pins_of(pinned))
    drawn = poses(merged.pieces.num_pieces, seed=9)
    ours, theirs = pieces.move(merged.expand(drawn)), merged.pieces.move(drawn)
    by_piece = clouds(pieces, ours.points)
    groups = expected_groups(pinned)
    for b in (0, 1):
        parts = [part for part, group in enumerate(groups) if puzzle_of(group[0]) == b]
        restored = torch.cat([by_piece[i] for part in parts for i in groups[part]])
        moved = torch.cat([clouds(merged.pieces, theirs.points)[part] for part in parts])
        torch.testing.assert_close(distances(restored), distances(moved), rtol=0, atol=1e-12)


# -- taking apart --------------------------------------------------------------------------------------------


@all_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pinned_poses_come_back_to_the_last_bit(pinned, dtype):
    pins = pins_of(pinned)
    merged = merge_pinned(batch(dtype), pins)
    restored = merged.expand(poses(merged.pieces.num_pieces, seed=9).to(dtype))
    assert restored.rotation.dtype == dtype
    for i in pinned:
        assert torch.equal(restored[i].rotation, pins[i].rotation.to(dtype))
        assert torch.equal(restored[i].translation, pins[i].translation.to(dtype))


@all_cases
def test_unpinned_pieces_keep_their_place_beside_the_pinned_ones(pinned):
    """In the frame of the rigid piece, g_rigid^-1 g_i, as it was found."""
    pins = pins_of(pinned)
    merged = merge_pinned(batch(), pins)
    drawn = poses(merged.pieces.num_pieces, seed=9)
    restored = merged.expand(drawn)
    for i in set(range(TOTAL)) - set(pinned):
        part = int(merged.groups.group[i])
        anchors = [j for j in pinned if puzzle_of(j) == puzzle_of(i)]
        if not anchors:
            torch.testing.assert_close(restored[i].matrix(), drawn[part].matrix(), rtol=0, atol=1e-15)
        for j in anchors:
            rigid = int(merged.groups.group[j])
            found = (drawn[rigid] @ merged.groups.T_group_piece[j]).inverse() @ drawn[part]
            torch.testing.assert_close(
                (restored[j].inverse() @ restored[i]).matrix(), found.matrix(), rtol=0, atol=1e-12
            )


@all_cases
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_restoring_keeps_leading_dimensions(pinned, leading):
    merged = merge_pinned(batch(), pins_of(pinned))
    count = merged.pieces.num_pieces
    drawn = poses(math.prod(leading) * count, seed=9)
    together = merged.expand(drawn.reshape(*leading, count))
    assert together.shape == (*leading, TOTAL)
    flat, rows = together.reshape(-1, TOTAL), drawn.reshape(-1, count)
    for k in range(len(rows)):
        torch.testing.assert_close(flat[k].matrix(), merged.expand(rows[k]).matrix(), rtol=0, atol=1e-14)


def test_restoring_leaves_its_argument_alone():
    merged = merge_pinned(batch(), pins_of((0, 2)))
    drawn = poses(merged.pieces.num_pieces, seed=9)
    before = drawn.matrix()
    merged.expand(drawn)
    assert torch.equal(drawn.matrix(), before)


# -- sampling with pins --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Eda:
    network = NetworkConfig(
        num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=4, channels=8, num_heads=2, spacing=0.1
    )
    return Eda(EdaConfig(network=network)).double()


def draw_noise(pieces: Pieces, samples: int) -> SE3:
    return sample_noise(pieces, 0.5, samples=samples, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("index", [0, 4])
def test_one_pin_only_moves_the_assembly(model, index):
    """From the same noise, the assembly is the one without the pin, moved as a whole; other puzzles stay."""
    pieces, pins, options = batch(), pins_of((index,)), {"solver": "rk1", "steps": 4}
    noise = draw_noise(pieces, 2)
    merged = merge_pinned(pieces, pins)
    free = model.sample(pieces, 2, noise=noise, **options)
    pinned = model.sample(pieces, 2, noise=noise @ merged.groups.T_group_piece.inverse(), pins=pins, **options)
    own = [i for i in range(TOTAL) if puzzle_of(i) == puzzle_of(index)]
    for k in range(2):
        shift = pins[index] @ free[k, index].inverse()
        wanted = (shift @ free[k, own]).matrix()
        torch.testing.assert_close(pinned[k, own].matrix(), wanted, rtol=0, atol=1e-9)
        others = [i for i in range(TOTAL) if i not in own]
        torch.testing.assert_close(pinned[k, others].matrix(), free[k, others].matrix(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("pinned", [(0, 2), (0, 2, 3, 6), (0, 1, 2)], ids=str)
def test_pins_hold_along_the_whole_walk(model, pinned):
    pins = pins_of(pinned)
    walked = model.trajectory(batch(), 2, pins=pins, steps=2, generator=torch.Generator().manual_seed(1)).poses
    assert walked.shape == (3, 2, TOTAL)
    assert walked.isfinite()
    for i in pinned:
        assert (walked[..., i].matrix() == pins[i].matrix()).all()
    assert (walked[0, :, 4].matrix() != walked[-1, :, 4].matrix()).any()


def test_a_puzzle_without_pins_does_not_feel_those_of_another(model):
    """Puzzle 1 is walked as it is without them, from the same noise."""
    pieces, pins = batch(), pins_of((0, 2))
    merged = merge_pinned(pieces, pins)
    noise = draw_noise(merged.pieces, 1)
    with_pins = model.sample(pieces, noise=noise, pins=pins, steps=2)
    alone = model.sample(lumpy_pieces(4, 16, seed=4), noise=noise[:, 2:], steps=2)
    torch.testing.assert_close(with_pins[:, 3:].matrix(), alone.matrix(), rtol=0, atol=1e-10)


# -- refusals ------------------------------------------------------------------------------------------------


def with_rotation(matrix: torch.Tensor) -> SE3:
    return SE3(matrix.double(), torch.zeros(3, dtype=torch.float64))


BROKEN = {
    "scales": with_rotation(1.1 * torch.eye(3)),
    "shears": with_rotation(torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
    "mirrors": with_rotation(torch.diag(torch.tensor([1.0, 1.0, -1.0]))),
    "vanishes": with_rotation(torch.zeros(3, 3)),
    "NaN in rotation": with_rotation(torch.eye(3) * torch.nan),
    "NaN in translation": SE3(torch.eye(3), torch.tensor([0.0, torch.nan, 0.0])),
    "infinite": SE3(torch.eye(3), torch.tensor([0.0, torch.inf, 0.0])),
    "batch of one": SE3.identity(1),
    "batch": SE3.identity(2),
}


@pytest.mark.parametrize("pin", BROKEN.values(), ids=BROKEN.keys())
def test_a_pin_that_is_no_pose_is_refused(pin):
    with pytest.raises(InputError, match="piece 1"):
        merge_pinned(batch(), {1: pin})


@pytest.mark.parametrize("index", [-1, TOTAL, TOTAL + 5])
def test_a_pin_of_a_piece_that_is_not_there_is_refused(index):
    with pytest.raises(InputError, match=str(index)):
        merge_pinned(batch(), {index: SE3.identity()})


def test_a_pin_of_another_precision_is_taken():
    merged = merge_pinned(batch(), {1: SE3.identity(dtype=torch.float32)})
    assert merged.pieces.points.dtype == torch.float64
