from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph._errors import KymographError
from kymograph._io.processes import Process
from kymograph._runs.log import DIRECTORY, FEW, Entry, Log


def append(root: Path, kind: str, content: dict[str, object]) -> Entry:
    return Log.read(root).append(kind, content)


def segment(root: Path) -> Path:
    (path,) = (root / DIRECTORY).glob("*.jsonl")
    return path


def test_entries_come_back_in_order_and_each_follows_the_one_before(tmp_path: Path) -> None:
    written = [append(tmp_path, "note", {"number": number}) for number in range(4)]
    log = Log.read(tmp_path)
    assert [entry.content["number"] for entry in log.entries.values()] == [0, 1, 2, 3]
    assert list(log.entries) == [entry.hash for entry in written] and log.heads == (written[-1].hash,)
    assert log.up_to([written[1].hash]) == {written[0].hash, written[1].hash}
    assert not log.problems and not Log.read(tmp_path / "absent").entries


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
def test_half_an_entry_is_ignored_but_not_one_that_others_follow(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    root = tmp_path_factory.mktemp("log")
    append(root, "note", {"text": "x" * 300})
    content = segment(root).read_bytes()
    half = content[: -min(cut, len(content) - 1)]
    segment(root).write_bytes(half)
    log = Log.read(root)
    assert not log.problems and not log.entries
    path = segment(root)
    path.write_bytes(content)
    last = append(root, "note", {"number": 2})
    (root / DIRECTORY / "other.jsonl").write_bytes(last.line())
    path.write_bytes(half)
    assert "which is gone" in Log.read(root).problems[0]


def test_two_writers_are_merged_as_a_graph(tmp_path: Path) -> None:
    append(tmp_path, "start", {})
    code = (
        "import sys\nfrom pathlib import Path\nfrom kymograph._runs.log import Log\nlog = Log.read(Path(sys.argv[1]))\n"
        "for number in range(20):\n    log.append('note', {'writer': sys.argv[2], 'number': number})\n"
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


def writer_that_is_gone() -> str:
    """Returns the name of a segment whose process has ended."""
    code = "from kymograph._io.processes import Process; print(Process.this().mark)"
    mark = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    return f"{mark}-0123abcd.jsonl"


def test_the_next_writer_removes_what_a_killed_one_left_half_written(tmp_path: Path) -> None:
    whole = append(tmp_path, "note", {"number": 0})
    left = segment(tmp_path).rename(tmp_path / DIRECTORY / writer_that_is_gone())
    left.write_bytes(whole.line() + whole.line()[:40])
    log = Log.read(tmp_path)
    assert list(log.entries) == [whole.hash] and not log.problems
    assert left.read_bytes() == whole.line() + whole.line()[:40], "reading changes nothing"
    after = log.append("note", {"number": 1})
    assert left.read_bytes() == whole.line() and after.parents == (whole.hash,)
    assert list(Log.read(tmp_path).entries) == [whole.hash, after.hash]


def test_what_a_living_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    whole = append(tmp_path, "note", {"number": 0})
    code = "from kymograph._io.processes import Process\nprint(Process.this().mark, flush=True)\ninput()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdin is not None
    path = tmp_path / DIRECTORY / f"{other.stdout.readline().strip()}-0123abcd.jsonl"
    path.write_bytes(whole.line()[:40])
    log = Log.read(tmp_path)
    log.append("note", {"number": 1})
    assert path.read_bytes() == whole.line()[:40]
    path.write_bytes(whole.line())  # it has finished its entry
    log.refresh()
    assert len(log.entries) == 2 and not log.problems
    other.communicate("\n")


def test_a_failed_write_leaves_no_half_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.read(tmp_path)
    first = log.append("note", {"number": 0})
    plain = os.write

    def full(handle: int, content: bytes) -> int:
        if len(content) > 20:
            return plain(handle, content[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, content: full(handle, bytes(content)[:25]))
        with pytest.raises(KymographError, match="No space left"):
            log.append("note", {"number": 1})
    assert segment(tmp_path).read_bytes() == first.line() and log.heads == (first.hash,)
    last = log.append("note", {"number": 2})
    assert last.parents == (first.hash,) and not Log.read(tmp_path).problems


def test_a_log_is_followed_as_other_processes_append_to_it(tmp_path: Path) -> None:
    log, other = Log.read(tmp_path), Log.read(tmp_path)
    first = other.append("note", {"number": 0})
    assert not log.entries
    second = log.append("note", {"number": 1})
    assert second.parents == (first.hash,), "what was there before an entry is its parent"
    other.refresh()
    assert other.heads == log.heads == (second.hash,) and list(log.entries) == list(Log.read(tmp_path).entries)
    before = log.generation
    shutil.rmtree(tmp_path / DIRECTORY)
    log.refresh()
    assert not log.entries and log.generation > before, "another log has taken its place"


def test_appending_reads_no_entry_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry used to be written with the whole segment, after reading the whole log."""
    log = Log.read(tmp_path)
    for number in range(50):
        log.append("note", {"number": number})
    reads: list[int] = []
    plain = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: (reads.append(size), plain(handle, size))[1])
    size = segment(tmp_path).stat().st_size
    last = log.append("note", {"number": 50})
    assert reads == [] and segment(tmp_path).stat().st_size == size + len(last.line())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=12), st.data())
def test_what_precedes_what_agrees_with_the_ancestors(parents: list[list[int]], data: st.DataObject) -> None:
    entries: list[Entry] = []
    for number, above in enumerate(parents):
        chosen = tuple(sorted({entries[index].hash for index in above if index < len(entries)}))
        entries.append(Entry("note", {"number": number}, chosen, "", ""))
    log = Log(entries=entries)
    name = data.draw(st.sampled_from(list(log.entries)))
    heads = data.draw(st.lists(st.sampled_from(list(log.entries)), max_size=3))
    assert log.precedes(name, heads) == (name in log.up_to(heads))
    assert set(log.heads) == set(log.entries) - {parent for entry in entries for parent in entry.parents}


def test_threads_that_share_a_log_lose_nothing(tmp_path: Path) -> None:
    """Reading on without a lock took a segment that had just grown for one that was cut, and wiped it."""
    log, stop = Log.read(tmp_path), threading.Event()

    def follow() -> None:
        while not stop.is_set():
            log.refresh()

    def write() -> None:
        for number in range(40):
            log.append("note", {"number": number})

    readers, writers = [[threading.Thread(target=work) for _ in range(3)] for work in (follow, write)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    again = Log.read(tmp_path)
    assert len(again.entries) == len(log.entries) == 120 and not again.problems and log.generation == 0


def test_a_listing_that_fails_is_not_an_empty_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.read(tmp_path)
    first = log.append("note", {"number": 0})

    def stale(path: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patch:
        patch.setattr("kymograph._runs.log.entries", stale)
        with pytest.raises(KymographError, match="try again"):
            log.append("note", {"number": 1})
    assert log.append("note", {"number": 2}).parents == (first.hash,) and len(Log.read(tmp_path).entries) == 2


def test_nothing_but_half_an_entry_is_ever_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the log used to empty the file that it leads to; so did a segment that could not be read."""
    victim = tmp_path / "thesis.txt"
    victim.write_text("x" * 900)
    log = Log.read(tmp_path)
    whole = log.append("note", {"number": 0})
    (tmp_path / DIRECTORY / "elsewhere-00000000-1-1-abcdef12.jsonl").symlink_to(victim)
    left = tmp_path / DIRECTORY / writer_that_is_gone()
    left.write_bytes(whole.line()[:40])
    log.refresh()
    plain = Process.is_alive

    def ends_just_now(process: Process, silent: float, patience: float = 60.0) -> bool:
        left.write_bytes(whole.line())  # it was completed before its process ended
        return plain(process, silent, patience)

    monkeypatch.setattr(Process, "is_alive", ends_just_now)
    log.append("note", {"number": 1})
    assert victim.read_text() == "x" * 900 and left.read_bytes() == whole.line()
    assert any("symbolic link" in problem for problem in Log.read(tmp_path).problems)


def test_an_entry_read_after_its_successor_still_precedes_it(tmp_path: Path) -> None:
    first = append(tmp_path, "note", {"number": 0})
    segment(tmp_path).rename(tmp_path / DIRECTORY / "a.jsonl")
    second = Entry("note", {"number": 1}, (first.hash,), "", "")
    third = Entry("note", {"number": 2}, (second.hash,), "", "")
    log = Log.read(tmp_path)
    (tmp_path / DIRECTORY / "b.jsonl").write_bytes(third.line())
    log.refresh()
    assert not log.precedes(first.hash, [third.hash]), "what lies between them was not read yet"
    (tmp_path / DIRECTORY / "c.jsonl").write_bytes(second.line())
    log.refresh()
    assert log.precedes(first.hash, [third.hash]) and log.precedes(second.hash, [third.hash])
    assert [entry.content["number"] for entry in log.order] == [0, 1, 2] and log.heads == (third.hash,)
