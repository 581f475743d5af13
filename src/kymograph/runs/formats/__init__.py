"""File formats of other programs, to export to or to import from. A format is one module."""
