"""Honest baselines, and ours measured beside them."""
