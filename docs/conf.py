"""The documentation site: Sphinx, furo and MyST. `make docs` builds it into docs/_build/html."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Eda"
author = "the authors of Eda"
version = release = installed_version("eda-assembly")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "api_pages",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_ext"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# One backtick means code in the docstrings, as in Markdown.
default_role = "code"
# Annotations name types without their module, so two classes of one name are ambiguous to Sphinx.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries = False
highlight_language = "none"

html_theme = "furo"
html_show_copyright = False
html_title = f"Eda {version}"
copybutton_exclude = ".linenos, .gp, .go"
