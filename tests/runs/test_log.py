from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph._runs.log import DIRECTORY, FEW, Log, append


def segment(root: Path) -> Path:
    (path,) = (root / DIRECTORY).glob("*.jsonl")
    return path


def test_entries_come_back_in_order_and_each_follows_the_one_before(tmp_path: Path) -> None:
    written = [append(tmp_path, "note", {"number": number}) for number in range(4)]
    log = Log.read(tmp_path)
    assert [entry.content["number"] for entry in log.entries.values()] == [0, 1, 2, 3]
    assert list(log.entries) == [entry.hash for entry in written] and log.heads == (written[-1].hash,)
    assert log.up_to([written[1].hash]) == {written[0].hash, written[1].hash}
    assert not log.problems and Log.read(tmp_path / "absent") == Log()


@pytest.mark.parametrize("line", [0, 1, 2])
def test_an_edited_entry_is_noticed_and_so_is_what_followed_it(tmp_path: Path, line: int) -> None:
    for number in range(3):
        append(tmp_path, "note", {"number": number})
    path = segment(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    lines[line] = lines[line].replace(f'"number": {line}', '"number": 9')
    path.write_text("".join(lines))
    problems = Log.read(tmp_path).problems
    assert f"line {line + 1} was edited" in problems[0]
    assert line == 2 or "which is gone" in problems[1]


def test_an_entry_with_a_hash_made_anew_breaks_the_chain(tmp_path: Path) -> None:
    first = append(tmp_path, "note", {"number": 0})
    append(tmp_path, "note", {"number": 1})
    forged = type(first)("note", {"number": 9}, (), first.time, first.writer)
    path = segment(tmp_path)
    path.write_bytes(forged.line() + path.read_bytes().split(b"\n", 1)[1])
    assert any("which is gone" in problem for problem in Log.read(tmp_path).problems)


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(1, 400))
def test_a_log_that_is_cut_anywhere_inside_an_entry_says_so(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    root = tmp_path_factory.mktemp("log")
    append(root, "note", {"text": "x" * 300})
    content = segment(root).read_bytes()
    segment(root).write_bytes(content[: -min(cut, len(content) - 1)])
    log = Log.read(root)
    assert log.problems and not log.entries


def test_two_writers_are_merged_as_a_graph(tmp_path: Path) -> None:
    append(tmp_path, "start", {})
    code = (
        "import sys\nfrom pathlib import Path\nfrom kymograph._runs.log import append\n"
        "for number in range(20):\n    append(Path(sys.argv[1]), 'note', {'writer': sys.argv[2], 'number': number})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    log = Log.read(tmp_path)
    assert len(log.entries) == 41 and not log.problems
    for name in "ab":
        mine = [e.content["number"] for e in log.of_kind("note") if e.content["writer"] == name]
        assert mine == list(range(20)), "what one process wrote stays in order"
    last = append(tmp_path, "end", {})
    assert Log.read(tmp_path).heads == (last.hash,) and Log.read(tmp_path).up_to([last.hash]) == {
        *log.entries,
        last.hash,
    }


def test_what_is_no_entry_is_named(tmp_path: Path) -> None:
    append(tmp_path, "note", {})
    for line in ("[]", "{", json.dumps({"schema": 1}), "[" * 100_000, "null"):
        (tmp_path / DIRECTORY / "other.jsonl").write_text(line + "\n")
        assert any("other.jsonl, line 1" in problem for problem in Log.read(tmp_path).problems), line[:20]


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"x\n"])
def test_a_segment_of_wrong_lines_is_given_up_after_a_few(tmp_path: Path, line: bytes) -> None:
    written = append(tmp_path, "note", {"number": 0})
    (tmp_path / DIRECTORY / "z.jsonl").write_bytes(line * 3_000_000)
    log = Log.read(tmp_path)
    assert list(log.entries) == [written.hash]
    assert log.problems[0] == "log/z.jsonl, line 1 was edited or is not an entry"
    assert "log/z.jsonl has 2,999,900 more lines, not read because so many are wrong" in log.problems
    assert log.problems[-1] == "there are 96 more problems with log/z.jsonl" and len(log.problems) == FEW + 1


def test_entries_around_a_few_wrong_lines_are_read(tmp_path: Path) -> None:
    written = [append(tmp_path, "note", {"number": number}) for number in range(2)]
    path = segment(tmp_path)
    path.write_bytes(b"\n".join([b"", *path.read_bytes().splitlines(), b"wrong", b""]))
    log = Log.read(tmp_path)
    assert list(log.entries) == [entry.hash for entry in written]
    assert [problem.split(" was")[0][-6:] for problem in log.problems] == ["line 1", "line 4"]
