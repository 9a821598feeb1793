"""Scenes: pieces moved apart, coloured, and seen from the best side."""

import numpy as np
import pytest
from support.lumpy_shapes import lumpy_cloud, lumpy_puzzle
from support.picture_scenes import blob

from eda import SE3, InputError
from eda.data import OUTER, Example
from eda.render import best_view, colors_by_break, colors_by_piece, explode, piece_colors, posed_example
from eda.render.colors import BREAK, FOREIGN
from eda.render.scene import disc_radii, lay_out, own_point_mask, piece_of_point
from eda.render.sheet import caption


@pytest.mark.parametrize("factor", [1.0, 1.7, 3.0])
def test_exploding_moves_pieces_away_from_the_middle(factor):
    example = blob()
    before = np.stack([c.mean(axis=0) for c in example.clouds()])
    after = np.stack([c.mean(axis=0) for c in example.clouds(explode(example, factor))])
    middle = before.mean(axis=0)
    assert np.allclose(after - middle, factor * (before - middle), atol=1e-5)
    shape = [c - c.mean(axis=0) for c in example.clouds()]
    moved = [c - c.mean(axis=0) for c in example.clouds(explode(example, factor))]
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(shape, moved, strict=True))


def test_foreign_pieces_are_grey_and_lie_below_the_others():
    example = blob(foreign=True)
    camera = best_view(example)
    seen = camera.rotate(lay_out(example, camera))
    own = own_point_mask(example)
    assert seen[~own, 1].max() < seen[own, 1].min()
    grey = {tuple(c) for c in colors_by_piece(example)[~own]}
    assert grey == {tuple(c) for c in FOREIGN}
    assert np.array_equal(colors_by_piece(example)[own], piece_colors(4)[piece_of_point(example)[own]])
    assert caption(example) == "3 pieces + 1 foreign"


def test_breaks_are_red_where_they_are_known():
    example = blob()
    red = (colors_by_break(example) == BREAK).all(axis=1)
    assert np.array_equal(red, example.contact != OUTER)
    assert colors_by_break(blob(contact=False)) is None


def test_a_long_thing_is_drawn_upright():
    points = lumpy_cloud(0, 400)[0] * [0.2, 3.0, 0.2]
    camera = best_view(Example.from_clouds("rod", [points[:200], points[200:]]))
    place = camera.framing(points).project(points)
    assert np.ptp(place[:, 1]) > 3 * np.ptp(place[:, 0])


def test_the_view_shows_the_piece_that_lies_at_the_side():
    """A small piece on one side of a pillar is on the side that is looked at."""
    rng = np.random.default_rng(0)
    pillar = rng.uniform(-1, 1, size=(1500, 3)) * [0.6, 0.8, 2]
    for side in (-1, 1):
        small = rng.uniform(-0.3, 0.3, size=(200, 3)) + np.array([0.8 * side, 0, 0])
        camera = best_view(Example.from_clouds("pillar", [pillar, small]))
        assert camera.rotation[2, 0] * side > 0


def test_a_solution_is_drawn_where_its_poses_put_it():
    puzzle = lumpy_puzzle(3)
    example = posed_example(puzzle.pieces, puzzle.solution, "solved")
    assert np.allclose(example.points, puzzle.pieces.move(puzzle.solution).points.numpy())
    with pytest.raises(InputError, match="one puzzle"):
        posed_example(type(puzzle).collate([puzzle, puzzle]).pieces, SE3.cat([puzzle.solution, puzzle.solution]))


def test_between_points_seen_from_afar_there_are_no_large_discs():
    """A level street of points 0.5 m apart, and a few 20 m apart far away."""
    near = np.stack(np.meshgrid(np.arange(0, 10, 0.5), np.arange(0, 10, 0.5), [0.0]), axis=-1).reshape(-1, 3)
    far = np.stack(np.meshgrid(np.arange(100, 180, 20.0), np.arange(0, 80, 20.0), [0.0]), axis=-1).reshape(-1, 3)
    example = Example.from_clouds("street", [np.concatenate([near, far]), near + 0.1])
    radii = disc_radii(example)
    assert radii.max() < 1.0
    assert np.median(radii[: len(near)]) >= 0.5
