"""The snapshot script's JSON from stored runs."""

from __future__ import annotations

from kymograph.runs.formats.script_logs import to_script

__all__ = ["to_script"]
