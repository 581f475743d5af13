"""Which runs are missing, and who computes them; this package knows run ids, not networks."""
