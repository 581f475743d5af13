from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._io import processes
from kymograph._io import writing as files
from kymograph._io.processes import temporary_name
from kymograph._io.writing import make_directory, one_at_a_time, write_atomically


def test_what_a_kill_left_is_swept_up_at_the_next_start_and_nothing_else_is(tmp_path: Path) -> None:
    code = "from kymograph._io.processes import temporary_name as t; from pathlib import Path; import sys; "
    code += "t(Path(sys.argv[1]), 'x.json', '0').touch()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    (left,) = tmp_path.iterdir()
    mine = temporary_name(tmp_path, "y.json", "0")
    other_host = tmp_path / ".z.json.0.elsewhere-01234567-1-5"
    for path in (mine, other_host, tmp_path / ".hidden", tmp_path / "plain"):
        path.touch()
    processes._removed_once.cache_clear()
    write_atomically(tmp_path / "new", b"x")
    assert not left.exists() and mine.exists() and other_host.exists()
    old = time.time() - 2 * 24 * 3600
    os.utime(other_host, (old, old))
    processes._removed_once.cache_clear()
    make_directory(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, ".hidden", "plain", "new"])


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_an_impossible_name_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(KymographError):
        make_directory(tmp_path / name)
    with pytest.raises(KymographError):
        write_atomically(tmp_path / name, b"x")


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_something_else_in_the_place_of_a_lock_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A sweep used to wait for ever for ``touch R/.lock`` to be released."""
    monkeypatch.setattr(files, "FOREIGN_LOCK_KEEPS", 0.05, raising=False)
    lock = tmp_path / ".lock"
    make = {"file": lock.touch, "directory": lock.mkdir, "link": lambda: lock.symlink_to("nobody")}
    make[kind]()

    def end(*_: object) -> None:
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(5)
    try:
        words = r"\.lock is in the way of a lock, .*; remove it, and try again$"
        with pytest.raises(KymographError, match=words), one_at_a_time(tmp_path):
            raise AssertionError("it holds no lock")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert os.path.lexists(lock), "it may belong to somebody"


def test_something_that_soon_leaves_the_place_of_a_lock_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    threading.Timer(0.1, (tmp_path / ".lock").unlink).start()
    with one_at_a_time(tmp_path):
        assert (tmp_path / ".lock").is_symlink()
