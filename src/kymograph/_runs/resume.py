"""The resume state of an unfinished run: written atomically, without pickling, and used only where nothing has changed.

A file ends with the SHA-256 of everything before it. With the state it holds its identity: by name, everything that the
numbers to come depend on. A file that is damaged, or whose identity differs, is ignored: the run starts over, which
costs time but changes no number, and says what differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from kymograph._errors import KymographError
from kymograph._io.files import MAX_TENSORS, is_file, read_bytes
from kymograph._io.tensors import tensor_header
from kymograph._io.writing import write_atomically
from kymograph._runs.provenance import code_hash, versions

FILE = "state.safetensors"
SCHEMA = 3
MOST_NAMED = 4
"""How many differences between two identities are named one by one."""
_DIGEST = 64
_HASHES = ("run", "program", "command line", "code of kymograph")
"""What an identity holds as a hash, whose values say nothing to a reader."""
_SCALARS = (str, int, float, bool, type(None))


def write_resume_state(path: Path, state: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Writes a nested state with its identity, replacing any earlier state; identities are scalars by name."""
    tensors, shape = flatten(dict(state))
    described = {"schema": SCHEMA, "identity": _with_versions(identity), "shape": shape}
    content = save(tensors, metadata={"kymograph": json.dumps(described, sort_keys=True, allow_nan=False)})
    write_atomically(path, content + hashlib.sha256(content).hexdigest().encode())


def read_resume_state(path: Path, identity: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Returns the state in a file that was written with the same ``identity``, or None and why it is not used."""
    if not is_file(path):
        return None, ""
    try:
        whole = read_bytes(path, MAX_TENSORS, follow=False)
        content, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        if hashlib.sha256(content).hexdigest().encode() != digest:
            return None, "its state on disk is damaged"
        described = tensor_header(content).metadata
        if described["schema"] != SCHEMA:
            return None, "its state on disk was written by another version of kymograph"
        if different := differences(described["identity"], _with_versions(identity)):
            return None, f"it differs from its earlier start in {different}"
        return unflatten(described["shape"], load(content)), ""
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError, KymographError):
        return None, "its state on disk cannot be read"


def differences(earlier: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Returns the names under which two identities differ, with both values; empty if they are the same.

    >>> differences({"program": "ab", "lr of optimizer": 0.1}, {"program": "cd", "lr of optimizer": 0.2})
    'program and lr of optimizer (0.1, now 0.2)'
    """
    changed = []
    for name in dict.fromkeys((*present, *earlier)):
        before, now = (_text(identity[name]) if name in identity else "absent" for identity in (earlier, present))
        if name not in earlier or name not in present or earlier[name] != present[name]:
            changed.append(name if name in _HASHES else f"{name} ({before}, now {now})")
    if len(changed) > MOST_NAMED:
        changed[MOST_NAMED - 1 :] = [f"{len(changed) - MOST_NAMED + 1} others"]
    return " and ".join(filter(None, (", ".join(changed[:-1]), *changed[-1:])))


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _with_versions(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the identity with the versions of what computes: others might continue with other numbers."""
    return {
        **identity,
        **{f"version of {name}": version for name, version in versions().items()},
        "code of kymograph": code_hash(),
    }


def flatten(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Returns the tensors of a nested state, named ``0``, ``1``, ..., and the rest as JSON-serialisable data.

    Supported are dictionaries with string or integer keys, lists, tuples, tensors, arrays and plain values. Anything
    else could not be read back without running code, and is refused.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _flatten(state, tensors, "state")


def unflatten(shape: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the state that `flatten` took apart; raises ValueError if it is damaged."""
    if isinstance(shape, _SCALARS):
        return shape
    if not isinstance(shape, list) or not shape:
        raise ValueError("not a state")
    kind, *rest = shape
    if kind == "tensor":
        return tensors[rest[0]]
    if kind == "array":
        return tensors[rest[0]].numpy()
    if kind == "float":
        return float(rest[0])
    if kind == "big":
        return int(rest[0])
    if kind == "dict":
        return {int(key) if kind == "int" else str(key): unflatten(value, tensors) for (kind, key), value in rest[0]}
    if kind in ("list", "tuple"):
        items = [unflatten(value, tensors) for value in rest[0]]
        return items if kind == "list" else tuple(items)
    raise ValueError(f"a state has no part of kind {kind!r}")


def _flatten(value: Any, tensors: dict[str, Tensor], path: str) -> Any:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return ["float", repr(value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return ["big", str(value)]  # generators have such numbers, and not every JSON reader preserves them
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, Tensor | np.ndarray | np.generic):
        name = str(len(tensors))
        whole = value.detach().cpu().clone() if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        tensors[name] = whole.contiguous()
        return ["tensor" if isinstance(value, Tensor) else "array", name]
    if isinstance(value, Mapping):
        pairs = []
        for key, item in value.items():
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise _refusal(f"{path}[{key!r}]", key)
            pairs.append([[type(key).__name__, str(key)], _flatten(item, tensors, f"{path}[{key!r}]")])
        return ["dict", pairs]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_flatten(item, tensors, f"{path}[{index}]") for index, item in enumerate(value)]]
    raise _refusal(path, value)


def _refusal(path: str, value: Any) -> KymographError:
    return KymographError(
        f"{path} is a {type(value).__name__}, which cannot be stored; a resumable state has tensors, numbers, "
        "strings, lists and dictionaries"
    )
