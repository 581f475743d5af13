"""Finds the missing runs and has engines compute them; nothing here knows about networks."""
