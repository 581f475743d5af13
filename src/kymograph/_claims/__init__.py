"""Claims registered before the runs, and the judge that decides them over seeds; works without torch."""
