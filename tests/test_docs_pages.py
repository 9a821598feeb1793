"""The documentation is true: its Python runs, its commands exist, and so does what it refers to."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eda.assembly import AssembleConfig
from eda.cli import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")),
        *(ROOT / "src" / "eda" / "weights").glob("*.md"),
        *(path for path in DOCS.rglob("*.md") if not {"_build", "api"} & set(path.relative_to(DOCS).parts)),
    ]
)


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages."""
    fence = rf"^( *)```(?:{'|'.join(languages)})\n(.*?)^ *```"
    found = re.findall(fence, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) for indent, body in found]


def title(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def first_assembly(tmp_path_factory):
    """The folder in which the commands of the first tutorial were run, as they stand."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("webbrowser.open", lambda address: True)
        for words in commands(DOCS / "tutorials" / "first_assembly.md"):
            ran = CliRunner().invoke(app, words)
            assert ran.exit_code == 0, (words, ran.output)
    return folder


def test_the_first_tutorial_can_be_followed(first_assembly):
    assert {path.name for path in (first_assembly / "result").iterdir()} == {
        *("assembly.json", "pieces", "alternatives", "assembled.ply", "assembled.glb"),
        *("preview.png", "assembly.gif", "report.html"),
    }


def test_matrices_can_be_written_for_other_programs(first_assembly, monkeypatch):
    monkeypatch.chdir(first_assembly)
    (snippet,) = blocks(DOCS / "guides" / "other_programs.md", "python")
    exec(compile(snippet, "other_programs.md", "exec"), {})
    matrices = [np.loadtxt(path) for path in Path("result").glob("*.matrix.txt")]
    assert len(matrices) == 2
    for matrix in matrices:
        np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-9)


# Pages whose Python runs in an empty folder. That of the others needs data; other tests run it (`test_docs` as well).
ALONE = [DOCS / "tutorials" / "network.md"]


@pytest.mark.parametrize("page", ALONE, ids=title)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for snippet in blocks(page, "python"):
        exec(compile(snippet, str(page), "exec"), names)
    assert len(names) > 1


def test_the_python_of_the_page_on_evaluating_runs():
    """With one puzzle instead of many."""
    (snippet,) = blocks(DOCS / "evaluate.md", "python")
    assert "pieces=2-8,puzzles=200," in snippet
    names = {}
    exec(compile(snippet.replace("pieces=2-8,puzzles=200,", "pieces=2-2,puzzles=1,"), "evaluate.md", "exec"), names)
    assert names["report"]["puzzles"] == 1


def test_no_python_is_left_untested():
    tested = {DOCS / "assemble.md", DOCS / "evaluate.md", DOCS / "guides" / "other_programs.md", *ALONE}
    assert {page for page in PAGES if blocks(page, "python", "py")} == tested


def shell_lines(page: Path) -> list[list[str]]:
    """The words of every line in the shell blocks of a page, without comments."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def commands(page: Path) -> list[list[str]]:
    """The words after `eda` of every command of a page, without those that have shell variables, and no plugins."""
    named = [line[1:] for line in shell_lines(page) if line[0] == "eda" and not any("$" in word for word in line)]
    return [line[2:] if line[0] == "--plugin" else line for line in named]


@pytest.mark.usefixtures("registries")
def test_the_guide_to_plugins_can_be_followed(tmp_path, monkeypatch):
    """Its lines are run one after the other, as they stand, in a copy of the folder of examples."""
    module = "07_plug_in_your_own"
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    for program, *words in shell_lines(DOCS / "guides" / "plug_in.md"):
        if program == "cd":
            monkeypatch.chdir(words[0])
        elif program == "python":
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
        else:
            ran = CliRunner().invoke(app, words)
            assert ran.exit_code == 0, (words, ran.output, ran.exception)
    assert (tmp_path / "examples" / "longer" / "model.safetensors").is_file()
    monkeypatch.delitem(sys.modules, module)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=title)
