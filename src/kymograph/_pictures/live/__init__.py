"""A running sweep, live: its state as plain data, shown in a terminal or as a page for the browsers of this machine."""
