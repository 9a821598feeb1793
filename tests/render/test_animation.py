"""Animations: their frames, their camera, and the poses between two others."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from support.lumpy_shapes import lumpy_puzzle
from support.rigid_motions import random_motion_in_box, transform_points

from eda import SE3, InputError
from eda.render import animate
from eda.render.animation import interpolate_poses


def test_an_animation_has_its_frames_and_one_camera():
    puzzle = lumpy_puzzle(2, size=200)
    twist = torch.zeros(2, 6, dtype=torch.float64)
    twist[0, 3] = 2.0
    times = (1.0, 0.6, 0.3, 0.0)
    poses = SE3.stack([SE3.exp(t * twist) @ puzzle.solution for t in times])
    content = animate(puzzle.pieces, poses, size=96, milliseconds=50)
    with Image.open(io.BytesIO(content)) as film:
        assert (film.n_frames, film.size, film.info["loop"]) == (4, (96, 96), 0)
        pictures = []
        for number in range(4):
            film.seek(number)
            pictures.append(np.asarray(film.convert("RGB")).astype(int))
        assert film.info["duration"] > 50  # it rests at the end
    # The first piece, blue, is on its way; the other, orange, is where it was.
    blue = [p[..., 2] - p[..., 0] > 20 for p in pictures]
    orange = [p[..., 0] - p[..., 2] > 20 for p in pictures]
    assert (blue[0] & blue[3]).sum() < 0.7 * blue[3].sum()
    hidden = blue[0] | blue[3]
    assert (orange[0] ^ orange[3])[~hidden].sum() < 0.05 * orange[3].sum()
    assert orange[3].sum() > 100


def test_an_animation_needs_a_time_axis():
    puzzle = lumpy_puzzle(2)
    with pytest.raises(InputError, match=r"\(T, N\)"):
        animate(puzzle.pieces, puzzle.solution)


def test_the_way_between_poses_ends_at_the_second_and_turns_about_the_middles():
    rng = np.random.default_rng(3)
    start, end = (np.stack([random_motion_in_box(rng) for _ in range(3)]) for _ in range(2))
    middles = rng.normal(size=(3, 3))
    way = interpolate_poses(start, end, middles, 4)
    np.testing.assert_allclose(way[-1], end, atol=1e-12)
    for i in range(3):
        places = np.array([transform_points(pose[i], middles[i : i + 1])[0] for pose in (start, *way)])
        np.testing.assert_allclose(places, np.linspace(places[0], places[-1], 5), atol=1e-12)
        turns = [a[i, :3, :3].T @ b[i, :3, :3] for a, b in zip((start, *way), way, strict=False)]
        np.testing.assert_allclose([np.trace(turn) for turn in turns], np.trace(turns[0]), atol=1e-9)
