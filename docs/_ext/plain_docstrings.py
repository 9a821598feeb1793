"""Docstrings are plain text with Markdown's backticks and lists. This turns them into reStructuredText.

Characters that reStructuredText would take for markup are escaped, indented blocks become literal blocks, and the
fields of dataclasses, which are described by comments, are listed.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

_ITEM = re.compile(r"(?:-|\d+\.) ")
_FIELD = re.compile(r"^    (\w+): ([^=#]+?)(?: = [^#]*?)?\s*(?:#\s*(.*))?$")
_SPECIAL = re.compile(r"([\\*_|<>`:\[\]])")


def to_rst(text: str) -> list[str]:
    """The lines of a plain docstring as lines of reStructuredText."""
    lines: list[str] = []
    for block in _blocks(text.splitlines()):
        if block[0].startswith(" "):
            lines += ["::", "", *(f"    {line}" for line in block), ""]
        elif _ITEM.match(block[0]):
            lines += [*_items(block), ""]
        else:
            lines += [*_inline("\n".join(block)).splitlines(), ""]
    return lines


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines of one kind: indented, a list with its continuation lines, or a paragraph."""
    block: list[str] = []
    kind = ""
    for line in [*lines, ""]:
        new = _kind(line, kind)
        if block and new != kind:
            yield block
            block = []
        kind = new
        if line.strip():
            block.append(line)


def _kind(line: str, before: str) -> str:
    if not line.strip():
        return ""
    if _ITEM.match(line):
        return "list"
    if line.startswith(" "):
        return "list" if before == "list" else "indented"
    return "paragraph"


def _items(block: list[str]) -> Iterator[str]:
    """Each item on one line, because continuation lines may be indented in any way."""
    items: list[str] = []
    for line in block:
        if _ITEM.match(line):
            items.append(line)
        else:
            items[-1] += f" {line.strip()}"
    for item in items:
        mark, _, rest = item.partition(" ")
        yield f"{mark} {_inline(rest)}"


def _inline(text: str) -> str:
    """Code in single or double backticks stays code; everything else is only text."""
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(_code(part) if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts))


def _code(text: str) -> str:
    # The escaped blanks let markup stand next to a letter.
    return rf"\ ``{' '.join(text.split())}``\ "


def fields_of(cls: type) -> list[tuple[str, str, str]]:
    """(name, type, comment) of the fields that a dataclass declares, read from its source."""
    if not dataclasses.is_dataclass(cls) and not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return []
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return []
    matches = (_FIELD.match(line) for line in inspect.cleandoc("\n" + source).splitlines())
    own = inspect.get_annotations(cls)
    return [(m[1], m[2], m[3] or "") for m in matches if m and m[1] in own and not m[1].startswith("_")]


def _listed(fields: list[tuple[str, str, str]]) -> list[str]:
    return [f"- ``{name}: {kind}``" + (f": {_inline(comment)}" if comment else "") for name, kind, comment in fields]


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines of a docstring in place, as autodoc wants it."""
    lines[:] = to_rst("\n".join(lines))
    fields = fields_of(obj) if what == "class" and inspect.isclass(obj) else []
    if fields:
        lines += [*_listed(fields), ""]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
