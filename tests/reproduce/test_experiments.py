"""Every table and figure at the smallest scale: its page is written, and nothing is computed twice."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.claimed_answers import FakeAssembler
from support.lumpy_shapes import TINY_NETWORK
from support.measured_puzzles import example
from support.small_datasets import dataset_of

from eda import Eda, EdaConfig, InputError
from eda.data import Example
from eda.data.source import ItemSource, LeftOut
from eda.errors import DivergedError
from eda.evaluate import EquivarianceReport, Journal, LawResult
from eda.reproduce import EXPERIMENTS, Request, Workbench, make_experiment
from eda.reproduce import reproduce as measure
from eda.reproduce.baselines import METHODS
from eda.reproduce.published import published_table
from eda.reproduce.scan_pairs import pairs_of_bands
from eda.reproduce.without_overlap import by_chance
from eda.train import DataConfig, TrainConfig

pytestmark = pytest.mark.usefixtures("registries")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    Eda(EdaConfig(TINY_NETWORK, num_points=60)).save(path)
    return path


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory) -> Path:
    """Two of two pieces, two of three."""
    folder = tmp_path_factory.mktemp("data") / "set"
    dataset_of(folder, [example(2 + i // 2, i) for i in range(4)])
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """Pairs of which the points are the same, few are, or none are."""
    folder, rng, examples = tmp_path_factory.mktemp("data") / "pairs", np.random.default_rng(0), []
    for i, shared in enumerate((200, 190, 45, 40, 0, 0)):
        source, other = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 9
        target = np.concatenate([source[:shared], other[shared:]])
        examples.append(Example.from_clouds(f"pair {i}", [source, target]))
    dataset_of(folder, examples)
    return folder


@pytest.fixture
def assembler(monkeypatch) -> FakeAssembler:
    fake = FakeAssembler()
    monkeypatch.setattr("eda.evaluate.assembler_answers.assemble", fake)
    return fake


@pytest.fixture
def settings(model_file, puzzles, pairs, monkeypatch, assembler) -> dict[str, dict[str, str]]:
    """So small that every experiment takes a second or two."""
    report = EquivarianceReport([LawResult(law, "", "float32", 2e-7, 3e-7, 1e-6) for law in ("L_R", "L_P")], 0.7, 2)
    monkeypatch.setattr("eda.reproduce.equivariance_error.check_equivariance", lambda model, **options: report)
    model = {"model": str(model_file)}
    return {
        "equivariance": {"models": str(model_file), "draws": "2"},
        "registration": {**model, "data": str(pairs), "pairs": "1", "repeats": "1", "steps": "1", "baselines": "FGR"},
        "breaking-bad": {
            **model,
            "data": str(puzzles),
            "puzzles": "2",
            "steps": "1",
            "baselines": "GLO",
            "training": str(puzzles),
            "training_steps": "2",
            "points": "40",
        },
        "ablation": {
            "data": str(puzzles), "steps": "2", "seeds": "1", "puzzles": "2", "variants": "ablation+ablation-r"
        },
        "steps": {**model, "data": str(puzzles), "puzzles": "3", "steps": "1+2", "solvers": "rk1"},
        "no-overlap": {**model, "data": str(pairs), "pairs": "2", "steps": "1"},
        "pieces": {"models": str(model_file), "data": str(puzzles), "per_number": "1", "steps": "1"},
    }  # fmt: skip


@pytest.fixture
def run(tmp_path, settings):
    def of(name: str, advance=lambda what, done, total: None, **changed: str) -> Path:
        request = Request(name, {**settings[name], **changed}, tmp_path, f"eda reproduce {name}")
        measure(request, lambda line: None, advance)
        return tmp_path

    return of


def columns_of(page: str) -> list[tuple[str, set[str]]]:
    """Headings and what stands below them, of the first table of a page."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(heading, {row[i] for row in rows[2:]} - {""}) for i, heading in enumerate(rows[0])]


