"""`eda show`: the file it writes, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from support.lumpy_shapes import lumpy_cloud
from typer.testing import CliRunner

from eda import InputError
from eda.cli.show import show
from eda.data import Example, Plan, build
from eda.render import SheetStyle


def halves(number: int) -> list[Example]:
    """A body cut in two."""
    points, normals = lumpy_cloud(number, 300)
    left = points[:, 0] < 0.1 * number
    rows = [left, ~left]
    return [Example.from_clouds(f"body {number}", [points[r] for r in rows], [normals[r] for r in rows])]


def opened(path: Path) -> np.ndarray:
    with Image.open(path, formats=["PNG"]) as picture:
        return np.asarray(picture)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "halves"
    build(Plan(halves, 4, {"made by": "a test"}, shard_size=2), folder)
    return folder


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(show)
    return lambda *words: CliRunner().invoke(app, [*map(str, words), "--size", "48"], catch_exceptions=True)


def test_a_sheet_of_a_dataset(run, dataset, tmp_path):
    output = tmp_path / "page.png"
    result = run(dataset, "-o", output, "--count", 3, "--columns", 2)
    assert result.exit_code == 0
    assert "3 puzzles" in result.output
    width, height = SheetStyle(view=48).tile
    assert opened(output).shape == (2 * height, 2 * width, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]  # nothing half-written beside it


def test_the_seed_chooses(run, dataset, tmp_path):
    def page(seed: int, name: str) -> np.ndarray:
        assert run(dataset, "-o", tmp_path / name, "--count", 1, "--seed", seed).exit_code == 0
        return opened(tmp_path / name)

    first = page(0, "a.png")
    assert np.array_equal(first, page(0, "b.png"))
    assert any(not np.array_equal(first, page(seed, f"{seed}.png")) for seed in (1, 2))


def test_more_than_there_are_is_all_of_them(run, dataset, tmp_path):
    assert "4 puzzles" in run(dataset, "-o", tmp_path / "all.png", "--count", 50).output


def test_a_file_that_is_there_is_kept(run, dataset, tmp_path):
    output = tmp_path / "page.png"
    output.write_bytes(b"precious")
    refused = run(dataset, "-o", output)
    assert isinstance(refused.exception, InputError)
    assert "--overwrite" in str(refused.exception)
    assert output.read_bytes() == b"precious"
    assert run(dataset, "-o", output, "--count", 1, "--overwrite").exit_code == 0
    assert opened(output).ndim == 3


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("nowhere", "page.png", "nowhere"),
        (None, "page.jpg", "PNG"),
        (None, "no/such/page.png", "does not exist"),
    ],
)
def test_bad_paths_are_said(run, dataset, tmp_path, source, output, message):
    result = run(tmp_path / source if source else dataset, "-o", tmp_path / output)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / output).exists()
