"""What commands print on."""

from rich.table import Table

from eda.cli.terminal import FILE_WIDTH, table_console


def test_tables_in_a_pipe_are_not_cut_off(capsys):
    table = Table(*(f"heading {number}" for number in range(12)))
    table.add_row(*(f"a value {number}" for number in range(12)))
    table_console().print(table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert "a value 11" in printed
    assert max(map(len, printed.splitlines())) > 80


def test_a_pipe_has_a_width(capsys):
    assert table_console().width == FILE_WIDTH
