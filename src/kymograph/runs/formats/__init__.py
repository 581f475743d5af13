"""How other programs keep runs: formats to export to, and files of theirs that can be read. A format is one module."""
