"""CIFAR-10's files: read in either layout, fetched, and refused if forged."""

from __future__ import annotations

import errno
import hashlib
import http.client
import io
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph
from kymograph._errors import KymographError
from kymograph._io.processes import Process, _removed_once
from kymograph_studies.data import cifar10_files
from kymograph_studies.data.images import load_cifar10 as cifar10
from tests.science.data.archive import make, python2_pickle


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    make(tmp_path)
    return tmp_path


def test_both_layouts_hold_the_same_images(archive: Path) -> None:
    python, binary = (cifar10(archive / f"cifar-10-batches-{layout}") for layout in ("py", "bin"))
    assert python.digest() == binary.digest() == cifar10(archive).digest()
    assert python.train.shape == (100, 3, 32, 32) and python.train.dtype == torch.uint8
    assert python.test.shape == (20, 3, 32, 32) and python.test_labels.max() <= 9


def test_a_batch_pickled_by_python_3_is_read_too(archive: Path) -> None:
    path = archive / "cifar-10-batches-py" / "test_batch"
    pixels, labels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072), [3, 7]
    path.write_bytes(pickle.dumps({"data": pixels, "labels": labels}, protocol=2))
    found, found_labels = cifar10_files._python(path)
    assert np.array_equal(found, pixels) and found_labels.tolist() == labels


