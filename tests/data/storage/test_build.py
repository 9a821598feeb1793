"""Making a dataset: the same files however it is made, also when it was interrupted."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from support.full_disk import full_disk
from support.small_datasets import lumpy_example

from eda import InputError
from eda.atomic import write_atomically
from eda.data import Example, Plan, build


@dataclass(frozen=True)
class Lumps:
    """Item -> its examples; some items are bad, and one may stop the work or be slow."""

    bad: tuple[int, ...] = ()
    stops_at: int = -1
    slow: tuple[int, ...] = ()

    def __call__(self, item: int) -> Iterator[Example]:
        if item == self.stops_at:
            raise KeyboardInterrupt
        if item in self.bad:
            raise InputError(f"item {item} cannot be used")
        if item in self.slow:
            time.sleep(0.3)  # so that shards are done in another order
        for copy in range(1 + item % 2):
            yield lumpy_example(10 * item + copy, num_pieces=2, size=12)


def plan_of(num_items: int = 7, shard_size: int = 3, *, skip_bad: bool = False, **lumps: object) -> Plan:
    return Plan(Lumps(**lumps), num_items, {"made": "lumps"}, skip_bad=skip_bad, shard_size=shard_size)


FILES = ["dataset.json", "shard-00000.safetensors", "shard-00001.safetensors", "shard-00002.safetensors"]


def content(folder: Path) -> dict[str, object]:
    """Of every file: its bytes, or of a shard its arrays' and its metadata, whose order in the file is by chance."""
    return {path.name: opened(path) if path.name in FILES[1:] else path.read_bytes() for path in folder.iterdir()}


