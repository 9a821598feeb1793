"""What the paper prints: its tables as data, with source and protocol, and the numbers of its tables and figures.

Printed figures stay texts. They are shown in columns of their own and never enter a mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class PublishedRow:
    """A system on one dataset of a table."""

    group: str  # the dataset, where a table has several
    system: str
    figures: Mapping[str, str]  # by column, as printed


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper."""

    number: str  # such as "Table 2"
    data: str
    protocol: str
    rows: tuple[PublishedRow, ...]


@lru_cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_bytes())
    return content


def paper() -> str:
    """The source of everything here."""
    return str(_content()["paper"])


def published_table(label: str) -> PublishedTable:
    """The table that the source of the paper calls by this label."""
    entry = _content()["tables"][label]
    rows = tuple(
        PublishedRow(
            row["group"],
            row["system"],
            {column: text for column, text in row.items() if column not in ("group", "system")},
        )
        for row in entry["rows"]
    )
    return PublishedTable(entry["number"], entry["data"], entry["protocol"], rows)


def table_labels() -> tuple[str, ...]:
    """The labels of all tables."""
    return tuple(_content()["tables"])


def number_of(label: str) -> str:
    """The number of a table or figure, such as "Fig. 4"."""
    content = _content()
    return str({**content["tables"], **content["figures"]}[label]["number"])


def figure_text(label: str) -> str:
    """What a figure shows."""
    return str(_content()["figures"][label]["what"])


def figure_labels() -> tuple[str, ...]:
    """The labels of all figures."""
    return tuple(_content()["figures"])
