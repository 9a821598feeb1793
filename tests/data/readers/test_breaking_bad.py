"""Breaking Bad on boxes in a row, of which everything is known: walls, volumes, contact."""

import dataclasses
import pickle

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.dataset_files import row_of_boxes, write_compressed, write_decompressed, write_obj, write_split

from eda.data.contact_labels import contact_labels
from eda.data.example import OUTER
from eda.data.mesh_samples import sample_surfaces
from eda.data.meshes import Mesh, cancel_opposite_faces, merge_vertices
from eda.data.readers.breaking_bad import BreakingBad, read_compressed, read_decompressed, read_obj
from eda.data.source import LeftOut
from eda.errors import InputError
from eda.recipes import RECIPES

WIDTHS = (1.0, 1.0, 0.5, 1.5)
FRACTURES = {"fractured_0": (0, 0, 1, 1), "mode_0": (0, 1, 1, 2)}
WRITERS = {"compressed": write_compressed, "decompressed": write_decompressed}


@pytest.fixture(params=WRITERS)
def root(request, tmp_path):
    """One object of the train split, one of the val split, and one that is listed but was never made."""
    name = "everyday_compressed" if request.param == "compressed" else "everyday"
    for identity in ("a1", "b2"):
        WRITERS[request.param](tmp_path / name / "Cup" / identity, WIDTHS, FRACTURES)
    write_split(tmp_path, "everyday", "train", ["everyday/Cup/a1", "everyday/Cup/lost"])
    write_split(tmp_path, "everyday", "val", ["everyday/Cup/b2"])
    return tmp_path


def test_the_lists_say_what_is_read(root):
    train, val, everything = (BreakingBad(root, split=split) for split in ("train", "val", "all"))
    assert [len(source) for source in (train, val, everything)] == [2, 2, 4]
    assert [source.num_missing for source in (train, val, everything)] == [1, 0, 0]
    assert all("a1" in example.name for example in train)
    assert all("b2" in example.name for example in val)


def test_pieces_lie_where_they_were_cut(root):
    """`fractured_0`: two boxes, [0, 2] and [2, 4] along x."""
    example = BreakingBad(root)[0]
    assert example.name.endswith("Cup/a1/fractured_0")
    assert example.num_pieces == 2
    left, right = (cloud[:, 0] for cloud in example.clouds())
    gap = right.max() - left.min()
    assert gap == pytest.approx(4, abs=0.02)
    assert left.max() == pytest.approx(right.min(), abs=1e-5)
    assert left.max() - left.min() == pytest.approx(2, abs=0.01)
    # Each has 10 units of surface, of 20 in all.
    assert example.sizes.tolist() == [5000, 5000]


def test_no_point_lies_on_a_wall_between_cells(root):
    example = BreakingBad(root, num_points=3000)[1]  # mode_0: the middle piece is two cells, glued at x = 2
    middle = example.clouds()[1]
    x = middle[:, 0] - middle[:, 0].min()
    inside = (np.abs(middle[:, 1:] - middle[:, 1:].mean(axis=0)) < 0.45).all(axis=1)
    assert inside.sum() > 50
    assert set(np.round(x[inside], 4)) == {0.0, 1.5}


def test_normals_look_outward(root):
    example = BreakingBad(root)[1]
    for cloud, normals in zip(example.clouds(), example.clouds(example.normals), strict=True):
        centre = (cloud.max(axis=0) + cloud.min(axis=0)) / 2
        assert ((cloud - centre) * normals).sum(axis=1).min() > 0
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-6)


def test_contact_is_what_lies_on_the_cuts(root):
    example = BreakingBad(root)[1]  # cuts at x = 1 and x = 2.5 of [0, 4]
    x = example.points[:, 0] - example.points[:, 0].min()
    piece = np.repeat(np.arange(3), example.sizes)
    expected = np.full(len(x), OUTER)
    for cut, (low, high) in {1.0: (0, 1), 2.5: (1, 2)}.items():
        on_cut = np.abs(x - cut) < 1e-4
        expected[on_cut & (piece == low)] = high
        expected[on_cut & (piece == high)] = low
    assert (expected >= 0).sum() > 500
    assert (example.contact == expected).mean() > 0.999


def test_a_grid_has_one_point_in_every_cube(root):
    """Of boxes with 20 units of surface in all; a cube that a surface only grazes may be missed, or counted twice."""
    example = BreakingBad(root, grid=0.1)[0]
    for cloud in example.clouds():
        cells = np.floor((cloud - cloud.min(axis=0)) / 0.1 + 1e-4)
        assert len(np.unique(cells, axis=0)) > 0.95 * len(cloud)
        assert cKDTree(cloud).query(cloud, 2)[0][:, 1].max() < 0.2
    assert len(example.points) == pytest.approx(20 / 0.1**2, rel=0.2)
    finer = BreakingBad(root, grid=0.05)[0]
    assert len(finer.points) == pytest.approx(20 / 0.05**2, rel=0.1)