def opened(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
    with safe_open(path, framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return file.metadata(), {name: (str(array.dtype), array.tobytes()) for name, array in arrays.items()}


def test_every_item_gives_its_examples_in_order(tmp_path):
    built = build(plan_of(), tmp_path / "d")
    assert [e.name for e in built.dataset] == [
        f"lumps {10 * item + copy}" for item in range(7) for copy in range(1 + item % 2)
    ]
    assert built.num_examples == len(built.dataset) == 10
    assert built.num_skipped == 0
    assert sorted(content(tmp_path / "d")) == FILES
    assert [len(built.dataset.shard(i)) for i in range(3)] == [4, 5, 1]


def test_the_files_do_not_depend_on_the_number_of_workers(tmp_path):
    build(plan_of(), tmp_path / "one", workers=1)
    build(plan_of(slow=(0,)), tmp_path / "two", workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_the_same_dataset_has_the_same_bytes(tmp_path):
    """In all of five files, of which each has 24 orders."""
    for name in ("one", "two"):
        build(plan_of(5, shard_size=1), tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_progress_counts_items(tmp_path):
    calls: list[tuple[int, int]] = []
    build(plan_of(), tmp_path / "d", progress=lambda *call: calls.append(call))
    assert calls == [(3, 7), (6, 7), (7, 7)]


# -- going on ----------------------------------------------------------------------------------------------


def test_an_interrupted_build_goes_on_to_the_same_files(tmp_path):
    folder, calls = tmp_path / "d", []
    with pytest.raises(KeyboardInterrupt):
        build(plan_of(stops_at=4), folder)
    assert sorted(content(folder)) == FILES[:2], "what was done is there, and nothing else"
    build(plan_of(), folder, progress=lambda *call: calls.append(call))
    build(plan_of(), tmp_path / "at once")
    assert content(folder) == content(tmp_path / "at once")
    assert calls == [(6, 7), (7, 7)], "the first shard was not made again"


def test_a_shard_that_was_lost_is_made_again(tmp_path):
    build(plan_of(), tmp_path / "d")
    before = content(tmp_path / "d")
    (tmp_path / "d" / FILES[2]).unlink()
    build(plan_of(), tmp_path / "d")
    assert content(tmp_path / "d") == before


def test_what_is_complete_is_not_made_again(tmp_path):
    build(plan_of(), tmp_path / "d")
    calls: list[tuple[int, int]] = []
    again = build(plan_of(stops_at=0), tmp_path / "d", progress=lambda *call: calls.append(call))
    assert again.num_examples == 10
    assert calls == []


# -- bad items ---------------------------------------------------------------------------------------------


def test_a_bad_item_stops_the_build(tmp_path):
    with pytest.raises(InputError, match="item 4 cannot be used"):
        build(plan_of(bad=(4,)), tmp_path / "d")
    assert sorted(content(tmp_path / "d")) == FILES[:2]


def test_bad_items_are_skipped_and_counted_if_wanted(tmp_path):
    built = build(plan_of(bad=(1, 4, 6), skip_bad=True), tmp_path / "d")
    assert built.num_skipped == 3
    assert [e.name for e in built.dataset] == [f"lumps {n}" for n in (0, 20, 30, 31, 50, 51)]
    assert build(plan_of(skip_bad=True), tmp_path / "d").num_skipped == 3, "the count is kept with the shards"


def test_a_dataset_without_one_example_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"not one usable example \(7 skipped\)"):
        build(plan_of(bad=tuple(range(7)), skip_bad=True), tmp_path / "d")


def alone(item: int) -> list[Example]:
    """One piece, which is no puzzle."""
    return [lumpy_example(item, num_pieces=1)]


def with_a_speck(item: int) -> list[Example]:
    """A piece of two points, which cannot be oriented."""
    example = lumpy_example(item, num_pieces=2)
    return [example.rows(np.arange(example.sizes[0] + 2), np.array([example.sizes[0], 2]))]


@pytest.mark.parametrize("make", [alone, with_a_speck])
def test_an_example_that_is_no_puzzle_is_an_input_error(tmp_path, make):
    with pytest.raises(InputError, match="lumps 0"):
        build(Plan(make, 1, {}), tmp_path / "d")


# -- folders -----------------------------------------------------------------------------------------------


def test_the_folder_of_another_dataset_is_refused(tmp_path):
    build(plan_of(), tmp_path / "d")
    before = content(tmp_path / "d")
    for other in (
        replace(plan_of(), description={"made": "otherwise"}),
        plan_of(num_items=20),
        plan_of(shard_size=4),
        plan_of(skip_bad=True),
    ):
        with pytest.raises(InputError, match="holds another dataset"):
            build(other, tmp_path / "d")
    assert content(tmp_path / "d") == before


def test_another_number_of_items_is_another_dataset(tmp_path):
    build(plan_of(num_items=7), tmp_path / "d")
    with pytest.raises(InputError, match="holds another dataset"):
        build(plan_of(num_items=8), tmp_path / "d")


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    with pytest.raises(InputError, match="not empty, and not a dataset"):
        build(plan_of(), tmp_path)
    assert content(tmp_path) == {"photo.jpg": b"mine"}


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    for path, message in [(tmp_path / "file", "not a folder"), (tmp_path / "file" / "d", "cannot be written")]:
        with pytest.raises(InputError, match=message):
            build(plan_of(), path)
    assert content(tmp_path) == {"file": b"mine"}


def test_a_description_of_tuples_is_found_again(tmp_path):
    """JSON knows only lists."""
    plan = replace(plan_of(), description={"pieces": (2, 8)})
    build(plan, tmp_path / "d")
    assert build(plan, tmp_path / "d").num_examples == 10


# -- all or nothing ----------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_atomically(tmp_path / "f", b"old")
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    for name in ("f", "new"):
        with pytest.raises(OSError, match="No space left"):
            write_atomically(tmp_path / name, b"other content")
    assert content(tmp_path) == {"f": b"old"}


def test_a_shard_is_not_half_written(tmp_path, monkeypatch):
    build(plan_of(), tmp_path / "d")
    before = content(tmp_path / "d")
    (tmp_path / "d" / FILES[1]).unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(OSError, match="No space left"):
            build(plan_of(), tmp_path / "d")
    assert sorted(content(tmp_path / "d")) == [FILES[0], *FILES[2:]]
    build(plan_of(), tmp_path / "d")
    assert content(tmp_path / "d") == before
