"""Folders of pieces in place, on boxes in a row and on the real ones."""

import pickle

import numpy as np
import pytest
from support.dataset_files import box, lowest, real_data, row_of_boxes, write_ply

from eda.data.example import OUTER
from eda.data.piece_files import read_as_one
from eda.data.readers.piece_folders import PieceFolders
from eda.errors import InputError


@pytest.fixture
def folders(tmp_path):
    """A dataset of two puzzles, of which one is in no list."""
    root = tmp_path / "data"
    for name, starts in (("toy/x/original", (0, 1)), ("toy/y/original", (0, 1, 2))):
        for part, start in enumerate(starts):
            write_ply(root / "toy" / name / f"part_{part:03d}.ply", *box(start, 1))
    (root / "toy" / "data_split").mkdir()
    (root / "toy" / "data_split" / "train.txt").write_text("toy/y/original\ntoy/gone/original\n")
    return root


def test_ply_folders_with_and_without_a_split(folders):
    assert PieceFolders(folders).items == ("toy/toy/x/original", "toy/toy/y/original")
    for root in (folders, folders / "toy"):
        source = PieceFolders(root, split="train")
        assert [item.endswith("toy/y/original") for item in source.items] == [True]
        assert source.num_missing == 1
        assert lowest(source[0]) == pytest.approx([0, 1, 2], abs=0.05)
    with pytest.raises(InputError, match=r"data_split/val\.txt"):
        len(PieceFolders(folders, split="val"))


def test_one_folder_of_parts_is_one_puzzle(folders):
    source = PieceFolders(folders / "toy/toy/x/original")
    assert len(source) == 1
    assert source[0].name == "original"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[0].points, source[0].points)


def test_clouds_as_ply(tmp_path):
    rng = np.random.default_rng(0)
    clouds, normals = rng.normal(size=(2, 2, 30, 3))
    for part in range(2):
        write_ply(tmp_path / "known" / f"part_{part}.ply", clouds[part], None, normals[part])
        write_ply(tmp_path / "zero" / f"part_{part}.ply", clouds[part], None, normals[part] * part)
        write_ply(tmp_path / "none" / f"part_{part}.ply", clouds[part])
    known, without, zero = PieceFolders(tmp_path)
    assert (known.name, without.name, zero.name) == ("known", "none", "zero")
    whole = np.concatenate(clouds)
    np.testing.assert_allclose(known.points, whole - whole.mean(axis=0), atol=1e-6)
    length = np.linalg.norm(np.concatenate(normals), axis=1, keepdims=True)
    np.testing.assert_allclose(known.normals, np.concatenate(normals) / length, atol=1e-6)
    assert without.normals is None
    assert zero.normals is None
    assert all(example.normals is not None for example in PieceFolders(tmp_path, neighbors=8))


def test_furniture_seen_from_both_sides_looks_outward(tmp_path):
    for part in range(2):
        vertices, faces = row_of_boxes([1, 1], [part])
        write_ply(tmp_path / f"part_{part}.ply", vertices, np.concatenate([faces, faces[:, ::-1]]))
    example = PieceFolders(tmp_path)[0]
    for cloud, normals in zip(example.clouds(), example.clouds(example.normals), strict=True):
        centre = (cloud.max(axis=0) + cloud.min(axis=0)) / 2
        assert ((cloud - centre) * normals).sum(axis=1).min() > 0


@pytest.mark.parametrize(
    "content",
    [b"", b"ply\n", b"garbage", b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nend_header\n1\n"],
)
def test_damaged_ply_is_named(folders, content):
    path = folders / "toy/toy/x/original/part_001.ply"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"part_001\.ply|part 1"):
        PieceFolders(folders)[0]


def test_nan_in_a_ply_is_named(folders):
    vertices, faces = box(0, 1)
    write_ply(folders / "toy/toy/x/original/part_001.ply", vertices * np.nan, faces)
    with pytest.raises(InputError, match=r"part_001\.ply.*NaN"):
        PieceFolders(folders)[0]


def test_a_folder_without_parts_is_named(tmp_path):
    with pytest.raises(InputError, match="no folder of pieces"):
        len(PieceFolders(tmp_path))
    with pytest.raises(InputError, match="not a folder"):
        len(PieceFolders(tmp_path / "nowhere"))


def test_the_real_parts_are_read():
    folder = real_data("rpf_demo")
    source = PieceFolders(folder, num_points=1000)
    assert len(source) == len(list(folder.glob("*/part_000.ply")))
    for item, example in zip(source.items, source, strict=True):
        files = sorted((folder / item).glob("*.ply"))
        assert example.num_pieces == len(files)
        # Sampled points lie within the boxes of what was read, relative to the first part.
        boxes = [read_as_one(file).points for file in files]
        shift = boxes[0].min(axis=0) - example.clouds()[0].min(axis=0)
        extent = float(np.ptp(np.concatenate(boxes), axis=0).max())
        for vertices, cloud in zip(boxes, example.clouds(), strict=True):
            assert (cloud + shift).min(axis=0) == pytest.approx(vertices.min(axis=0), abs=0.15 * extent)


def test_real_fractures_touch_where_the_file_has_broken_faces():
    folder = real_data("rpf_demo") / "everyday_BeerBottle_6da7fa9722b2a12d195232a03d04563a_fractured_37"
    example = PieceFolders(folder, contact=True)[0]
    touching = [set(np.unique(label)) - {OUTER} for label in example.clouds(example.contact)]
    assert all(touching)
    for i, others in enumerate(touching):
        for j in others:
            assert i in touching[j]