def test_every_experiment_is_tried(settings):
    assert set(settings) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_its_page_and_does_nothing_twice(name, run, monkeypatch):
    folder = run(name)
    page = (folder / f"{name}.md").read_text()
    assert f"eda reproduce {name}" in page
    for number in EXPERIMENTS[name].numbers().split(", "):
        assert number in page
    for heading, cells in columns_of(page):
        printed = re.search(r"printed in (Table \d)$", heading)
        own = {
            text for label in EXPERIMENTS[name].labels if label.startswith("tab:") for text in texts_of(label, printed)
        }
        if printed:
            assert cells
            assert cells <= own
        else:
            assert heading in ("data", "system") or heading.endswith(", measured")
    picture = re.search(r"\]\((.*\.svg)\)", page)
    assert (picture is not None) == any(label.startswith("fig") for label in EXPERIMENTS[name].labels)
    if picture:
        assert (folder / picture[1]).read_text().startswith("<svg")
    journal = (folder / f"{name}.jsonl").read_bytes()

    def never(*rest, **options):
        raise AssertionError("measured again")

    for target in (
        "eda.model.Eda.trajectory",
        "eda.evaluate.assembler_answers.assemble",
        "eda.reproduce.workbench.train",
    ):
        monkeypatch.setattr(target, never)
    monkeypatch.setattr("eda.reproduce.equivariance_error.check_equivariance", never)
    run(name)
    assert (folder / f"{name}.md").read_text() == page
    assert (folder / f"{name}.jsonl").read_bytes() == journal


def texts_of(label: str, printed: re.Match | None) -> list[str]:
    table = published_table(label)
    if printed is None or table.number != printed[1]:
        return []
    return [text for row in table.rows for text in row.figures.values()]


class Killed(BaseException):
    """Ends a run at once."""


@pytest.mark.parametrize(
    ("name", "every"), [("registration", 5), ("breaking-bad", 3), ("ablation", 3), ("steps", 2), ("pieces", 1)]
)
def test_a_killed_run_goes_on_where_it_was_and_ends_the_same(name, every, run, tmp_path, settings, assembler):
    """It is killed whenever it has finished a few more puzzles; one that is there is not measured again."""
    kills = 0

    def reached(limit: int):
        def advance(what: str, done: int, total: int) -> None:
            if puzzles_in(journal) >= limit:
                raise Killed

        return advance

    journal = tmp_path / f"{name}.jsonl"
    while True:
        before = puzzles_in(journal)
        try:
            run(name, reached(before + every))
            break
        except Killed:
            kills += 1
            assert puzzles_in(journal) > before
    assert kills
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    keys = [(line["part"], line["record"]["index"]) for line in lines if line]
    assert len(keys) == len(set(keys)), "a puzzle was measured twice"
    resumed = {key: line["record"]["figures"] for key, line in zip(keys, lines, strict=True)}
    whole = tmp_path / "at once"
    measure(Request(name, settings[name], whole, ""), lambda line: None, lambda what, done, total: None)
    begun_anew = [json.loads(line) for line in (whole / f"{name}.jsonl").read_text().splitlines()[1:]]
    assert len(begun_anew) == len(resumed)
    for line in begun_anew:  # puzzles are sampled in other batches, which round otherwise
        for figure, values in line["record"]["figures"].items():
            expected = resumed[line["part"], line["record"]["index"]][figure]
            np.testing.assert_allclose(np.array(values, float), np.array(expected, float), rtol=1e-5)


def puzzles_in(journal: Path) -> int:
    return len(journal.read_text().splitlines()) - 1 if journal.is_file() else 0


def test_results_of_other_settings_are_not_mixed_in(run):
    run("steps")
    with pytest.raises(
        InputError, match=r"kept by another command; .* remove .*steps\.jsonl and .*/steps/ to start anew"
    ):
        run("steps", puzzles="2")


def test_a_variant_that_does_not_converge_is_a_result(run, monkeypatch, tmp_path):
    from eda.reproduce import workbench

    learn = workbench.train

    def diverge(config, folder, ranks, watcher):
        if config.model.no_correction:
            learn(config, folder, ranks, watcher)
            raise DivergedError("10 steps in a row failed")
        return learn(config, folder, ranks, watcher)

    monkeypatch.setattr(workbench, "train", diverge)
    page = (run("ablation") / "ablation.md").read_text()
    assert re.search(r"\| Eda-\(r\) \| 1 failed \|", page)
    assert (tmp_path / "ablation" / "runs" / "ablation-r-0" / "failed.txt").read_text().startswith("10 steps")
    (tmp_path / "ablation.jsonl").unlink()
    with pytest.raises(InputError, match=r"ablation-r-0: holds a run .* with other settings"):  # that failed too
        run("ablation", steps="3", variants="ablation-r")


def test_a_run_that_is_not_continued_is_no_failed_one(run, tmp_path):
    run("ablation", variants="ablation")
    (tmp_path / "ablation.jsonl").unlink()
    remove = re.escape(f"remove {tmp_path}/ablation.jsonl and {tmp_path}/ablation/ to start anew")
    with pytest.raises(InputError, match=f"ablation-0: holds a run .* with other settings; .*{remove}"):
        run("ablation", variants="ablation", steps="3")
    assert not list(tmp_path.rglob("failed.txt"))


