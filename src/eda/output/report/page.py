"""The report as one page of HTML: the template with its style, its scripts and the encoded data."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from eda.atomic import write_atomically
from eda.output.report.contents import Report
from eda.output.report.encoding import encode_report

_SCRIPTS = (
    "motion.js",
    "shaders.js",
    "painter.js",
    "panel.js",
    "snapshot.js",
    "viewer.js",
)  # in the order in which they run


def write_report(path: Path | str, report: Report) -> None:
    """Write the report as a file, completely or not at all."""
    write_atomically(Path(path), render_report(report).encode())


def render_report(report: Report) -> str:
    """The report as one page of HTML."""
    style, scripts = _asset("viewer.css"), [_asset(name) for name in _SCRIPTS]
    parts = {
        "title": html.escape(report.title).encode("ascii", "xmlcharrefreplace").decode(),
        "policy": _security_policy(style, scripts),
        "style": style,
        "data": _inert_json(encode_report(report)),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    # In one pass, so that a title that looks like a slot is not filled in.
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _asset("template.html"))


def _asset(name: str) -> str:
    return resources.files("eda.output.report").joinpath("assets", name).read_text(encoding="utf-8")


def _security_policy(style: str, scripts: Sequence[str]) -> str:
    """The page's content security policy: run these scripts and no others, and fetch nothing."""
    allowed = " ".join(_fingerprint(script) for script in scripts)
    return f"default-src 'none'; img-src data:; style-src {_fingerprint(style)}; script-src {allowed}"


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inert_json(contents: dict[str, Any]) -> str:
    """JSON without any character that has a meaning in HTML."""
    text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
