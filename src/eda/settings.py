"""Checks of settings: what a config accepts, also when it was read from a file that somebody else wrote."""

import math
from typing import Any

from eda.errors import InputError


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """An integer within bounds; the upper one only keeps a damaged file from asking for the impossible."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """A positive finite number."""
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number, got {value!r}")


def check_share(name: str, value: Any) -> None:
    """A number from 0 to 1."""
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InputError(f"{name} must be a number from 0 to 1, got {value!r}")


def check_switch(name: str, value: Any) -> None:
    """True or False."""
    if type(value) is not bool:
        raise InputError(f"{name} must be true or false, got {value!r}")


def check_text(name: str, value: Any) -> None:
    """A text, also an empty one."""
    if type(value) is not str:
        raise InputError(f"{name} must be a text, got {value!r}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of a few names."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
