"""The Breaking Bad pack: a tiny one of known content, and the real one against geometry."""

import pickle

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.dataset_files import real_data, write_fracture_pack

from eda.data.example import OUTER
from eda.data.readers.breaking_bad_pack import BreakingBadPack
from eda.errors import InputError


@pytest.fixture
def fractures():
    rng = np.random.default_rng(0)
    return [[rng.uniform(-0.5, 0.5, (n, 3)) for n in sizes] for sizes in ((5, 6), (4, 7, 8))]


CONTACT = np.array([1] * 2 + [255] * 9 + [2] * 4 + [255] * 7 + [0] * 8, dtype=np.uint8)


def test_a_fracture_pack_is_read(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    for path in (tmp_path / "pack.npz", tmp_path):
        source = BreakingBadPack(path)
        assert [example.name for example in source] == ["everyday/Cup/s0/mode_0", "everyday/Cup/s1/mode_0"]
        example = source[1]
        whole = np.concatenate(fractures[1])
        np.testing.assert_allclose(example.points, whole - whole.mean(axis=0), atol=2e-5)
        assert example.sizes.tolist() == [4, 7, 8]
        assert example.contact.tolist() == [2] * 4 + [OUTER] * 7 + [0] * 8
        np.testing.assert_allclose(example.normals, np.tile([0, 0, 1], (19, 1)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[0].points, source[0].points)


def test_categories(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    assert len(BreakingBadPack(tmp_path, categories=("Cup", "Vase"))) == 2
    with pytest.raises(InputError, match="no fractures of Vase"):
        len(BreakingBadPack(tmp_path, categories=("Vase",)))


def test_halves_share_no_shape_and_are_all_together(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    halves = {half: [example.name for example in BreakingBadPack(tmp_path, half=half)] for half in ("even", "odd")}
    assert halves == {"even": ["everyday/Cup/s0/mode_0"], "odd": ["everyday/Cup/s1/mode_0"]}
    with pytest.raises(InputError, match="half"):
        BreakingBadPack(tmp_path, half="first")


@pytest.mark.parametrize(
    "changes",
    [
        {"contact": None},
        {"index": np.array("not json")},
        {"index": np.array("[{}, {}]")},
        {"index": np.array("[]")},
        {"piece_offset": np.array([0, 5, 11])},
        {"piece_offset": np.array([0, 11, 5, 22, 15, 30])},
        {"fracture_offset": np.array([0, 2, 9])},
        {"normals_i8": np.zeros((30, 3), np.int8)},
        {"contact": CONTACT[:-1]},
        {"points_u16": np.array([{}], dtype=object)},
    ],
)
def test_a_damaged_fracture_pack_is_named(tmp_path, fractures, changes):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT, **changes)
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04garbage"])
def test_what_is_no_npz_is_named(tmp_path, content):
    (tmp_path / "pack.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


def test_a_truncated_fracture_pack_is_named(tmp_path, fractures):
    write_fracture_pack(tmp_path / "pack.npz", fractures, CONTACT)
    content = (tmp_path / "pack.npz").read_bytes()
    (tmp_path / "pack.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"pack\.npz"):
        len(BreakingBadPack(tmp_path))


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"expected one \*\.npz"):
        len(BreakingBadPack(tmp_path))


def test_real_contact_lies_where_the_pieces_meet():
    """Every point that is said to touch a piece has a point of it nearby, facing it."""
    source = BreakingBadPack(real_data("breaking_bad"))
    assert len(source) == 531
    faced = []
    for index in range(0, len(source), 100):
        example = source[index]
        assert 2 <= example.num_pieces <= 8
        clouds, normals, labels = (example.clouds(v) for v in (example.points, example.normals, example.contact))
        nearest = np.concatenate([cKDTree(cloud).query(cloud, k=2)[0][:, 1] for cloud in clouds])
        spacing = 2 * np.median(nearest)
        for i, label in enumerate(labels):
            assert (label != i).all()
            assert label.max() < example.num_pieces
            for j in np.unique(label[label >= 0]):
                rows = label == j
                distance, other = cKDTree(clouds[j]).query(clouds[i][rows], k=8)
                facing = (normals[i][rows][:, None] * normals[j][other]).sum(axis=-1)
                assert distance[:, 0].max() < 2.5 * spacing
                faced.append(facing.min(axis=1) < -0.8)
    assert np.concatenate(faced).mean() > 0.9