def test_commands_have_the_options_that_the_page_gives_them(page):
    group = typer.main.get_command(app)
    for name, *words in commands(page):
        assert name in group.commands, f"there is no command {name}"
        known = {option for each in group.commands[name].params for option in (*each.opts, *each.secondary_opts)}
        known |= {"--help"}
        used = {word for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known, f"eda {name} has no {', '.join(sorted(used - known))}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_lead_somewhere(page):
    whole = page.read_text(encoding="utf-8")
    text = re.sub(r"^( *)```.*?^ *```", "", whole, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{target} is not there"
    for script in re.findall(r"\b((?:benchmarks|examples)/\w+\.(?:py|md))\b(?!` of commit )", whole):
        assert (ROOT / script).exists(), f"{script} is not there"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_lines_are_short(page):
    long = [line for line in page.read_text(encoding="utf-8").splitlines() if len(line) > 120 and line[:1] != "|"]
    assert not long


def test_nothing_is_installed_by_a_name_that_is_not_published():
    files = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    wrong = re.compile(r"pip install\s+['\"]?eda")
    assert not [title(path) for path in files if wrong.search(path.read_text(encoding="utf-8"))]


def test_modules_in_the_architecture_exist():
    names = re.findall(r"`(eda(?:\.\w+)+)`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert len(names) > 15
    for name in names:
        importlib.import_module(name)


def test_names_of_the_code_in_the_glossary_exist():
    """Those of its third column; names may be of commands and options as well."""
    rows = re.findall(r"^\|[^|]*\|[^|]*\|([^|]*)\|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    names = {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "eda").rglob("*.py")))
    assert len(names) > 30
    words = {word for name in names for word in re.findall(r"\w+", name)}
    assert not [word for word in sorted(words) if not re.search(rf"\b{word}\b", source)]


def test_every_package_is_on_the_walk():
    walk = (DOCS / "architecture.md").read_text(encoding="utf-8")
    inside = [path for path in (ROOT / "src" / "eda").iterdir() if not path.name.startswith("_")]
    names = {path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not [name for name in sorted(names) if f"`eda.{name}`" not in walk]


def test_file_names_that_occur_twice_are_explained():
    """The architecture page lists them with their folders, no more and no fewer."""
    package = ROOT / "src" / "eda"
    folders = defaultdict(set)
    for path in package.rglob("*.py"):
        if path.name != "__init__.py":
            folders[path.name].add(str(path.parent.relative_to(package)))
    rows = re.findall(r"^\| `(\w+\.py)` \| (.*?) \|", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE)
    explained = {name: set(re.findall(r"`([^`]+)`", where)) for name, where in rows}
    assert explained == {name: where for name, where in folders.items() if len(where) > 1}


def test_hops_of_the_walks_exist():
    """`FILE: NAME` on the architecture page is a class, function or table of that file below src/eda."""
    hops = re.findall(r"`([\w/]+\.py): ([\w.]+)`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert len(hops) > 60
    for file, name in hops:
        module = importlib.import_module("eda." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        reduce(getattr, name.split("."), module)


def test_every_page_is_in_the_site():
    """A page is reached from the list of contents of the index, or of the log."""
    listed = set()
    for index in (DOCS / "index.md", DOCS / "log" / "index.md"):
        for block in blocks(index, r"\{toctree\}"):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(index.parent / f"{name}.md").resolve() for name in names}
    pages = {page for page in PAGES if page.is_relative_to(DOCS)} - {DOCS / "index.md"}
    assert pages <= listed


def test_docstrings_become_markup_that_says_the_same(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    to_rst = importlib.import_module("plain_docstrings").to_rst
    assert to_rst("|dw|^2 of `f(x)`s, a_i * b") == [r"\|dw\|^2 of \ ``f(x)``\ s, a\_i \* b", ""]
    assert to_rst("Above:\n\n    x = 1\n\n- one\n  more\n- two") == [
        *(r"Above\:", "", "::", "", "        x = 1", "", "- one more", "- two", "")
    ]


def test_fields_of_dataclasses_are_listed(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    fields_of = importlib.import_module("plain_docstrings").fields_of
    pieces = importlib.import_module("eda.pieces").Pieces
    assert fields_of(pieces)[0] == ("points", "Tensor", "(P, 3), each piece in its own frame")
    assert next(name for name, _, _ in fields_of(AssembleConfig)) == "samples"
