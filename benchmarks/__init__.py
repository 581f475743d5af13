"""How fast this package is, beside the research scripts' way of working and beside hooks written by hand."""
