"""Settings as text: `KEY=VALUE`, read by the type of the setting's default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eda.errors import InputError

# By the type of a default: how text becomes a value, and what a message calls it.
_TYPES: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    str: (str, "a text"),
    bool: ({"true": True, "false": False}.__getitem__, "true or false"),
    tuple: (lambda text: tuple(filter(None, text.split("+"))), "names joined by +"),
}


def split_words(text: str) -> list[str]:
    """The parts of `PATH,KEY=VALUE,...` or `KEY=VALUE,...`; paths and values may have commas of their own."""
    return re.split(r",(?=\w+=)", text) if text else []


def read_settings(words: Iterable[str]) -> dict[str, str]:
    """Words `KEY=VALUE` as a table. Raises `InputError` for a word without an equals sign."""
    parts = [word.partition("=") for word in words]
    bad = [key for key, equals, _ in parts if not equals]
    if bad:
        raise InputError(f"{bad[0]}: expected settings as KEY=VALUE, separated by commas")
    return {key.strip(): value.strip() for key, _, value in parts}


def typed_settings(owner: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as their defaults want them; what is not text stays as it is. Several names are joined by +.

    Raises `InputError`, which names the owner, for a setting without a default and for text of another type.
    """
    return {key: _typed_value(owner, key, value, defaults) for key, value in settings.items()}


def _typed_value(owner: str, key: str, value: Any, defaults: Mapping[str, Any]) -> Any:
    if key not in defaults:
        listed = ", ".join(f"{name}={default}" for name, default in defaults.items())
        raise InputError(f"{owner} has no setting {key!r}; it has {listed}")
    if not isinstance(value, str):
        return value
    from_text, expected = _TYPES[type(defaults[key])]
    try:
        return from_text(value)
    except (ValueError, KeyError) as error:
        raise InputError(f"{owner}: {key} must be {expected}, such as {defaults[key]}, got {value!r}") from error