def test_a_run_is_the_same_however_its_data_were_typed(tmp_path, monkeypatch):
    bench = Workbench(tmp_path / "out", Journal(None, {}))

    def claim(train, validation="") -> Path:
        return bench.claim("it", TrainConfig(data=DataConfig(train=str(train), validation=str(validation))))

    for name in ("a", "b", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    folder = claim(tmp_path / "a", "a+b")
    assert claim("a", f"{tmp_path}/a+b") == claim("out/../link", "link+b/.") == folder
    for other in (("b", "a+b"), ("a", "")):
        with pytest.raises(InputError, match="with other settings"):
            claim(*other)
    monkeypatch.setattr("eda.__version__", "0.0.1")
    with pytest.raises(InputError, match="holds a run of another version"):
        claim("a", "a+b")


def test_a_puzzle_is_read_once_however_it_is_chosen(monkeypatch):
    read = []

    class Counted(ItemSource[int]):
        items = range(6)

        def read(self, item: int) -> Example:
            read.append(item)
            if item == 3:
                raise LeftOut("not wanted")
            return example(2 + item % 2, item)

    monkeypatch.setattr("eda.reproduce.workbench.open_examples", lambda data: Counted())
    chosen = Workbench(Path(), Journal(None, {})).puzzles("data", per_group=2, by="pieces")
    first, second = ([puzzle.example.name for puzzle in chosen.scatter()] for _ in range(2))
    assert len(first) == 4
    assert first == second
    assert sorted(read) == list(range(6))
    assert len(list(chosen.source)) == 5


def test_a_training_curve_is_that_of_the_log(run, tmp_path):
    folder = tmp_path / "training"
    folder.mkdir()
    entries = [{"step": step, "loss": 10 - step} for step in (1, 2, 3)] + [{"step": 3, "validation": {"mean": 1}}]
    (folder / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    picture = (run("steps", run=str(folder)) / "steps.svg").read_text()
    assert "training loss" in picture
    (folder / "log.jsonl").unlink()
    with pytest.raises(InputError, match="not the log of a training run"):
        run("steps", run=str(folder))


def test_settings_are_checked():
    with pytest.raises(InputError, match="steps has no setting 'pieces'"):
        make_experiment("steps", {"pieces": "3"})
    with pytest.raises(InputError, match="puzzles must be at least 1, got 0"):
        make_experiment("steps", {"puzzles": "0"})
    with pytest.raises(InputError, match="solvers must name at least one"):
        make_experiment("steps", {"solvers": ""})
    with pytest.raises(InputError, match="nothing called 'best' to reproduce"):
        make_experiment("best", {})


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("registration", {"baselines": "SIFT"}, "no baseline 'SIFT'"),
        ("breaking-bad", {"baselines": "JIG"}, "no baseline 'JIG'"),
        ("ablation", {"variants": "ablation-x"}, "no variant 'ablation-x'"),
        ("steps", {"steps": "1+two"}, "steps must be whole numbers"),
        ("steps", {"model": "mine.safetensors"}, "mine.safetensors: cannot be read"),
    ],
)
def test_what_there_is_not_is_named(run, name, changed, message):
    with pytest.raises(InputError, match=message):
        run(name, **changed)


def test_data_without_the_right_overlap_are_refused(puzzles):
    """Blobs that lie apart."""
    with pytest.raises(InputError, match="no pair of scans has an overlap of 30-100 %"):
        pairs_of_bands(Workbench(puzzles, Journal(None, {})), str(puzzles), 0, 1, ("30-100 %",))


def test_the_share_by_chance_is_that_of_random_rotations():
    from scipy.spatial.transform import Rotation

    angles = np.degrees(Rotation.random(40_000, random_state=1).magnitude())
    for low, high in ((0, 15), (75, 105), (165, 180), (-20, 200)):
        assert by_chance(low, high) == pytest.approx(np.mean((angles > low) & (angles < high)), abs=0.01)


def test_a_baseline_that_is_not_installed_is_said_to_be_missing(run, monkeypatch):
    monkeypatch.setattr("eda.reproduce.scan_pairs.available", lambda name: name != "FGR")
    page = (run("registration") / "registration.md").read_text()
    assert "FGR was not measured" in page
    assert set(METHODS) == {"FPFH-RANSAC", "FGR", "KISS-Matcher"}
