"""Which models suit some pieces: closed ones are fractured, open ones are scans, and of the others both are tried."""

import numpy as np
from support.dataset_files import real_data
from support.surfaces import box, ellipsoid, torus, walls

from eda.assembly import Clouds, choose_model
from eda.assembly.inputs.model_choice import suitable_models
from eda.data.piece_files.piece_list import read_pieces
from eda.data.readers import open_reader

SHERDS, SCANS = ["fracture-small"], ["scan-small"]
SHERDS_OR_SCANS, SCANS_OR_SHERDS = SHERDS + SCANS, SCANS + SHERDS


def models(clouds, normals=None) -> list[str]:
    return [choice.model for choice in suitable_models(Clouds.of(clouds, normals))]


def view(make, direction, count: int = 2500) -> tuple[np.ndarray, np.ndarray]:
    """About what a camera far away sees of a closed surface: what faces it."""
    points, normals = make(count)
    facing = normals @ np.array(direction) > 0.2
    return points[facing], normals[facing]


def test_closed_pieces_are_sherds_with_normals_and_without():
    solids, normals = zip(ellipsoid(), torus(), strict=True)
    assert models(solids, normals) == models(solids) == SHERDS
    (choice,) = suitable_models(Clouds.of(solids))
    assert "closed surfaces" in choice.why


def test_rooms_are_scans():
    rooms = Clouds.of([walls(0), walls(1)])
    (choice,) = suitable_models(rooms)
    assert choice == choose_model(rooms)
    assert choice.model == "scan-small"
    assert "open surfaces" in choice.why
    assert "if these are fractured pieces" in choice.why


def test_views_of_one_object_are_scans():
    for make in (torus, ellipsoid):
        assert models([view(make, (0.6, 0, 0.8))[0], view(make, (0, 0.6, 0.8))[0]]) == SCANS


def test_thin_sherds_of_few_points_are_sherds_first():
    thin = [box(600, (2.0, 1.5, 0.1))[0], box(600, (1.0, 1.5, 0.1))[0]]
    assert models(thin)[0] == "fracture-small"
    assert models([box(3000, (2.0, 1.5, 0.1))[0]] * 2) == SHERDS


def test_both_are_tried_where_pieces_do_not_say_what_they_are():
    model, seen = torus(2000), view(torus, (0.6, 0, 0.8))
    assert sorted(models([model[0], seen[0]])) == SHERDS_OR_SCANS
    assert models([model[0], model[0], seen[0]]) == SHERDS_OR_SCANS
    assert models([seen[0], seen[0]], [seen[1], seen[1]]) == SCANS_OR_SHERDS, "normals may be those of sherds"


# -- real pieces -------------------------------------------------------------------------------------------------------


def test_real_rooms_and_streets_are_scans():
    for kind, folder, row in (("3dmatch-pack", "3dmatch", 700), ("kitti-pack", "kitti", 2)):
        assert models(open_reader(kind, real_data(folder))[row].clouds()) == SCANS


def test_real_sherds_are_sherds():
    source = open_reader("breaking-bad-pack", real_data("breaking_bad"))
    example = source[len(source) // 2]
    assert models(example.clouds(), example.clouds(example.normals)) == SHERDS
    assert models(example.clouds())[0] == "fracture-small"


def test_an_object_and_a_view_of_it_are_tried_as_both():
    pieces = read_pieces([real_data("rpf_demo") / "tudl_000002_train100"])
    points, normals = [piece.points for piece in pieces], [piece.normals for piece in pieces]
    assert sorted(models(points, normals)) == sorted(models(points)) == SHERDS_OR_SCANS
