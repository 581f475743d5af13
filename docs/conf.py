"""Sphinx configuration."""

project = "Kymograph"
author = "The Kymograph authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "Kymograph"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
