"""A fixed part of the fuzzer: a few mutations of a valid file of every format, read in one worker process."""

import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FILES_PER_TARGET, SEED = 6, 17


@pytest.fixture(scope="module")
def fuzz():
    for library in ("laspy", "pye57", "h5py"):
        pytest.importorskip(library)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import fuzz

        yield fuzz
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_valid_files_are_read_and_mutated_ones_are_read_or_refused(fuzz):
    contents, outcomes = fuzz.valid_files(), Counter()
    worker = fuzz.Worker()
    try:
        for index, (target, content) in enumerate(zip(fuzz.TARGETS, contents, strict=True)):
            assert worker.read(index, content).kind == "read", target.name
            for number in range(FILES_PER_TARGET):
                outcome = worker.read(index, fuzz.mutated(target, content, SEED, 1000 * index + number))
                assert outcome.kind in ("read", "refused"), f"{target.name}, {number}: {outcome}"
                outcomes[outcome.kind] += 1
    finally:
        worker.stop()
    # Mutations that are all refused, or all harmless, would test little.
    assert min(outcomes["read"], outcomes["refused"]) > len(contents) / 4


def test_the_fuzzer_sees_faults(fuzz, tmp_path):
    def raises(_: Path) -> None:
        raise ZeroDivisionError

    def grows(_: Path) -> bytes:
        return bytes(2**31)

    (tmp_path / "file").write_bytes(b"1")
    for read, kind in ((raises, "exception"), (grows, "memory"), (lambda _: None, "read")):
        assert fuzz.read_file(fuzz.Target("", "file", lambda _: None, read), tmp_path).kind == kind


def test_the_same_seed_gives_the_same_files(fuzz):
    target, content = fuzz.TARGETS[0], fuzz.valid_files()[0]
    files = [fuzz.mutated(target, content, SEED, number) for number in range(20)]
    assert files == [fuzz.mutated(target, content, SEED, number) for number in range(20)]
    assert len(set(files)) == 20
