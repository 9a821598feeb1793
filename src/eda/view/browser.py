"""The report in a browser, where there is one to show it."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def open_report(report: Path) -> bool:
    """Whether a browser took it. Without a display none is asked: one in the terminal shows nothing of a 3D view."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_display and webbrowser.open(report.resolve().as_uri())
