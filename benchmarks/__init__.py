"""Honest baselines, and our own code measured against them."""
