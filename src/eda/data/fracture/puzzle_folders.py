"""Puzzles as plain folders of meshes, for people and for other programs.

In: a source of broken objects. Out: `<folder>/<puzzle>/piece_000.ply`, ... in assembled position, and `truth.json` with
what is known of them. A puzzle's folder appears whole or not at all; interrupted work goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.fracture.fracture_source import FractureSource
from eda.data.fracture.generator import Fracture
from eda.data.piece_files import Geometry, write_ply
from eda.data.storage.build import Progress
from eda.data.storage.output_folder import claim_folder
from eda.data.storage.processes import run_in_processes
from eda.errors import InputError

ABOUT, TRUTH = "puzzles.json", "truth.json"
FEW = 2  # points of 4000: where three pieces meet, so many may be taken for a neighbour's


@dataclass(frozen=True)
class PuzzleCounts:
    """How many puzzles a folder holds, and how many had to be skipped."""

    num_examples: int
    num_skipped: int


def write_puzzles(
    source: FractureSource,
    folder: str | Path,
    *,
    skip_bad: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> PuzzleCounts:
    """Write the puzzles of a source that are not there yet; `skip_bad` leaves out what cannot be broken."""
    folder = Path(folder)
    claim_folder(folder, ABOUT, {**source.description(), "puzzles": len(source)})
    present = {path.parent.name.split("-")[0] for path in folder.glob(f"*/{TRUTH}")}
    items = [item for item in source.items if f"{item:06d}" not in present]
    done = skipped = 0
    for is_written in run_in_processes(_Writer(source, folder, skip_bad), items, workers):
        done, skipped = done + 1, skipped + (not is_written)
        if progress:
            progress(len(source) - len(items) + done, len(source))
    if skipped == len(source):
        raise InputError(f"{folder}: not one usable puzzle ({skipped} skipped)")
    return PuzzleCounts(len(source) - skipped, skipped)


@dataclass(frozen=True)
class _Writer:
    source: FractureSource
    folder: Path
    skip_bad: bool

    def __call__(self, item: int) -> bool:
        """Write one puzzle; False if it had to be skipped."""
        try:
            name, broken = self.source.fracture(item)
        except InputError:
            if not self.skip_bad:
                raise
            return False
        write_puzzle(self.folder / name.replace("/", "_"), name, broken)
        return True


def write_puzzle(folder: Path, name: str, broken: Fracture) -> None:
    """The folder of one puzzle, whole or not at all."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    pieces = [broken.pieces[i] for i in broken.present] + list(broken.foreign)
    try:
        partial.mkdir(parents=True)
        for number, piece in enumerate(pieces):
            write_ply(partial / f"piece_{number:03d}.ply", Geometry(piece.mesh.vertices, faces=piece.mesh.faces))
        (partial / TRUTH).write_text(json.dumps({"name": name, **_truth(broken)}, indent=2))
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _truth(broken: Fracture) -> dict[str, Any]:
    """What is known: every piece lies where it belongs, except the foreign ones."""
    example = broken.example(4000, np.random.default_rng(0), "")
    labels = example.clouds(example.contact)
    touches = [np.flatnonzero(np.bincount(label[label >= 0]) > FEW).tolist() for label in labels]
    pieces = [*(broken.pieces[i] for i in broken.present), *broken.foreign]
    return {
        "position": "assembled",
        "volume": broken.volume,
        "missing": len(broken.missing),
        "pieces": [
            {
                "file": f"piece_{number:03d}.ply",
                "volume": piece.mesh.volume,
                "foreign": number >= len(broken.present),
                "touches": touches[number],
            }
            for number, piece in enumerate(pieces)
        ],
    }
