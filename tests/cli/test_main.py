"""The command line as a whole: help, version and exit codes."""

import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from support.commands import run_command
from typer.testing import CliRunner

import eda
import eda.cli


@pytest.fixture
def run(monkeypatch):
    """A command in this process, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(eda.cli.app, [str(a) for a in arguments])


def test_help_lists_every_command_in_the_order_of_use(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "--version" in result.output
    assert "--debug" in result.output
    listed = re.findall(r"^\W*(\w+) {2,}[A-Z]", result.output[result.output.index("─ Assemble ") :], re.MULTILINE)
    assert listed == [
        "assemble", "view",
        "train", "evaluate", "reproduce", "check", "models",
        "fracture", "rooms", "streets", "prepare", "show",
    ]  # fmt: skip
    assert set(listed) == {command.callback.__name__ for command in eda.cli.app.registered_commands}


def test_version_is_that_of_the_package(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"eda {eda.__version__}"
    assert eda.__version__ == version("eda-assembly")


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"]])
def test_help_does_not_load_torch(arguments):
    code = (
        "import sys, atexit\n"
        "import eda.cli\n"
        f"sys.argv = ['eda', *{arguments}]\n"
        "atexit.register(lambda: print('loaded', 'torch' in sys.modules or 'numpy' in sys.modules))\n"
        "eda.cli.main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0
    assert ran.stdout.strip().endswith("loaded False")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["--version"], 0), ([], 2), (["nonsense"], 2)],
)
def test_the_command_exits_with(arguments, code):
    ran = run_command(*arguments)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert bool(ran.stdout) == (arguments != ["nonsense"])
