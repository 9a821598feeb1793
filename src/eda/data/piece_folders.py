"""Puzzles as plain folders of meshes, for people and for other programs.

In: a source of broken objects. Out: `<folder>/<puzzle>/piece_000.ply`, ... in assembled position, and `truth.json` with
what is known of them. A puzzle's folder appears whole or not at all; interrupted work goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eda.atomic import write_atomically
from eda.data.build import Progress
from eda.data.fracture import Fracture
from eda.data.puzzles import FractureSource
from eda.data.solids import Mesh
from eda.errors import InputError

ABOUT, TRUTH = "puzzles.json", "truth.json"
FEW = 2  # points of 4000: where three pieces meet, so many may be taken for a neighbour's


@dataclass(frozen=True)
class Written:
    """What is in the folder."""

    num_examples: int
    num_skipped: int


def write_puzzles(
    source: FractureSource,
    num_puzzles: int,
    folder: str | Path,
    *,
    skip_bad: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Written:
    """Write those of puzzles 0 .. num_puzzles - 1 that are not there; `skip_bad` leaves out what cannot be broken."""
    folder = Path(folder)
    _claim(folder, {**source.description(), "puzzles": num_puzzles})
    there = {path.parent.name.split("-")[0] for path in folder.glob(f"*/{TRUTH}")}
    items = [item for item in range(num_puzzles) if f"{item:06d}" not in there]
    done = skipped = 0
    for written in _all_written(_Writer(source, folder, skip_bad), items, workers):
        done, skipped = done + 1, skipped + (not written)
        if progress:
            progress(num_puzzles - len(items) + done, num_puzzles)
    if skipped == num_puzzles:
        raise InputError(f"{folder}: not one usable puzzle ({skipped} skipped)")
    return Written(num_puzzles - skipped, skipped)


def _claim(folder: Path, about: dict[str, Any]) -> None:
    """Write what the folder will hold, or check that it is what it was meant to hold."""
    path = folder / ABOUT
    try:
        if path.is_file():
            if json.loads(path.read_bytes()) != json.loads(json.dumps(about)):
                raise InputError(f"{folder}: holds other puzzles; choose another folder, or delete this one")
            return
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder}: not empty; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(about, indent=2).encode())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error


def _all_written(write: _Writer, items: list[int], workers: int) -> Iterator[bool]:
    if workers <= 1 or len(items) <= 1:
        yield from map(write, items)
        return
    # A fresh interpreter for every worker: forking a process that runs threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context) as pool:
        yield from pool.map(write, items, chunksize=8)


@dataclass(frozen=True)
class _Writer:
    source: FractureSource
    folder: Path
    skip_bad: bool

    def __call__(self, item: int) -> bool:
        """Write one puzzle; False if it had to be skipped."""
        try:
            name, broken = self.source.broken(item)
        except InputError:
            if not self.skip_bad:
                raise
            return False
        write_puzzle(self.folder / name.replace("/", "_"), name, broken)
        return True


def write_puzzle(folder: Path, name: str, broken: Fracture) -> None:
    """The folder of one puzzle, whole or not at all."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    pieces = [broken.pieces[i] for i in broken.there] + list(broken.foreign)
    try:
        partial.mkdir(parents=True)
        for number, piece in enumerate(pieces):
            (partial / f"piece_{number:03d}.ply").write_bytes(_ply(piece.mesh))
        (partial / TRUTH).write_text(json.dumps({"name": name, **_truth(broken)}, indent=2))
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _truth(broken: Fracture) -> dict[str, Any]:
    """What is known: every piece lies where it belongs, except the foreign ones."""
    example = broken.example(4000, np.random.default_rng(0), "")
    labels = example.clouds(example.contact)
    touches = [np.flatnonzero(np.bincount(label[label >= 0]) > FEW).tolist() for label in labels]
    pieces = [*(broken.pieces[i] for i in broken.there), *broken.foreign]
    return {
        "position": "assembled",
        "volume": broken.volume,
        "missing": len(broken.missing),
        "pieces": [
            {
                "file": f"piece_{number:03d}.ply",
                "volume": piece.mesh.volume,
                "foreign": number >= len(broken.there),
                "touches": touches[number],
            }
            for number, piece in enumerate(pieces)
        ],
    }


def _ply(mesh: Mesh) -> bytes:
    """Binary PLY in double precision."""
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(mesh.vertices)}\n"
        "property double x\nproperty double y\nproperty double z\n"
        f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    faces = np.empty(len(mesh.faces), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    faces["count"], faces["corners"] = 3, mesh.faces
    return header.encode() + mesh.vertices.astype("<f8").tobytes() + faces.tobytes()
