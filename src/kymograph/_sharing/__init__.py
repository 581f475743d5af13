"""What others can check: a directory of runs as one file, and whether it is what it says it is."""
