"""What was found out about the pieces of a user before they are assembled, for the terminal and for the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eda.data.piece_files.input_warnings import input_warnings
from eda.data.piece_files.piece_list import UsablePieces

_MOST_LINES = 8


@dataclass(frozen=True)
class InputNotes:
    """Texts about pieces, by their names."""

    refused: dict[str, str] = field(default_factory=dict)  # why a piece was left out
    warnings: tuple[str, ...] = ()  # what is probably not what was meant
    repairs: dict[str, str] = field(default_factory=dict)  # what was repaired before points were drawn, or left open

    @staticmethod
    def of(usable: UsablePieces) -> InputNotes:
        """All that can be said about these pieces. Their meshes are repaired here."""
        repairs = {piece.name: str(piece.repair.defects) for piece in usable.pieces if piece.repair is not None}
        noted = {name: words for name, words in repairs.items() if words}
        return InputNotes(usable.refused, tuple(input_warnings(usable.pieces)), noted)

    @property
    def doubts(self) -> list[str]:
        """Lines on what the user should look at."""
        return [*(f"left out: {reason}" for reason in self.refused.values()), *self.warnings]

    @property
    def repair_lines(self) -> list[str]:
        """A line for every piece that was repaired; of many pieces, some and how many more there are."""
        lines = [f"{name}: {words}" for name, words in self.repairs.items()]
        if len(lines) <= _MOST_LINES:
            return lines
        more = len(lines) - _MOST_LINES + 1
        return [*lines[:-more], f"{more} more pieces were repaired; assembly.json names them"]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {"refused": self.refused, "warnings": list(self.warnings), "repairs": self.repairs}
