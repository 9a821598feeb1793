"""The report: one HTML file with an interactive 3D view of an assembly, which needs no network and no installation.

`contents` is what it shows, `encoding` is the data that the page receives, `page` puts both into HTML. The page's own
markup, style and scripts are in `assets/`.
"""

from eda.output.report.contents import Report, ReportPiece, shown_colors
from eda.output.report.page import render_report, write_report

__all__ = ["Report", "ReportPiece", "render_report", "shown_colors", "write_report"]
