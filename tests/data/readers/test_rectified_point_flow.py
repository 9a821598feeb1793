"""Rectified Point Flow's file on boxes in a row."""

import numpy as np
import pytest
from support.dataset_files import box, lowest, put_arrays

from eda.data.example import OUTER
from eda.data.readers.rectified_point_flow import RectifiedPointFlow
from eda.errors import InputError

h5py = pytest.importorskip("h5py")


@pytest.fixture
def rpf(tmp_path):
    path = tmp_path / "rpf.hdf5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        put_arrays(
            file, **{"data_split/ikea/train": [b"ikea/chair/original", b"ikea/cloud/original", b"ikea/gone/original"]}
        )
        for k in (0, 1, 10):
            vertices, faces = box(k, 1)
            put_arrays(file.create_group(f"ikea/chair/original/{k}"), vertices=vertices, faces=faces)
        for k in range(2):
            points, normals = rng.normal(size=(2, 50, 3))
            put_arrays(file.create_group(f"ikea/cloud/original/{k}"), vertices=points + 10 * k, normals=normals)
    return path


def test_rpf_parts_come_in_the_order_of_their_names_as_text(rpf):
    source = RectifiedPointFlow(rpf)
    assert (len(source), source.num_missing) == (2, 1)
    assert lowest(source[0]) == pytest.approx([0, 1, 10], abs=0.05)
    assert source[0].normals is not None
    assert source[0].contact is None


def test_rpf_contact_if_asked_for(rpf):
    example = RectifiedPointFlow(rpf, contact=True)[0]
    ends = [set(np.unique(label)) for label in example.clouds(example.contact)]
    assert ends == [{OUTER, 1}, {OUTER, 0}, {OUTER}]


def test_rpf_clouds_stay_as_they_are(rpf):
    example = RectifiedPointFlow(rpf)[1]
    assert example.sizes.tolist() == [50, 50]
    np.testing.assert_allclose(np.linalg.norm(example.normals, axis=1), 1, atol=1e-6)
    few = RectifiedPointFlow(rpf, num_points=60)[1]
    assert few.sizes.tolist() == [30, 30]


def test_rpf_asks_for_a_dataset_where_there_are_several(rpf):
    with h5py.File(rpf, "a") as file:
        put_arrays(file, **{"data_split/partnet/train": [b"ikea/chair/original"]})
    with pytest.raises(InputError, match=r"ikea/train, partnet/train"):
        len(RectifiedPointFlow(rpf))
    assert len(RectifiedPointFlow(rpf, dataset="partnet")) == 1


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_what_is_no_hdf5_is_named(tmp_path, content):
    path = tmp_path / "file.hdf5"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"file\.hdf5"):
        len(RectifiedPointFlow(path))


def test_an_hdf5_of_something_else_is_named(tmp_path):
    path = tmp_path / "file.hdf5"
    with h5py.File(path, "w") as file:
        put_arrays(file, numbers=np.arange(3))
    with pytest.raises(InputError, match="data_split"):
        len(RectifiedPointFlow(path))
