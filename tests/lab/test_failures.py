"""Failed runs as text."""

from __future__ import annotations

from pathlib import Path

from kymograph.lab.failures import failure_text
from kymograph.runs.record import write_failure
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.sweep.compute import RunOutcome


def failures(root: Path, count: int, trace: str | None) -> list[RunOutcome]:
    specs = [RunSpec("broken", "bad", seed, {}, 1) for seed in range(count)]
    for spec in specs:
        write_failure(root, spec, "it broke", {}, trace)
    return [RunOutcome(spec.id, "failed", "it broke") for spec in specs]


def test_reasons_are_shown_and_how_to_see_more(tmp_path: Path) -> None:
    found = failures(tmp_path, 7, "Traceback\n  here")
    lines = failure_text(found, Store.open(tmp_path), "runs").splitlines()
    assert lines[0] == "  failed: bad, seed 0: it broke" and len(lines) == 7
    assert lines[5] == "  and 2 more" and "`kymograph runs runs --status failed`" in lines[6]
    assert failure_text([], Store([]), "runs") == ""


def test_debug_shows_each_traceback_once(tmp_path: Path) -> None:
    found = failures(tmp_path, 2, "Traceback\n  here\n")
    lines = failure_text(found, Store.open(tmp_path), "runs", debug=True).splitlines()
    assert lines == [
        "  failed: bad, seed 0: it broke",
        "    Traceback",
        "      here",
        "  failed: bad, seed 1: it broke",
        "    the traceback is that of bad, seed 0",
    ]


def test_a_process_that_died_left_no_traceback(tmp_path: Path) -> None:
    found = failures(tmp_path, 1, None)
    assert "no traceback: its process ended" in failure_text(found, Store.open(tmp_path), "runs", debug=True)