class Bomb:
    """Writes a file when it is unpickled by a trusting reader."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def many_times(size: int) -> bytes:
    """A list of as many byte strings, made of one text, as take gigabytes."""
    text = b"X" + size.to_bytes(4, "little") + b"a" * size + b"q\x00"
    return b"](" + b"c_codecs\nencode\nq\x01" + text + b"\x85R" + 1000 * b"h\x01h\x00\x85R" + b"e."


def hostile(kind: str, target: Path) -> bytes:
    """Batches that a trusting or careless reader would trip over."""
    pixels, labels = np.zeros((2, 3072), np.uint8), np.zeros(2, np.uint8)
    good = python2_pickle(pixels, labels)
    return {
        "code": pickle.dumps({b"data": Bomb(target), b"labels": [0]}),
        "code in a list": pickle.dumps([Bomb(target)]),
        "builtins": b"cbuiltins\neval\n(U\x03" + b"1+1" + b"tR.",
        "numpy function": b"cnumpy\nfromfile\n(U\x0b/etc/passwdtR.",
        "calling ndarray": b"cnumpy\nndarray\n((J\xff\xff\xff\x7fttR.",
        "objects": python2_pickle(pixels, labels, dtype=b"O8"),
        "wrong shape": python2_pickle(np.zeros((2, 100), np.uint8), labels),
        "too few labels": python2_pickle(pixels, labels[:1]),
        "label 11": python2_pickle(pixels, np.array([11, 0])),
        "cut off": good[: len(good) // 2],
        "empty": b"",
        "text": b"hello",
        "not a dictionary": pickle.dumps([1, 2]),
        "labels that are no numbers": pickle.dumps({"data": pixels, "labels": ["a", "b"]}, protocol=2),
        "a gigabyte announced": b"\x80\x02}(U\x04dataT\xff\xff\xff\x7fabc",
        "8 bytes of length": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc",
        "persistent id": b"P1\n.",
        "something kept under a huge number": b"\x80\x02}r" + (2**31 - 1).to_bytes(4, "little") + b".",
        "writing to a function": b"c_codecs\nencode\n(N}V__defaults__\n(Vutf8\ntstb.",
        "one text, encoded a thousand times": b"\x80\x02" + many_times(2**22),
        "a key that takes for ever to hash": b"\x80\x02}K\x01\x85" + 60 * b"q\x000h\x00h\x00\x86" + b"Ns.",
        "a gigabyte of bytearray": b"\x80\x05\x96" + (2**34).to_bytes(8, "little") + b"abc",
        "writing to a class": b"cnumpy\ndtype\n(N}V__init__\nNstb.",
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["code", "code in a list", "builtins", "numpy function", "calling ndarray", "objects", "wrong shape",
     "too few labels", "label 11", "cut off", "empty", "text", "not a dictionary", "labels that are no numbers",
     "a gigabyte announced", "8 bytes of length", "persistent id", "something kept under a huge number",
     "writing to a function", "writing to a class", "one text, encoded a thousand times",
     "a key that takes for ever to hash", "a gigabyte of bytearray"],
)  # fmt: skip
def test_a_hostile_batch_runs_nothing_and_gets_one_sentence(archive: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "owned"
    path = archive / "cifar-10-batches-py" / "data_batch_2"
    sound = path.read_bytes()
    path.write_bytes(hostile(kind, target))
    with pytest.raises(KymographError) as error:
        cifar10(archive / "cifar-10-batches-py")
    assert "data_batch_2" in str(error.value) and "\n" not in str(error.value)
    assert not target.exists()
    path.write_bytes(sound)
    assert cifar10(archive / "cifar-10-batches-py").digest() == cifar10(archive).digest(), "the reader is as it was"


@pytest.mark.parametrize(("layout", "suffix"), [("py", ""), ("bin", ".bin")])
def test_a_pipe_in_a_batchs_place_is_not_waited_for(archive: Path, layout: str, suffix: str) -> None:
    path = archive / f"cifar-10-batches-{layout}" / f"data_batch_1{suffix}"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(KymographError, match="is a pipe, not a file"):
        cifar10(path.parent)


def test_a_small_cifar10_is_read_and_told_of(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("KYMOGRAPH_DATA", str(archive))
    study = kymograph.load_study("snapshot")
    study.prepare(study.specs([42], fields={"data": "cifar10"}), None)
    assert "data_batch_1.bin has fewer than CIFAR-10's 10,000 images" in capsys.readouterr().err
    for batch in (archive / "cifar-10-batches-bin").iterdir():
        os.truncate(batch, 30_730_000)  # sparse
    study.prepare(study.specs([42], fields={"data": "cifar10"}), None)
    assert capsys.readouterr().err == ""


def test_a_file_of_gigabytes_is_not_read(archive: Path) -> None:
    for path in (
        archive / "cifar-10-batches-py" / "data_batch_1",
        archive / "cifar-10-batches-bin" / "data_batch_1.bin",
    ):
        os.truncate(path, 3 * 2**30)  # sparse: it takes no room on the disk
        with pytest.raises(KymographError, match="more than the limit of 67,108,864"):
            cifar10(path.parent)


@pytest.mark.parametrize("harm", ["cut", "label", "missing"])
def test_a_damaged_binary_batch_is_named(archive: Path, harm: str) -> None:
    path = archive / "cifar-10-batches-bin" / "data_batch_3.bin"
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[:-5])
    elif harm == "label":
        path.write_bytes(b"\x0b" + content[1:])
    else:
        path.unlink()
    with pytest.raises(KymographError, match=r"data_batch_3.bin"):
        cifar10(archive)


def test_where_to_get_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KYMOGRAPH_DATA", raising=False)
    with pytest.raises(KymographError, match="--data-dir or KYMOGRAPH_DATA"):
        cifar10()
    with pytest.raises(KymographError, match="contains neither"):
        cifar10(tmp_path)
    make(tmp_path / "here")
    monkeypatch.setenv("KYMOGRAPH_DATA", str(tmp_path / "here"))
    assert len(cifar10().train) == 100


def packed(archive: Path, *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(archive / "cifar-10-batches-bin", "cifar-10-batches-bin")
        for member in extra:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return buffer.getvalue()


def test_a_downloaded_archive_is_checked_and_only_its_batches_are_written(archive: Path, tmp_path: Path) -> None:
    escape = tarfile.TarInfo("../escape")
    escape.size = 3
    link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_9.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    content = packed(archive, escape, link)
    root = tmp_path / "fetched"
    root.mkdir()
    with pytest.raises(KymographError, match="checksum"):
        cifar10_files.unpack(content, root, "0" * 32)
    assert list(root.iterdir()) == []
    directory = cifar10_files.unpack(content, root, hashlib.md5(content).hexdigest())
    assert sorted(path.name for path in directory.iterdir()) == sorted(
        f"{n}.bin" for n in (*cifar10_files.TRAIN, "test_batch")
    )
    assert not (tmp_path / "escape").exists()
    assert cifar10(root).digest() == cifar10(archive).digest()


def test_a_fetch_that_is_interrupted_leaves_no_half_batch_and_nothing_to_be_found(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, root = packed(archive), tmp_path / "fetched"
    root.mkdir()
    replaced: list[str] = []

    def full(source: Path, target: Path) -> None:
        replaced.append(target.name)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(KymographError, match=r"^cannot write .*data_batch_1\.bin: No space left on device; choose"):
            cifar10_files.unpack(content, root, hashlib.md5(content).hexdigest())
    directory = root / "cifar-10-batches-bin"
    assert replaced == ["data_batch_1.bin"] and list(directory.iterdir()) == []
    killed = replace(Process.this(), born="1")  # our number, but an earlier process
    (directory / f".data_batch_1.bin.0.{killed.mark}").write_bytes(b"half")
    _removed_once.cache_clear()
    with pytest.raises(KymographError, match="contains neither"):
        cifar10_files.find(root)
    cifar10_files.unpack(content, root, hashlib.md5(content).hexdigest())
    assert len(list(directory.iterdir())) == 6
    assert cifar10(root).digest() == cifar10(archive).digest()


def test_a_link_that_leads_elsewhere_is_neither_followed_nor_a_pipe_replaced(archive: Path, tmp_path: Path) -> None:
    content, root, outside = packed(archive), tmp_path / "fetched", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    directory = root / "cifar-10-batches-bin"
    directory.symlink_to(outside)
    with pytest.raises(KymographError, match=f"{directory} is a link that leads outside of {root}, which is not"):
        cifar10_files.unpack(content, root, hashlib.md5(content).hexdigest())
    assert not any(outside.iterdir())
    directory.unlink()
    directory.mkdir()
    (outside / "kept").write_text("kept")
    (directory / "data_batch_1.bin").symlink_to(outside / "kept")
    os.mkfifo(directory / "data_batch_2.bin")
    with pytest.raises(KymographError, match=r"data_batch_2\.bin: it is a pipe, not a file"):
        cifar10_files.unpack(content, root, hashlib.md5(content).hexdigest())
    assert (outside / "kept").read_text() == "kept" and (directory / "data_batch_2.bin").is_fifo()


def test_being_offline_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(cifar10_files.urllib.request, "urlopen", refuse)
    with pytest.raises(KymographError, match="cannot download CIFAR-10") as error:
        cifar10_files.fetch(tmp_path)
    assert cifar10_files.URL in str(error.value)

    def break_off(*_: object, **__: object) -> None:
        raise http.client.IncompleteRead(b"half")

    monkeypatch.setattr(cifar10_files.urllib.request, "urlopen", break_off)
    with pytest.raises(KymographError, match="cannot download CIFAR-10"):
        cifar10_files.fetch(tmp_path)
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(KymographError, match=r"cannot create .*; choose another directory"):
            cifar10_files.fetch(tmp_path / name)


@pytest.mark.cifar
def test_the_real_thing_in_both_layouts() -> None:
    root = Path(os.environ["KYMOGRAPH_DATA"])
    python, binary = (cifar10(root / f"cifar-10-batches-{layout}") for layout in ("py", "bin"))
    assert python.digest() == binary.digest()
    assert len(python.train) == 50_000 and len(python.test) == 10_000
    assert torch.bincount(python.train_labels).tolist() == [5000] * 10
