from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.runs import processes
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.processes import temporary_name


def test_what_a_kill_left_is_swept_up_at_the_next_start_and_nothing_else_is(tmp_path: Path) -> None:
    code = "from kymograph.runs.processes import temporary_name as t; from pathlib import Path; import sys; "
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
