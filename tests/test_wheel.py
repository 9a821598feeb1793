"""The package as others get it: an sdist, the wheel built from it, and an environment in which nothing else of it is.

The environment borrows the libraries that the package depends on from the one that runs the tests; the package itself
comes from the wheel alone.
"""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*words: object, folder: Path = ROOT, **variables: str) -> str:
    """What a command prints, away from this checkout's own modules."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")} | variables
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, folder: Path, **variables: str) -> Path:
    """A wheel or an sdist, by the backend that pyproject.toml names, as every installer calls it."""
    code = f"from setuptools import build_meta as backend; print(backend.build_{kind}({str(folder)!r}))"
    return folder / run(sys.executable, "-c", code, folder=source, **variables).strip().splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Made of the tracked files alone."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout: what belongs into an sdist cannot be told from what lies around")
    copy = tmp_path_factory.mktemp("checkout")  # a build writes beside its sources
    for name in tracked:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return build("sdist", copy, tmp_path_factory.mktemp("sdist"))


def build_wheel(sdist: Path, folder: Path, **variables: str) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder, **variables)


def environment(folder: Path, wheel: Path) -> Path:
    """An environment with this wheel; its python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    # A line of a .pth file adds a folder, but not what other .pth files in it add: so not the checkout itself.
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    Path(where, "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return python


def write_pieces(folder: Path) -> Path:
    """Two halves of a bumpy ball as clouds with their normals, one of them turned."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(900, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for name, side in (("left", -1), ("right", 1)):
        half = points[points[:, 0] * side > 0]
        disc = rng.uniform(-1, 1, size=(400, 3))
        disc = disc[np.hypot(disc[:, 1], disc[:, 2]) < 1] * [0, 1, 1]
        normals = np.concatenate([half, np.tile([-side, 0, 0], (len(disc), 1))])
        np.savetxt(folder / f"{name}.xyz", np.hstack([np.concatenate([half, disc]), normals]))
    return folder


ASSEMBLE = ("-m", "eda.cli", "assemble", "--samples", "1", "--steps", "1", "--solver", "rk1", "--no-refine", "--quiet")


def assert_assembles(python: Path, folder: Path) -> str:
    pieces = folder / "pieces"
    pieces.mkdir()
    run(python, *ASSEMBLE, write_pieces(pieces), "-o", folder / "out", "--model", "fracture-small")
    assert (folder / "out" / "report.html").is_file()
    code = "import warnings; warnings.simplefilter('ignore'); import eda.native as n; print(n.__file__, n.library())"
    return run(python, "-c", code)


def test_a_wheel_from_the_sdist_assembles_with_its_compiled_module(sdist, tmp_path):
    wheel = build_wheel(sdist, tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("eda/native/_core") for name in names)
    assert {"eda/weights/fracture-small.safetensors", "eda/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]
    where = assert_assembles(environment(tmp_path / "env", wheel), tmp_path)
    assert str(tmp_path) in where
    assert "CDLL" in where


def test_without_a_compiler_the_install_succeeds_and_assembles(sdist, tmp_path):
    nowhere = {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}
    wheel = build_wheel(sdist, tmp_path, **nowhere)
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("eda/native/_core")]
    where = assert_assembles(environment(tmp_path / "env", wheel), tmp_path)
    assert str(tmp_path) in where
    assert "None" in where
