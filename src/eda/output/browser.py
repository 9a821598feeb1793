"""Opens a report in the browser, if there is a display."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def open_report(report: Path) -> bool:
    """Whether a browser opened the report. Without a display none is tried: text browsers cannot show a 3D view."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_display and webbrowser.open(report.resolve().as_uri())
