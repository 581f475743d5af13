"""Failed runs as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kymograph.experiments.result_text import failure_text
from kymograph.runs.record import write_failure
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.sweep.compute import RunOutcome


def failures(root: Path, reasons: Sequence[str], trace: str | None) -> list[RunOutcome]:
    specs = [RunSpec("broken", "bad", seed, {}, 1) for seed in range(len(reasons))]
    for spec, reason in zip(specs, reasons, strict=True):
        write_failure(root, spec, reason, {}, trace)
    return [RunOutcome(spec.id, "failed", reason) for spec, reason in zip(specs, reasons, strict=True)]


def test_a_reason_is_shown_once_with_the_first_of_its_runs(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke", "it burst", "it broke", "it broke"], None)
    for order in (found, found[::-1]):
        lines = failure_text(order, Store.open(tmp_path), "runs").splitlines()
        assert set(lines[:2]) == {
            "  failed: bad, seed 0 and 2 other runs: it broke",
            "  failed: bad, seed 1: it burst",
        }
        assert len(lines) == 3 and "`kymograph runs runs --status failed`" in lines[2]


def test_reasons_beyond_the_first_five_are_counted(tmp_path: Path) -> None:
    found = failures(tmp_path, [f"reason {index}" for index in range(6)] + ["reason 5"], None)
    lines = failure_text(found, Store.open(tmp_path), "runs").splitlines()
    assert len(lines) == 7 and lines[5] == "  and 2 more"
    assert failure_text([], Store([]), "runs") == ""


def test_debug_shows_each_traceback_once(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke", "it burst"], "Traceback\n  here\n")
    lines = failure_text(found, Store.open(tmp_path), "runs", debug=True).splitlines()
    assert lines == [
        "  failed: bad, seed 0: it broke",
        "    Traceback",
        "      here",
        "  failed: bad, seed 1: it burst",
        "    the traceback is that of bad, seed 0",
    ]


def test_a_process_that_died_left_no_traceback(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke"], None)
    assert "no traceback: its process ended" in failure_text(found, Store.open(tmp_path), "runs", debug=True)
