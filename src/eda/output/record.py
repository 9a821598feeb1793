"""What `assembly.json` holds: the assembly as data, with the files that were written and the gaps of its joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eda.assembly.result import Assembly
from eda.data.piece_files import InputNotes
from eda.output.seams import Joint, Seams

_DIGITS = 6  # significant ones, of lengths and areas


def record_of(
    assembly: Assembly,
    command: str,
    files: Sequence[Sequence[str] | None],
    seams: Seams,
    notes: InputNotes | None = None,
) -> dict[str, Any]:
    """The record; `files` has the files of all pieces for every alternative, None where none were written, and `notes`
    what was said about the input.
    """
    record = assembly.as_dict()
    for alternative, written, joints in zip(record["alternatives"], files, seams.joints, strict=True):
        for i, piece in enumerate(alternative["pieces"]):
            piece["file"] = None if written is None else written[i]
        alternative["joints"] = [_joint(joint, assembly.names) for joint in joints]
    return {**record, "input": (notes or InputNotes()).as_dict(), "command": command}


def _joint(joint: Joint, names: Sequence[str]) -> dict[str, Any]:
    return {
        "pieces": [names[joint.first], names[joint.second]],
        "confidence": round(joint.confidence, 6),
        "gap": None if joint.gap is None else _short(joint.gap),
        "contact_points": joint.points,
        "contact_area": _short(joint.area),
    }


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
