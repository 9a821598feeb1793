"""Measured and printed figures side by side: never in one column, and never mixed up."""

import pytest

from eda.reproduce import EXPERIMENTS, Comparison, MeasuredRow
from eda.reproduce.comparison import PAIRWISE_COLUMNS, pairwise_figures
from eda.reproduce.published import published_table, table_labels

OURS = {"puzzles": "12", "rotation": "measured r", "translation": "measured t", "minutes": "measured m"}
COLUMNS = {**PAIRWISE_COLUMNS, "minutes": "minutes"}


@pytest.mark.parametrize("label", [label for label in table_labels() if label != "tab:equi-error"])
def test_a_column_is_measured_or_printed_but_never_both(label):
    groups = dict.fromkeys(row.group for row in published_table(label).rows)
    rows = [MeasuredRow(group, system, OURS) for group in groups for system in ("FGR", "GLO", "Eda", "ours")]
    headings, cells = Comparison(COLUMNS, rows, (label,)).table()
    printed = {text for row in published_table(label).rows for text in row.figures.values()}
    names = headings.index("system") + 1
    for place, heading in enumerate(headings[names:], start=names):
        column = {row[place] for row in cells} - {""}
        assert heading.endswith(", measured") != (", printed in Table" in heading)
        assert column <= (set(OURS.values()) if heading.endswith(", measured") else printed)
    assert any(", printed in Table" in heading for heading in headings)


def test_rows_of_the_same_system_and_data_meet_and_the_others_stay():
    rows = [MeasuredRow("3DL", "FGR", OURS), MeasuredRow("3DL", "ours", OURS)]
    headings, cells = Comparison(PAIRWISE_COLUMNS, rows, ("tab:3DMatch",)).table()
    table = {(row[0], row[1]): dict(zip(headings, row, strict=True)) for row in cells}
    assert table["3DL", "FGR"]["Δr [deg], measured"] == "measured r"
    assert table["3DL", "FGR"]["Δr [deg], printed in Table 2"] == "117.3"
    assert table["3DM", "FGR"]["Δr [deg], measured"] == ""
    assert table["3DL", "ours"]["Δr [deg], printed in Table 2"] == ""
    assert len(table) == 3 * 6 + 1
    assert "puzzles, printed in Table 2" not in headings


def test_a_report_becomes_figures():
    errors = {"mean": 12.345, "std_over_repeats": 0.5}
    report = {"puzzles": 6, "seconds_per_puzzle": 20.0, "metrics": {"rotation": errors, "translation": errors}}
    assert pairwise_figures(report) == {
        "puzzles": "6", "rotation": "12.35 ± 0.5", "translation": "12.35 ± 0.5", "minutes": "2"
    }  # fmt: skip
    del errors["std_over_repeats"]
    with pytest.raises(KeyError):
        pairwise_figures(report)


def test_every_experiment_names_what_it_reproduces_and_how_it_differs():
    assert len(EXPERIMENTS) == 7
    for kind in EXPERIMENTS.values():
        assert kind.title
        assert kind.numbers()
        assert kind.differences
        kind()  # every setting has a default
    assert {label for kind in EXPERIMENTS.values() for label in kind.labels} >= set(table_labels())
