"""The files of CIFAR-10 (Krizhevsky, 2009), in either official layout, or downloaded on request.

The python layout is a set of pickles. They are read without unpickling (`kymograph._io.pickles`): byte arrays,
lists, dictionaries, numbers and text, and nothing else.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from kymograph import KymographError
from kymograph._io.files import is_file, read_bytes
from kymograph._io.pickles import Buildable, Make, read_pickle
from kymograph.formats import make_directory, write_atomically

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"
PIXELS = 3 * 32 * 32
BATCH = 10_000
_MAX_FILE = 64 * 2**20
_MAX_ARCHIVE = 2**30


def find(directory: str | Path | None = None) -> tuple[Path, str]:
    """Returns the directory of CIFAR-10's batches and the suffix of their names, ``.bin`` or empty.

    Searches ``directory``, or the one that the variable KYMOGRAPH_DATA names, for either official layout.
    """
    given = directory or os.environ.get("KYMOGRAPH_DATA")
    if not given:
        raise KymographError(
            "CIFAR-10 was not found: give its directory with --data-dir or KYMOGRAPH_DATA, or fetch it with "
            "`kymograph fetch cifar10 -o DIR`"
        )
    root = Path(given)
    for layout, suffix in (("cifar-10-batches-bin", ".bin"), ("cifar-10-batches-py", "")):
        for candidate in (root / layout, root):
            if is_file(candidate / f"{TEST}{suffix}"):
                return candidate, suffix
    raise KymographError(
        f"{root} contains neither cifar-10-batches-bin nor cifar-10-batches-py; give the directory of one of them"
    )


def check(directory: str | Path | None = None) -> str | None:
    """Raises if CIFAR-10 is missing; returns a note if a batch is too small for its 10,000 images."""
    root, suffix = find(directory)
    batches = (root / f"{name}{suffix}" for name in (*TRAIN, TEST))
    cut = next((batch for batch in batches if is_file(batch) and batch.stat().st_size < BATCH * PIXELS), None)
    if cut is None:
        return None
    return f"{cut} has fewer than CIFAR-10's 10,000 images; keep runs trained on it in a separate directory"


def read(directory: str | Path | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns training pixels (n, 3072) and labels (n,), then test pixels and labels, all uint8."""
    batches, suffix = find(directory)
    read_batch = _binary if suffix else _python
    parts = [read_batch(batches / f"{name}{suffix}") for name in TRAIN]
    images, labels = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    return images, labels, *read_batch(batches / f"{TEST}{suffix}")


def fetch(directory: str | Path) -> Path:
    """Downloads the official binary archive into ``directory``, checks it and unpacks it; returns the new directory."""
    root = Path(directory)
    make_directory(root)
    try:
        with urllib.request.urlopen(URL, timeout=60) as response:
            content = response.read(_MAX_ARCHIVE)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise KymographError(f"cannot download CIFAR-10 ({error}); get {URL} in another way and unpack it") from None
    return unpack(content, root, MD5)


def unpack(content: bytes, root: Path, checksum: str) -> Path:
    """Unpacks the binary archive ``content`` below ``root`` if its MD5 is ``checksum``; returns the directory.

    If the process is killed, every batch is either complete or missing, and the file that `find` looks for comes last.
    """
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != checksum:
        raise KymographError(f"the downloaded CIFAR-10 has checksum {actual}, not {checksum}; nothing was unpacked")
    target = root / "cifar-10-batches-bin"
    wanted = {f"{target.name}/{name}.bin": f"{name}.bin" for name in (*TRAIN, TEST)}  # no name comes from the archive
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = [member for member in archive if member.isfile() and member.size <= _MAX_FILE]
        streams = {member.name: archive.extractfile(member) for member in files if member.name in wanted}
        batches = {wanted[name]: stream.read() for name, stream in streams.items() if stream is not None}
    make_directory(target, root)
    for name in filter(batches.__contains__, wanted.values()):
        write_atomically(target / name, batches[name])
    return target


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path, _MAX_FILE)
    except KymographError as error:
        raise KymographError(f"{error}; CIFAR-10 is incomplete or damaged") from None


def _binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = np.frombuffer(_bytes(path), np.uint8)
    if len(content) == 0 or len(content) % (PIXELS + 1):
        raise KymographError(f"{path} is not a CIFAR-10 batch: its size is not a multiple of {PIXELS + 1}")
    rows = content.reshape(-1, PIXELS + 1)
    return rows[:, 1:], _labels(rows[:, 0], path)


def _python(path: Path) -> tuple[np.ndarray, np.ndarray]:
    foreign = KymographError(
        f"{path} is not a CIFAR-10 batch, or contains more than arrays; nothing in it was executed"
    )
    content = _bytes(path)
    try:
        batch = read_pickle(content, _makers())
    except ValueError:
        raise foreign from None
    if not isinstance(batch, dict):
        raise foreign
    data, labels = batch.get(b"data", batch.get("data")), batch.get(b"labels", batch.get("labels"))
    if not isinstance(data, _Array) or data.value is None or not isinstance(labels, list):
        raise foreign
    if data.value.ndim != 2 or data.value.shape[1] != PIXELS or len(labels) != len(data.value) or not labels:
        raise KymographError(f"{path} has {data.value.shape} pixels and {len(labels)} labels, not n x {PIXELS} and n")
    if not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise foreign
    return data.value, _labels(np.array(labels, np.uint8), path)


def _labels(labels: np.ndarray, path: Path) -> np.ndarray:
    if labels.max() > 9:
        raise KymographError(f"{path} is not a CIFAR-10 batch: it has a label {labels.max()}, above 9")
    return labels


class _Bytes:
    """Encodes texts as bytes, together no more than a file can hold, however often it refers to them."""

    def __init__(self) -> None:
        self.left = _MAX_FILE

    def encode(self, text: str | bytes, encoding: str = "latin1") -> bytes:
        """Returns the bytes of a Python 2 string."""
        if isinstance(text, bytes):
            return text
        self.left -= len(text)
        if self.left < 0 or encoding != "latin1":
            raise ValueError("it encodes more than it holds")
        return text.encode("latin1")


class _Array(Buildable):
    """Takes the place of a numpy array, and builds one of unsigned bytes from its state only."""

    def __init__(self, texts: _Bytes) -> None:
        self.value: np.ndarray | None = None
        self.texts = texts

    def build(self, state: Any) -> None:
        """Takes numpy's (version, shape, dtype, is Fortran, bytes)."""
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _DType) or fortran or not isinstance(shape, tuple):
            raise ValueError("it has an array that is not of bytes")
        self.value = np.frombuffer(self.texts.encode(data), np.uint8).reshape(shape)


class _DType(Buildable):
    """Takes the place of numpy's dtype, and accepts unsigned bytes only."""

    def __init__(self, name: Any, *_: Any) -> None:
        if name not in (b"u1", "u1"):
            raise ValueError("it has an array that is not of bytes")

    def build(self, state: Any) -> None:
        """Ignores byte order and the like: a byte has none."""


def _makers() -> dict[tuple[str, str], Make]:
    """Returns what may be called to build an array of bytes, by module and name."""
    texts = _Bytes()
    return {
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(texts),
        ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(texts),
        ("numpy", "dtype"): _DType,
        ("_codecs", "encode"): texts.encode,
    }
