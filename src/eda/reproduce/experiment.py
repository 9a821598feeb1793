"""Experiment: the protocol of every table and figure of the paper, and what it hands back.

A subclass is a frozen dataclass. Its fields are its settings at the scale of a CPU, each with a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from eda.reproduce.comparison import Comparison
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.published import number_of
from eda.reproduce.workbench import Workbench


@dataclass(frozen=True)
class Findings:
    """What came of an experiment."""

    tables: Sequence[Comparison]
    drawing: str | None = None  # SVG
    notes: Sequence[str] = ()  # what this run adds to `Experiment.differences`


class Experiment(ABC):
    """A table or figure of the paper, or several that come of the same work."""

    title: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]  # of the tables and figures, in the source of the paper
    differences: ClassVar[tuple[str, ...]]  # how the setting on a CPU differs from the paper's
    plan_settings: ClassVar[tuple[str, ...]] = ()  # those that its plan reads too; all others belong to the CPU's scale

    @abstractmethod
    def measure(self, bench: Workbench) -> Findings:
        """At the scale of a CPU. What was measured before the last stop is not measured again."""

    @abstractmethod
    def plan(self, run: PaperRun) -> Plan:
        """The commands of the paper's scale. Raises `InputError` where data are missing."""

    @classmethod
    def numbers(cls) -> str:
        """Such as "Table 2, Table 7"."""
        return ", ".join(number_of(label) for label in cls.labels)

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """The settings."""
        return {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