def test_contact_on_a_grid_is_what_lies_on_the_cut(root):
    example = BreakingBad(root, grid=0.1)[0]  # cut at x = 2 of [0, 4]
    x = example.points[:, 0] - example.points[:, 0].min()
    np.testing.assert_array_equal(example.contact != OUTER, np.abs(x - 2) < 1e-4)


def test_a_piece_has_at_most_so_many_points(root):
    whole, few = BreakingBad(root, grid=0.05)[0], BreakingBad(root, grid=0.05, max_piece_points=2500)[0]
    assert (whole.sizes > 2500).all()
    assert few.sizes.tolist() == [2500, 2500]


def test_the_reader_gives_as_many_points_as_the_papers_recipe_wants(root):
    assert len(BreakingBad(root)[0].points) >= RECIPES["breaking-bad"]().model.num_points


def test_a_seed_gives_the_same_points_whatever_else_is_read(root):
    first, second = BreakingBad(root, split="all"), BreakingBad(root)
    np.testing.assert_array_equal(first[1].points, second[1].points)
    assert not np.array_equal(BreakingBad(root, seed=1)[1].points, second[1].points)


def test_a_reader_can_be_sent_to_another_process(root):
    source = BreakingBad(root)
    _ = len(source)
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    np.testing.assert_array_equal(copy[0].points, source[0].points)


def test_too_small_pieces_and_too_many_are_left_out(tmp_path):
    widths = (1.0, 0.02, 1.0)
    write_compressed(tmp_path / "everyday" / "Cup" / "a1", widths, {"mode_0": (0, 1, 2), "mode_1": (0, 0, 1)})
    source = BreakingBad(tmp_path, split="all", num_points=500)
    assert len(source) == 2
    assert [example.name[-6:] for example in source] == ["mode_1"]
    with pytest.raises(LeftOut, match="volume"):
        source[0]
    with pytest.raises(LeftOut, match="3 pieces"):
        dataclasses.replace(source, max_pieces=2)[0]
    assert dataclasses.replace(source, smallest_share=0.0)[0].num_pieces == 3


def test_compressed_wins_where_both_were_unpacked(tmp_path):
    write_compressed(tmp_path / "everyday_compressed/Cup/a1", WIDTHS, FRACTURES)
    write_decompressed(tmp_path / "everyday/Cup/a1", WIDTHS, FRACTURES)
    write_compressed(tmp_path / "artifact_compressed/123_sf", WIDTHS, FRACTURES)
    items = BreakingBad(tmp_path, split="all").items
    assert len(items) == 2
    assert all(item.startswith("everyday_compressed") for item in items)
    assert len(BreakingBad(tmp_path, subset="artifact", split="all")) == 2


def test_the_subset_folder_itself_can_be_given(root):
    folder = next(path for path in root.iterdir() if path.name.startswith("everyday"))
    assert len(BreakingBad(folder)) == 2


def test_both_releases_give_the_same_pieces(tmp_path):
    write_compressed(tmp_path / "a", WIDTHS, FRACTURES)
    write_decompressed(tmp_path / "b", WIDTHS, FRACTURES)
    for name in FRACTURES:
        for one, other in zip(
            read_compressed(tmp_path / "a" / name), read_decompressed(tmp_path / "b" / name), strict=True
        ):
            assert one.volume == pytest.approx(other.volume)
            assert len(one.faces) == len(other.faces)


# -- meshes ------------------------------------------------------------------------------------------------


def test_inner_walls_cancel():
    mesh = merge_vertices(Mesh(*row_of_boxes(WIDTHS, [0, 1, 2])))
    kept = Mesh(mesh.vertices, mesh.faces[cancel_opposite_faces(mesh)])
    assert (len(mesh.faces), len(kept.faces)) == (36, 36 - 2 * 4)
    assert kept.volume == pytest.approx(2.5)
    assert np.linalg.norm(kept.area_vectors, axis=1).sum() == pytest.approx(2 + 4 * 2.5)


def test_copies_of_a_face_count_once_and_degenerate_faces_not_at_all():
    vertices, faces = row_of_boxes(WIDTHS, [0])
    again = np.concatenate([faces, faces[:3], np.roll(faces[3:5], 1, axis=1), [[1, 1, 2]]])
    assert cancel_opposite_faces(Mesh(vertices, again)).tolist() == list(range(12))


def test_a_mesh_inside_out_is_turned(tmp_path):
    vertices, faces = row_of_boxes(WIDTHS, [0])
    sample = sample_surfaces([Mesh(vertices, faces[:, ::-1])], 500, np.random.default_rng(0))[0]
    assert ((sample.points - 0.5) * sample.normals).sum(axis=1).min() > 0


