"""Which model suits some pieces."""

from support.surfaces import ellipsoid, torus, walls

from eda.assembly import Clouds, choose_model


def test_the_model_follows_from_the_pieces():
    solids, normals = zip(ellipsoid(), torus(), strict=True)
    rooms = [walls(0), walls(1)]
    with_normals, without = choose_model(Clouds.of(solids, normals)), choose_model(Clouds.of(solids))
    assert with_normals.model == without.model == "fracture-small"
    assert "outward normals" in with_normals.why
    assert "found from the points" in without.why
    scans = choose_model(Clouds.of(rooms))
    assert scans.model == "scan-small"
    assert "open surfaces" in scans.why
    assert "if these are fractured pieces" in scans.why
