"""Regime: the kind of pieces that a model is for. It is a setting of the model and lies in the model's file.

fracture    pieces of a broken object: they meet at their break surfaces, and nothing overlaps
scan        views of one scene: they show the same surface twice where they overlap
"""

from __future__ import annotations

from typing import Literal, get_args

Regime = Literal["fracture", "scan"]
REGIMES: tuple[Regime, ...] = get_args(Regime)