def test_points_are_even_over_the_area():
    """Of a box 9 x 1 x 1 the ends have 2 of 38 units of surface."""
    box = Mesh(*row_of_boxes([9.0], [0]))
    points = sample_surfaces([box], 20000, np.random.default_rng(0))[0].points
    ends = (points[:, 0] == 0) | (points[:, 0] == 9)
    assert ends.mean() == pytest.approx(2 / 38, abs=0.005)
    side = points[~ends, 0]
    assert np.histogram(side, bins=9, range=(0, 9))[0] / len(side) == pytest.approx(1 / 9, abs=0.01)


def test_walls_of_a_thin_sherd_do_not_touch_the_other_wall():
    """Two plates 0.05 thin meet at x = 1, and the reach is more than twice that."""
    rng = np.random.default_rng(0)
    scale = np.array([1, 1, 0.05])
    vertices, faces = row_of_boxes([1, 1], [0])
    plates = [Mesh(vertices * scale, faces), Mesh((vertices + np.array([1, 0, 0])) * scale, faces)]
    samples, dense = (sample_surfaces(plates, count, rng) for count in (2000, 16000))
    surfaces = [(s.points, s.normals) for s in dense]
    labels = contact_labels([s.points for s in samples], [s.normals for s in samples], 0.12, surfaces)
    for sample, label in zip(samples, labels, strict=True):
        assert (label[np.abs(sample.normals[:, 2]) > 0.5] == OUTER).all()
        assert (label[sample.points[:, 0] == 1] != OUTER).all()


# -- bad files ---------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"compressed_mesh.obj"):
        len(BreakingBad(tmp_path))


def test_no_lists(tmp_path):
    write_compressed(tmp_path / "everyday/Cup/a1", WIDTHS, FRACTURES)
    with pytest.raises(InputError, match=r"everyday.train.txt.*split=all"):
        len(BreakingBad(tmp_path))


def test_lists_of_objects_that_are_all_missing(tmp_path):
    write_compressed(tmp_path / "everyday/Cup/a1", WIDTHS, FRACTURES)
    write_split(tmp_path, "everyday", "train", ["everyday/Cup/zz"])
    with pytest.raises(InputError, match="none of the 1 objects"):
        len(BreakingBad(tmp_path))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("compressed_mesh.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
        ("compressed_mesh.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
        ("compressed_mesh.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3 4\n"),
        ("compressed_mesh.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"),
        ("compressed_mesh.obj", b"v 0 zero 0\n"),
        ("compressed_mesh.obj", b"\xff\xfe\x00"),
        ("compressed_data.npz", b"garbage"),
        ("compressed_data.npz", b""),
        ("mode_0/compressed_fracture.npy", b"garbage"),
        ("mode_0/compressed_fracture.npy", b""),
    ],
)
def test_damaged_files_are_named(tmp_path, file, content):
    folder = tmp_path / "everyday/Cup/a1"
    write_compressed(folder, WIDTHS, FRACTURES)
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=file.split("/")[-1]):
        BreakingBad(tmp_path, split="all", num_points=100)[1]


def test_labels_of_another_object_are_refused(tmp_path):
    folder = tmp_path / "everyday/Cup/a1"
    write_compressed(folder, WIDTHS, FRACTURES)
    np.save(folder / "mode_0" / "compressed_fracture.npy", np.arange(7))
    with pytest.raises(InputError, match="expected 4 labels"):
        BreakingBad(tmp_path, split="all")[1]


def test_pickled_labels_are_refused(tmp_path):
    folder = tmp_path / "everyday/Cup/a1"
    write_compressed(folder, WIDTHS, FRACTURES)
    np.save(folder / "mode_0" / "compressed_fracture.npy", np.array([{}, {}, {}, {}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"compressed_fracture.npy"):
        BreakingBad(tmp_path, split="all")[1]


def test_a_piece_that_is_all_inner_wall_is_refused(tmp_path):
    vertices, faces = row_of_boxes(WIDTHS, [0])
    write_obj(tmp_path / "everyday/Cup/a1/mode_0/piece_0.obj", vertices, np.concatenate([faces, faces[:, ::-1]]))
    write_obj(tmp_path / "everyday/Cup/a1/mode_0/piece_1.obj", *row_of_boxes(WIDTHS, [1]))
    with pytest.raises(InputError, match="piece 0 has no surface"):
        BreakingBad(tmp_path, split="all")[0]


def test_obj_keeps_the_order_of_vertices_and_reads_slashes(tmp_path):
    path = tmp_path / "mesh.obj"
    path.write_text("# a comment\nv 3 0 0\nvn 0 0 1\nv 1 0 0\nv 2 5 0\n\nf 3/1/1 1//1 2\n")
    mesh = read_obj(path)
    assert mesh.vertices[:, 0].tolist() == [3, 1, 2]
    assert mesh.faces.tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("options", [{"subset": "nothing"}, {"split": "test"}, {"num_points": 0}])
def test_options_that_make_no_sense(tmp_path, options):
    with pytest.raises(InputError):
        BreakingBad(tmp_path, **options)
