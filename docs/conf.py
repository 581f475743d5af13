"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Kymograph"
author = "Kymograph contributors"
copyright = "Kymograph contributors"
highlight_language = "none"  # blocks without a language are commands
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "study_pages", "gallery"]
nb_execution_mode = "off"  # the notebooks show what they computed when `make notebooks` ran them
html_theme = "furo"
html_title = "Kymograph"
exclude_patterns = ["jupyter_execute", "_build", "_extensions"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"


def _literal_blocks(app, what, name, obj, options, lines):
    """Turns the indented examples of docstrings into literal blocks, which reStructuredText wants marked."""
    shown = []
    for line in lines:
        starts = line.startswith("    ") and not (shown and shown[-1].strip())
        before = next((other for other in reversed(shown) if other.strip()), "")
        if starts and not before.startswith(" ") and not before.endswith(":"):
            shown += ["::", ""]
        shown.append(line)
    lines[:] = shown


def setup(app):
    """Registers the hook, to run before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _literal_blocks, priority=400)


myst_heading_anchors = 3  # headings that pages link to, as GitHub names them
