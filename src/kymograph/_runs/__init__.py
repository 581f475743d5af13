"""Storing runs and reading them back; apart from resume states, nothing here needs torch."""
