"""The report: stored runs and their verdicts as one self-contained page, and the verdicts as a table."""
