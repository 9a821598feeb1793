"""The data file says what the source of the paper says: its tables are read here once more, from the LaTeX."""

import re

import pytest
from support.dataset_files import REAL_DATA

from eda.reproduce.published import (
    figure_labels,
    number_of,
    paper,
    published_table,
    table_labels,
)

SOURCE = REAL_DATA.parent / "paper" / "eda.tex"
needs_source = pytest.mark.skipif(not SOURCE.is_file(), reason="the LaTeX source of the paper is not here")
SCANS = ("tab:3DMatch", "tab:3DMatch_complete")


def source() -> str:
    return re.sub(r"(?<!\\)%.*", "", SOURCE.read_text(encoding="utf-8"))


def environments(kind: str) -> list[str]:
    """The numbered floats of a kind, in order: the labels that follow their captions."""
    floats = re.findall(rf"\\begin\{{(?:wrap)?{kind}\}}(.*?)\\end\{{(?:wrap)?{kind}\}}", source(), re.DOTALL)
    return [body for body in floats if r"\caption" in body]


def rows_of(label: str) -> list[list[str]]:
    """The cells of the table with this label, without marks of the typesetting."""
    (body,) = [body for body in environments("table") if f"\\label{{{label}}}" in body]
    inside = re.search(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", body, re.DOTALL)[1]
    inside = re.sub(r"\\(hline|centering)|\\cmidrule\S*", "", inside)
    rows = [[plain(cell) for cell in row.split("&")] for row in inside.split(r"\\")]
    return [row for row in rows if any(row)]


def plain(cell: str) -> str:
    cell = re.sub(r"\\(textbf|multicolumn\{\d\}\{\w\})\{([^}]*)\}", r"\2", cell)
    cell = re.sub(r"\s*\\times 10\^\{(-?\d+)\}", r"e\1", cell)
    return re.sub(r"\s+", " ", cell.replace("$", "")).strip()


@needs_source
@pytest.mark.parametrize("label", [label for label in table_labels() if label != "tab:equi-error"])
def test_every_printed_figure_is_that_of_the_source(label):
    rows = rows_of(label)
    columns = 2 if len(rows[0]) == 3 else 3 if len(rows[0]) == 4 and label not in SCANS else 2
    printed = [row for row in rows if row[0] and row[0] not in ("", " ")]
    published = published_table(label).rows
    by_system = {}
    for row in published:
        by_system.setdefault(row.system, []).extend(row.figures.values())
        assert len(row.figures) == columns
    assert by_system == {row[0]: row[1:] for row in printed}
    if label in SCANS:
        assert rows[0] == ["", "3DM", "3DL", "3DZ"]
        assert [row.group for row in published[:3]] == ["3DM", "3DL", "3DZ"]


@needs_source
def test_the_errors_of_equivariance_are_those_of_the_source():
    heading, figures = rows_of("tab:equi-error")
    assert heading == ["L_{R}", "L_{P}"]
    (row,) = published_table("tab:equi-error").rows
    assert {name: float(text) for name, text in row.figures.items()} == {
        "L_R": float(figures[0]),
        "L_P": float(figures[1]),
    }


@needs_source
@pytest.mark.parametrize(
    ("kind", "word", "labels"), [("table", "Table", table_labels()), ("figure", "Fig.", figure_labels())]
)
def test_the_numbers_are_those_of_the_source(kind, word, labels):
    floats = environments(kind)
    for label in labels:
        (place,) = [i for i, body in enumerate(floats, start=1) if f"\\label{{{label}}}" in body]
        assert number_of(label) == f"{word} {place}"


def test_every_table_has_a_source_and_a_protocol():
    assert "Wang" in paper()
    assert len(table_labels()) == 6
    for label in table_labels():
        table = published_table(label)
        assert table.data
        assert table.protocol
        assert table.rows
        assert all(type(text) is str for row in table.rows for text in row.figures.values())
