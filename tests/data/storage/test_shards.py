"""Datasets on disk: what goes in comes out, and a file that is damaged is said to be."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.small_datasets import dataset_of, lumpy_example

from eda import InputError
from eda.data import Dataset, Example
from eda.data.storage.ragged import RaggedFile, write_ragged
from eda.data.storage.shards import Shard, write_shard


@pytest.fixture
def examples() -> list[Example]:
    return [lumpy_example(seed, num_pieces=2 + seed % 3, size=20 + 7 * seed) for seed in range(7)]


@pytest.fixture
def dataset(tmp_path, examples) -> Dataset:
    return dataset_of(tmp_path / "data", examples, shard_size=3)


def assert_same(read: Example, written: Example) -> None:
    """Points come in farthest-point order."""
    expected = written.sort_farthest_first()
    assert read.name == written.name
    for name in ("points", "sizes", "contact", "gaps"):
        assert np.array_equal(getattr(read, name), getattr(expected, name)), name
        assert getattr(read, name).dtype == getattr(expected, name).dtype, name
    assert read.normals.dtype == np.float32
    np.testing.assert_allclose(read.normals, expected.normals, atol=1e-3)
    assert np.array_equal(read.own, expected.own)


# -- there and back ----------------------------------------------------------------------------------------


def test_what_is_written_is_read(dataset, examples):
    assert len(dataset) == 7
    assert dataset.num_shards == 3
    for read, written in zip(dataset, examples, strict=True):
        assert_same(read, written)


def test_an_example_is_read_by_its_number_from_either_end(dataset, examples):
    for index in (0, 2, 3, 6, -1, -7):
        assert_same(dataset[index], examples[index])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_several_folders_are_one_dataset(tmp_path, examples, number):
    parts = np.array_split(np.arange(len(examples)), number)
    made = [dataset_of(tmp_path / f"part {i}", [examples[k] for k in rows], 2) for i, rows in enumerate(parts)]
    several = Dataset.from_text("+".join(str(one.folders[0]) for one in made))
    assert several.num_shards == sum(one.num_shards for one in made)
    for read, written in zip(several, examples, strict=True):
        assert_same(read, written)
    assert_same(several[-2], examples[-2])


@pytest.mark.parametrize("folders", ["", "a+", "+b", "a++b"])
def test_a_plus_without_a_folder_is_refused(folders):
    with pytest.raises(InputError, match="names no folder"):
        Dataset.from_text(folders)


def test_a_folder_may_have_a_plus_in_its_name(tmp_path, examples):
    dataset_of(tmp_path / "rooms+scans", examples[:2])
    assert len(Dataset.from_text(str(tmp_path / "rooms+scans"))) == 2


def test_one_of_several_that_is_no_dataset_is_named(dataset, tmp_path):
    with pytest.raises(InputError, match="nowhere: not a dataset"):
        Dataset.from_text(f"{dataset.folders[0]}+{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("index", [7, -8])
def test_a_number_too_large_is_an_index_error(dataset, index):
    with pytest.raises(IndexError, match="7 examples"):
        dataset[index]


@pytest.mark.parametrize("part", [slice(2, 5), slice(None, None, 3), slice(-2, None), slice(5, 2), slice(100)])
def test_slices(dataset, examples, part):
    assert [e.name for e in dataset[part]] == [e.name for e in examples[part]]


def test_a_shard_is_a_sequence(dataset, examples):
    shard = dataset.shard(1)
    assert [e.name for e in shard] == [e.name for e in shard[:]] == [e.name for e in examples[3:6]]
    assert shard.num_points.tolist() == [len(e.points) for e in examples[3:6]]
    assert shard.num_pieces.tolist() == [e.num_pieces for e in examples[3:6]]


def test_a_shard_counts_from_the_end_too(dataset, examples):
    assert_same(dataset.shard(0)[-1], examples[2])


def test_normals_take_half_the_room(dataset):
    arrays = load_file(dataset.shard_paths[0])
    assert arrays["normals"].nbytes == arrays["points"].nbytes / 2


def test_what_is_not_known_stays_unknown(tmp_path):
    plain = replace(lumpy_example(normals=False), contact=None)
    read = dataset_of(tmp_path / "data", [plain])[0]
    assert read.normals is read.contact is None
    assert read.own.all()


def test_foreign_pieces_stay_marked(tmp_path):
    mixed = replace(lumpy_example(), foreign=np.array([False, True, False]))
    read = dataset_of(tmp_path / "data", [mixed, lumpy_example(1)])
    assert read[0].own.tolist() == [True, False, True]
    assert read[1].own.all()


def test_names_may_have_any_letters(tmp_path):
    names = ["αμφορεύς/3", 'with "quotes"', "", "two\nlines"]
    examples = [replace(lumpy_example(i), name=name) for i, name in enumerate(names)]
    assert [e.name for e in dataset_of(tmp_path / "data", examples)] == names


def test_examples_of_a_shard_must_know_the_same(tmp_path):
    with pytest.raises(InputError, match="some examples have normals and some have not"):
        write_shard(tmp_path / "s", [lumpy_example(0), lumpy_example(1, normals=False)])
    assert not list(tmp_path.iterdir())


def test_a_shard_may_be_empty(tmp_path):
    write_shard(tmp_path / "s", [], skipped=5)
    shard = Shard(tmp_path / "s")
    assert len(shard) == len(shard.num_points) == len(shard.num_pieces) == 0
    assert shard.skipped == 5


def test_a_dataset_made_where_another_was_is_the_new_one(tmp_path):
    dataset_of(tmp_path / "data", [lumpy_example(0)])
    shutil.rmtree(tmp_path / "data")
    assert_same(dataset_of(tmp_path / "data", [lumpy_example(1)])[0], lumpy_example(1))


# -- what is not a dataset ---------------------------------------------------------------------------------


def test_a_folder_without_a_manifest_is_not_a_dataset(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"not a dataset.*eda fracture"):
            Dataset(folder)


MANIFESTS = {
    "not JSON": (b"{", "damaged"),
    "not text": (b"\xff\xfe\x00", "damaged"),
    "nothing": (b"", "damaged"),
    "a list": (b"[1, 2]", "damaged"),
    "too deep": (b"[" * 100_000, "damaged"),
    "another format": (b'{"format": "coco", "version": 1, "num_shards": 1}', "not the description of an Eda dataset"),
    "no format": (b'{"version": 1, "num_shards": 1}', "not the description"),
    "fewer than none": (b'{"format": "eda-dataset", "version": 1, "num_shards": -1}', "not the description"),
    "half a shard": (b'{"format": "eda-dataset", "version": 1, "num_shards": 1.5}', "not the description"),
    "no number of shards": (b'{"format": "eda-dataset", "version": 1}', "damaged"),
    "a newer version": (b'{"format": "eda-dataset", "version": 2, "num_shards": 1}', "newer Eda.*version 2"),
    "a version in words": (b'{"format": "eda-dataset", "version": "new", "num_shards": 1}', "newer Eda"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_manifest_that_cannot_be_used_is_an_input_error(tmp_path, what):
    content, message = MANIFESTS[what]
    (tmp_path / "dataset.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Dataset(tmp_path)


def test_missing_shards_are_named(dataset):
    (dataset.folders[0] / "shard-00001.safetensors").unlink()
    with pytest.raises(InputError, match=r"1 of 3 shards are missing, e\.g\. shard-00001.*goes on where it stopped"):
        Dataset(dataset.folders[0])


@pytest.mark.parametrize("count", [4_000_000_000, 10**30])
def test_a_manifest_that_promises_billions_of_shards_is_refused_at_once(dataset, count):
    manifest = dataset.folders[0] / "dataset.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "num_shards": count}))
    with pytest.raises(InputError, match=rf"{count - 3} of {count} shards are missing, e\.g\. shard-00003"):
        Dataset(dataset.folders[0])


# -- damaged shards ----------------------------------------------------------------------------------------


@pytest.fixture
def shard_path(tmp_path, examples) -> Path:
    path = tmp_path / "shard"
    write_shard(path, examples[:3])
    return path


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_a_truncated_shard_is_an_input_error(shard_path, share):
    content = shard_path.read_bytes()
    shard_path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match="damaged or incomplete"):
        Shard(shard_path)


def test_a_shard_that_is_gone_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        Shard(tmp_path / "nowhere")


GOOD = {"format": "eda-dataset", "version": 1, "names": ["a", "b", "c"], "skipped": 0}
METADATA = {
    "no metadata": (None, "damaged or incomplete"),
    "no JSON": ("[", "damaged or incomplete"),
    "a number": ("3", "damaged or incomplete"),
    "no names": (json.dumps({**GOOD, "names": None}), "not a shard"),
    "names that are no list": (json.dumps({**GOOD, "names": 3}), "not a shard"),
    "another format": (json.dumps({**GOOD, "format": "eda"}), "not a shard"),
    "skipped in words": (json.dumps({**GOOD, "skipped": "few"}), "not a shard"),
    "a name too few": (json.dumps({**GOOD, "names": ["a", "b"]}), "2 names for 3 examples"),
    "a newer version": (json.dumps({**GOOD, "version": 2}), "newer"),
}


@pytest.mark.parametrize("what", METADATA)
def test_metadata_that_cannot_be_used_is_an_input_error(shard_path, what):
    metadata, message = METADATA[what]
    save_file(load_file(shard_path), shard_path, None if metadata is None else {"eda": metadata})
    with pytest.raises(InputError, match=message):
        Shard(shard_path)


def rewritten(path: Path, **changes: np.ndarray | None) -> Shard:
    """The shard with some of its arrays replaced, or left out where None; underscores stand for spaces."""
    arrays = load_file(path) | {name.replace("_", " "): array for name, array in changes.items()}
    save_file({name: array for name, array in arrays.items() if array is not None}, path, {"eda": json.dumps(GOOD)})
    return Shard(path)


# The three examples have 45, 96 and 166 points.
TABLES = {
    "of another length": ({"rows_of_points": np.array([45, 96])}, "tables do not agree"),
    "without its array": ({"gaps": None}, "tables do not agree"),
    "that names more rows than there are": ({"rows_of_points": np.array([45, 96, 167])}, "damaged"),
    "that takes a point of another": ({"rows_of_points": np.array([46, 95, 166])}, "must have shape|46 points"),
}


@pytest.mark.parametrize("what", TABLES)
def test_damaged_tables_are_an_input_error(shard_path, what):
    changes, message = TABLES[what]
    with pytest.raises(InputError, match=message):
        list(rewritten(shard_path, **changes))


def test_a_table_that_names_fewer_rows_than_none_is_an_input_error(shard_path):
    with pytest.raises(InputError):
        list(rewritten(shard_path, rows_of_points=np.array([45, -1, 263])))


@pytest.mark.parametrize("name", ["points", "sizes"])
def test_a_shard_without_an_array_that_examples_need_is_an_input_error(shard_path, name):
    with pytest.raises(InputError):
        list(rewritten(shard_path, **{name: None, f"rows_of_{name}": None}))


# -- ragged files ------------------------------------------------------------------------------------------


def test_items_of_a_ragged_file_come_back(tmp_path):
    rng = np.random.default_rng(0)
    items = [{"a": rng.normal(size=(n, 2)), "b": rng.integers(9, size=m)} for n, m in [(3, 1), (0, 4), (5, 2)]]
    write_ragged(tmp_path / "f", items, {"word": "yes"})
    file = RaggedFile(tmp_path / "f")
    assert file.metadata["word"] == "yes"
    assert file.rows("a").tolist() == [3, 0, 5]
    for index, item in enumerate(items):
        assert file[index].keys() == item.keys()
        for name in item:
            assert np.array_equal(file[index][name], item[name])
            assert file[index][name].dtype == item[name].dtype
    with pytest.raises(IndexError):
        file[3]
    with pytest.raises(InputError, match="no c, only a, b"):
        file.rows("c")


def test_the_last_item_may_have_no_rows(tmp_path):
    write_ragged(tmp_path / "f", [{"a": np.arange(3)}, {"a": np.arange(0)}], {})
    assert RaggedFile(tmp_path / "f")[1]["a"].tolist() == []
