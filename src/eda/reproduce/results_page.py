"""The page of an experiment: Markdown with the tables, the picture, and what differs from the paper's setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from eda.evaluate import markdown
from eda.reproduce.comparison import Comparison
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.published import figure_labels, figure_text, number_of, paper, published_table, table_labels


def page(experiment: Experiment, findings: Findings, command: str, picture: str | None) -> str:
    """The whole page; `picture` is the name of the file of the drawing."""
    parts = [
        f"# {experiment.title}\n",
        f"{experiment.numbers()} of the paper. Measured {date.today().isoformat()} on one machine's CPU:\n",
        f"```sh\n{command}\n```\n",
        *_tables(findings.tables),
        *([f"![{experiment.title}]({picture})\n"] if picture else []),
        "## What differs from the paper\n",
        _list([*experiment.differences, *findings.notes]),
        "## Settings\n",
        _list([f"`{name}={_as_text(value)}`" for name, value in settings_of(experiment).items()]),
        *printed_sources(experiment.labels),
    ]
    return "\n".join(parts)


def paper_page(experiment: Experiment, comparison: Comparison, command: str) -> str:
    """The page of a plan that was executed."""
    parts = [
        f"# {experiment.title}, at the paper's scale\n",
        f"{experiment.numbers()} of the paper. Measured {date.today().isoformat()}:\n",
        f"```sh\n{command}\n```\n",
        *_tables([comparison]),
        *printed_sources(experiment.labels),
    ]
    return "\n".join(parts)


def settings_of(experiment: Experiment) -> Mapping[str, Any]:
    """The settings of an experiment by name."""
    return {field.name: getattr(experiment, field.name) for field in dataclasses.fields(experiment)}  # type: ignore[arg-type]


def printed_sources(labels: Sequence[str]) -> list[str]:
    """Where printed figures come from, and by which protocol; empty where nothing is printed."""
    lines = []
    for label in labels:
        if label in table_labels():
            table = published_table(label)
            lines.append(f"{table.number} (`{label}`). Data: {table.data}. Protocol: {table.protocol}.")
        elif label in figure_labels():
            lines.append(f"{number_of(label)} (`{label}`), a picture without figures: {figure_text(label)}.")
    return ["## What the paper prints\n", f"{paper()}.\n", _list(lines)] if lines else []


def _tables(tables: Sequence[Comparison]) -> list[str]:
    return [markdown(each.table()) for each in tables]


def _list(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _as_text(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
