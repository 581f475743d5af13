"""Stored runs and their verdicts as pages: the report that is sent around, and the live view."""
