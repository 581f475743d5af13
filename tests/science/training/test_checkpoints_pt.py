"""The ``.pt`` files of torch, read without unpickling."""

from __future__ import annotations

import io
import resource
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from kymograph._errors import KymographError
from kymograph_studies.training.checkpoints import read_pt


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and all(map(same, one, other))
    return one == other


def test_what_torch_saves_is_what_is_read(tmp_path: Path) -> None:
    weights = torch.randn(3, 4)
    shared = torch.arange(12).reshape(3, 4)
    content = {
        "state_dict": OrderedDict(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()),
        "Bs": [weights, weights.T, torch.zeros(0), torch.ones(2, dtype=torch.bfloat16), torch.tensor(3)],
        "views": (shared[1:], shared[:, 2], shared.bool()),
        "parameter": torch.nn.Parameter(weights),
        "test_acc": 0.5, "epoch": 7, "name": "é", 1: None, "flags": [True, False],
    }  # fmt: skip
    torch.save(content, tmp_path / "x.pt")
    found = read_pt(tmp_path / "x.pt")
    plain = torch.load(tmp_path / "x.pt", weights_only=True)
    assert same(dict(plain), found)


def saved(**content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def repacked(content: bytes, compression: int = zipfile.ZIP_STORED, **replaced: bytes) -> bytes:
    """Returns the archive with members replaced by others of the same names, or compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w", compression) as new:
        for info in old.infolist():
            name = info.filename.rsplit("/", 1)[-1]
            new.writestr(info.filename, replaced.get(name.replace(".", "_"), old.read(info)))
    return file.getvalue()


class Trap:
    """Runs code when it is unpickled by a trusting reader."""

    def __reduce__(self) -> Any:
        return open, ("/tmp/kymograph-trap", "w")


GOOD = saved(x=torch.ones(4))
HOSTILE = {
    "gigabytes over one number": saved(x=torch.zeros(1).expand(2**32)),
    "gigabytes over one number, twice": saved(x=[torch.zeros(1, 1).expand(2**20, 2**12)] * 3),
    "code": saved(x=Trap()),
    "cut off": GOOD[: len(GOOD) // 2],
    "empty": b"",
    "text": b"hello",
    "a pickle": b"\x80\x02}.",
    "numbers that are missing": repacked(GOOD, **{"0": b"\0" * 8}),
    "compressed": repacked(saved(x=torch.zeros(10**6)), zipfile.ZIP_DEFLATED),
    "a pickle of noise": repacked(GOOD, data_pkl=b"\xff" * 100),
    "a key that takes for ever to hash": repacked(
        GOOD, data_pkl=b"\x80\x02}K\x01\x85" + 60 * b"q\x000h\x00h\x00\x86" + b"Ns."
    ),
    "the old format": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_one_sentence_and_takes_no_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(HOSTILE[kind])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(KymographError, match=r"x\.pt is cut off, or contains more than tensors; nothing in it was"):
        read_pt(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert not Path("/tmp/kymograph-trap").exists()
