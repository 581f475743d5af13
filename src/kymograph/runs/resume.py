"""The resume state of an unfinished run: written atomically, and used only by the same run and code.

A file ends with the SHA-256 of everything before it. A file that is damaged, or was written for another run or by other
code, is ignored: the run starts over, which costs time but changes no number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from kymograph.errors import KymographError
from kymograph.foreign.files import MAX_TENSORS, is_file, read_bytes
from kymograph.foreign.tensors import tensor_header
from kymograph.runs.files import write_atomically
from kymograph.runs.provenance import code_hash
from kymograph.training.state_tree import flatten, unflatten

FILE = "state.safetensors"
SCHEMA = 2
_DIGEST = 64


def write_state(path: Path, state: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Writes a nested state with facts that identify its run, replacing any earlier state."""
    tensors, shape = flatten(dict(state))
    known = {"schema": SCHEMA, "facts": _with_code(facts), "shape": shape}
    header = json.dumps(known, sort_keys=True, allow_nan=False)
    content = save(tensors, metadata={"kymograph": header})
    write_atomically(path, content + hashlib.sha256(content).hexdigest().encode())


def _with_code(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts with the hash of this package's code: other code might continue with other numbers."""
    return {**facts, "package": code_hash()}


def read_state(path: Path, facts: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Returns the state in a file that was written with the same ``facts``, or None and why it is not used."""
    if not is_file(path):
        return None, ""
    try:
        whole = read_bytes(path, MAX_TENSORS, follow=False)
        content, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        if hashlib.sha256(content).hexdigest().encode() != digest:
            return None, "its state on disk is damaged"
        stored = tensor_header(content).facts
        if stored["schema"] != SCHEMA:
            return None, "its state on disk has another format version"
        if stored["facts"] != json.loads(json.dumps(_with_code(facts))):
            return None, "its state on disk belongs to other code or another run"
        return unflatten(stored["shape"], load(content)), ""
    except (KeyError, ValueError, TypeError, IndexError, RecursionError, KymographError):
        return None, "its state on disk cannot be read"
