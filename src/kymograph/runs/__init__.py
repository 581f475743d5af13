"""Storing runs and reading them back; apart from resume states and probes, nothing here needs torch."""
