"""Beam search: partial assemblies grow piece by piece, and only the best few go on.

The assembler grows assemblies of NumPy poses and refines them in every step (`assembly/search/grow.py`). A network
grows batches in torch, ranked by learned scores, once per puzzle (`arrangements.py`). What a beam is and how it grows
differs; the loop is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Beam = TypeVar("Beam")


def beam_search(seeds: Beam, expand_beam: Callable[[Beam], Beam | None]) -> list[Beam]:
    """All beams, from the seeds to the last. `expand_beam` gives None when no partial assembly can grow."""
    beams = [seeds]
    while (grown := expand_beam(beams[-1])) is not None:
        beams.append(grown)
    return beams
