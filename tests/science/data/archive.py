"""A tiny CIFAR-10 in both official layouts, made here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def make(root: Path, per_batch: int = 20) -> None:
    """Writes ``cifar-10-batches-py`` and ``cifar-10-batches-bin`` with the same made-up images."""
    draw = np.random.default_rng(0)
    python, binary = root / "cifar-10-batches-py", root / "cifar-10-batches-bin"
    python.mkdir(parents=True)
    binary.mkdir(parents=True)
    for name in NAMES:
        pixels = draw.integers(0, 256, (per_batch, 3072), dtype=np.uint8)
        labels = draw.integers(0, 10, per_batch, dtype=np.uint8)
        (python / name).write_bytes(python2_pickle(pixels, labels))
        (binary / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], pixels], axis=1).tobytes())


def text(value: bytes) -> bytes:
    """A Python 2 string in a pickle of protocol 2."""
    return b"U" + bytes([len(value)]) + value


def python2_pickle(pixels: np.ndarray, labels: np.ndarray, dtype: bytes = b"u1") -> bytes:
    """The official batches' encoding: a dictionary with an array and a list, as Python 2 and numpy wrote them."""
    raw = pixels.tobytes()
    shape = b"(" + b"".join(b"J" + struct.pack("<i", side) for side in pixels.shape) + b"t"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85" + text(b"b") + b"\x87R"
        b"(K\x01" + shape + b"cnumpy\ndtype\n" + text(dtype) + b"K\x00K\x01\x87R"
        b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + b"\x89"
        b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([int(label)]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"labels") + listed + text(b"data") + array + b"u."
