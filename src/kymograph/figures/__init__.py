"""Drawing from stored runs, without torch: each function returns a matplotlib figure that carries its own data."""
