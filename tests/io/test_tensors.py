from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save

from kymograph._io.tensors import tensor_header


def file(header: object, numbers: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def test_a_header_says_where_the_numbers_are() -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(3, dtype=np.int64)}
    content = save(arrays, metadata={"kymograph": '{"schema": 1}'})
    header = tensor_header(content)
    assert header.metadata == {"schema": 1}
    for name, array in arrays.items():
        entry = header.tensors[name]
        assert content[entry.first : entry.last] == array.tobytes() and entry.shape == array.shape


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (2**40).to_bytes(8, "little") + b"{}",
        file([]),
        file({"a": ONE}),
        file({"a": ONE}, b"\0" * 9),
        file({"a": {**ONE, "shape": [2**30]}}, b"\0" * 8),
        file({"a": {**ONE, "shape": [-2]}}, b"\0" * 8),
        file({"a": {**ONE, "shape": [True, 2]}}, b"\0" * 8),
        file({"a": {**ONE, "shape": 2}}, b"\0" * 8),
        file({"a": {**ONE, "dtype": "C64"}}, b"\0" * 8),
        file({"a": {**ONE, "data_offsets": [0]}}, b"\0" * 8),
        file({"a": {**ONE, "data_offsets": [4, 12]}}, b"\0" * 12),
        file({"a": ONE, "b": ONE}, b"\0" * 8),
        file({"a": ONE, "__metadata__": {"kymograph": 1}}, b"\0" * 8),
        file({"a": ONE, "__metadata__": {"kymograph": "{"}}, b"\0" * 8),
        file({"a": "no object"}, b"\0" * 8),
    ],
)
def test_a_forged_header_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        tensor_header(content)
