"""Files that this process did not just write: every one is read through this package, and none is trusted."""
