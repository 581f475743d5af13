"""The verbs of the command line, in groups: their usage lines (``PARTS``), options and functions."""
