"""The research scripts: their logs and files, read and written, and their flags, explained."""
