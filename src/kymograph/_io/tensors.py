"""The header of a safetensors file, fully validated, without torch.

A file consists of the header's length in eight bytes, the header as JSON, and the tensors' data one after the other.
The header gives the dtype, shape and offsets of each tensor; a forged one can ask for any amount of memory, or for
another tensor's bytes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kymograph._io.documents import parse_json

_MAX_HEADER = 16 * 2**20
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
          "U16": 2, "U32": 4, "U64": 8}  # fmt: skip


@dataclass(frozen=True)
class TensorEntry:
    """One tensor: its ``dtype`` as the format names it, its shape, and its range of bytes in the file."""

    dtype: str
    shape: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True)
class TensorHeader:
    """The header of a safetensors file, validated against the length of the file."""

    tensors: Mapping[str, TensorEntry]
    metadata: Any
    """What kymograph stored with the tensors; None for files from elsewhere."""


def tensor_header(content: bytes) -> TensorHeader:
    """Returns the checked header of a whole file; raises ValueError if it is cut off or forged."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MAX_HEADER):
        raise ValueError("its header is cut off")
    # Cached, because runs that differ only in their seed have the same header.
    return _checked(content[8 : 8 + length], len(content))


@functools.lru_cache(maxsize=256)
def _checked(header: bytes, size: int) -> TensorHeader:
    value = parse_json(header)
    if not isinstance(value, dict):
        raise ValueError("its header is not an object")
    texts = value.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("its metadata are not strings")
    start = 8 + len(header)
    entries = {name: _entry(described, start) for name, described in value.items()}
    end = start
    for entry in sorted(entries.values(), key=lambda entry: (entry.first, entry.last)):
        if entry.first != end:
            raise ValueError("its tensors overlap, or leave a gap")
        end = entry.last
    if end != size:
        raise ValueError("it is cut off, or continues after its last tensor")
    metadata = parse_json(texts["kymograph"].encode(), finite=False) if "kymograph" in texts else None
    return TensorHeader(entries, metadata)


def _entry(value: Any, start: int) -> TensorEntry:
    try:
        dtype, shape, (first, last) = value["dtype"], value["shape"], value["data_offsets"]
        numbers = [*shape, first, last]
        if not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
            raise ValueError("a tensor's shape or offset is not a valid number")
        if math.prod(shape) * _BYTES[dtype] != last - first:
            raise ValueError("a tensor's shape does not fit its data")
    except (KeyError, TypeError):
        raise ValueError("a tensor lacks its type, shape or offsets") from None
    return TensorEntry(dtype, tuple(shape), start + first, start + last)
