from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kymograph._cli.main import main
from kymograph._pictures.live import terminal
from kymograph._pictures.live.reading import read_state
from kymograph._pictures.live.state import MOST_ARMS, RunCounts
from kymograph._pictures.live.terminal import BLOCKS, format_counts, spark, watch
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from tests.pictures.live.stage import beat, dead_process, fail, finish, plan, specs
from tests.records import write_record


def console(is_terminal: bool, width: int = 120) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=is_terminal, width=width, height=50, highlight=False), file


def later(monkeypatch: pytest.MonkeyPatch, *deeds) -> None:
    """Does one deed after each reading of the directory."""
    waiting = list(deeds)

    def sleep(_: float) -> None:
        waiting.pop(0)()

    monkeypatch.setattr(terminal.time, "sleep", sleep)


def interrupt() -> None:
    raise KeyboardInterrupt


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_a_sparkline_rises_where_the_values_rise(values: list[float | None]) -> None:
    drawn = spark(values)
    finite = [(value, mark) for value, mark in zip(values, drawn, strict=False) if value is not None]
    assert len(drawn) == (len(values) if finite else 0)
    assert all((value is None) == (mark == " ") for value, mark in zip(values, drawn, strict=False))
    marks = [BLOCKS.index(mark) for _, mark in sorted(finite)]
    assert marks == sorted(marks)
    if len({value / 2 for value, _ in finite}) > 1:
        assert marks[0] == 0 and marks[-1] == len(BLOCKS) - 1


def test_counts_as_text() -> None:
    assert format_counts(RunCounts(finished=3)) == "3/3 done"
    counts = RunCounts(finished=3, failed=1, damaged=5, running=2, missing=1, waiting=4)
    assert format_counts(counts) == "3/16 done, 1 failed, 5 damaged, 2 running, 1 missing, 4 waiting"


def test_a_diverged_run_is_done_and_named_with_its_step(tmp_path: Path) -> None:
    runs = specs(3)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    finish(tmp_path, runs[2], {"spike_ratio": None, "finite": False})
    loss = RunSeries(np.arange(300), np.where(np.arange(300) < 212, 1.0, np.nan))
    write_record(tmp_path, runs[1], RunResult({"loss": loss}, {"spike_ratio": None}), {}, 1.0)
    shown, file = console(False)
    assert watch(str(tmp_path), once=True, console=shown) == 0
    for part in ("3/3 done, 2 diverged", "diverged: a, seed 1: at step 212", "diverged: a, seed 2\n"):
        assert part in file.getvalue(), part
    state = read_state(tmp_path, 0.0)
    counts = state.to_json()["studies"][0]["counts"]
    assert state.ended and (counts["finished"], counts["diverged"], counts["done"], counts["planned"]) == (1, 2, 3, 3)


def test_once_prints_everything_and_leaves(tmp_path: Path) -> None:
    runs = [*specs(3), *specs(2, arm="residual/[red]x[/]\x1b[2J")]
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    finish(tmp_path, runs[1])
    fail(tmp_path, runs[2], "ValueError: [bold]no[/wrong]")
    beat(tmp_path, runs[3:4], words="loss 0.3, accuracy 0.9")
    shown, file = console(False)
    assert watch(str(tmp_path), once=True, console=shown) == 0
    text = file.getvalue()
    for part in ("2/5 done, 1 failed, 1 running, 1 waiting", "25/100 (25 %)", "loss 0.3, accuracy 0.9", "1.5", "▁█",
                 "ValueError: [bold]no[/wrong]", "residual/[red]x[/]", "left"):  # fmt: skip
        assert part in text, part
    assert "\x1b" not in text, "no control character of a file reaches the terminal"


def test_a_process_says_that_it_is_starting_until_its_first_step(tmp_path: Path) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    texts = []
    for facts in ({"done": 0, "words": ""}, {"done": 1200, "steps": 80_000, "words": ""}, {"done": 7, "steps": 0}):
        beat(tmp_path, runs[:1], **facts)
        shown, file = console(False)
        watch(str(tmp_path), once=True, console=shown)
        texts.append(file.getvalue())
    assert "starting" in texts[0] and "starting" not in texts[1]
    assert "1,200/80,000 (1 %)" in texts[1]
    assert "7/" not in texts[2] and " 7 " in texts[2], "a loop that does not say how long it is has no share"


def test_lines_where_there_is_no_terminal_one_per_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = specs(3)
    plan(tmp_path, runs)
    shown, file = console(False)
    path = beat(tmp_path, runs[:1])
    nothing = lambda: None  # noqa: E731
    later(
        monkeypatch,
        nothing,
        lambda: finish(tmp_path, runs[0]),
        nothing,
        lambda: (path.unlink(), beat(tmp_path, runs[1:2], dead_process())),
        lambda: fail(tmp_path, runs[1]),
        lambda: finish(tmp_path, runs[2]),
    )
    assert watch(str(tmp_path), console=shown) == 0
    lines = [line.split(", about")[0] for line in file.getvalue().splitlines()]
    assert lines == [
        "warmup: 0/3 done, 1 running, 2 waiting",
        "warmup: 1/3 done, 2 waiting",
        "warmup: 1/3 done, 1 missing, 1 waiting",
        "warmup: 1/3 done, 1 failed, 1 waiting",
        "warmup failed: a, seed 1: RuntimeError: cursed",
        "warmup: 2/3 done, 1 failed",
    ]


@pytest.mark.parametrize("width", [60, 120])
def test_a_live_picture_on_a_terminal_that_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    runs = specs(2, arm="long/name" * 3)
    plan(tmp_path, runs)
    beat(tmp_path, runs, dead_process())
    shown, file = console(True, width)
    later(monkeypatch, lambda: finish(tmp_path, runs[0]), lambda: finish(tmp_path, runs[1]))
    assert watch(str(tmp_path), console=shown) == 0
    text = file.getvalue()
    assert "2 missing" in text and "run the same command" in text and "2/2 done" in text


def test_follow_goes_on_and_leaves_on_control_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = specs(1)
    plan(tmp_path, [run])
    finish(tmp_path, run)
    for is_terminal in (False, True):
        shown, file = console(is_terminal)
        more = RunSpec("warmup", "a", 7 + is_terminal, {"lr": 0.1}, 1)
        later(monkeypatch, lambda more=more: plan(tmp_path, [more]), interrupt)
        assert watch(str(tmp_path), follow=True, console=shown) == 0
        assert "1 waiting" in file.getvalue() or "2 waiting" in file.getvalue()
    later(monkeypatch, interrupt)
    assert watch(str(tmp_path), console=console(False)[0]) == 130


def test_nothing_planned_waits_and_a_directory_may_go_and_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    shown, file = console(True)
    (run,) = specs(1)
    later(monkeypatch, root.rmdir, lambda: (plan(root, [run]), finish(root, run)))
    assert watch(str(root), console=shown) == 0
    assert "nothing is planned" in file.getvalue() and "1/1 done" in file.getvalue()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def call(*words: str) -> int:
        with pytest.raises(SystemExit) as exit_:
            main(["watch", *words])
        return int(exit_.value.code or 0)

    assert call(str(tmp_path / "absent")) == 1
    assert "no directory" in capsys.readouterr().err
    runs = specs(1)
    plan(tmp_path, runs)
    assert call(str(tmp_path), "--once") == 0
    assert "0/1 done, 1 waiting" in capsys.readouterr().out
    (tmp_path / "warmup" / DECLARATION).write_text("{")
    assert call(str(tmp_path), "--once") == 1
    assert "restore it from a copy" in " ".join(capsys.readouterr().out.split())


def test_a_process_on_another_host_is_shown_with_its_host(tmp_path: Path) -> None:
    here, there, together = specs(1, arm="here"), specs(1, arm="there"), specs(2, arm="both")
    plan(tmp_path, [*here, *there, *together])
    beat(tmp_path, here)
    beat(tmp_path, there, pid=1, host="node7")
    beat(tmp_path, together, pid=2, host="node8")
    shown, file = console(False)
    watch(str(tmp_path), once=True, console=shown)
    text = file.getvalue()
    assert "here, seed 0 " in text and "there, seed 0 on node7" in text and "2 runs together on node8: both" in text


def test_of_very_many_settings_those_that_are_not_done_are_shown(tmp_path: Path) -> None:
    runs = [specs(1, lr=float(number))[0] for number in range(MOST_ARMS + 5)]
    plan(tmp_path, runs)
    for run in runs[:-1]:
        finish(tmp_path, run)
    shown, file = console(False)
    watch(str(tmp_path), once=True, console=shown)
    text = file.getvalue()
    assert f"a (lr={runs[-1].config['lr']})" in text and "0/1" in text
    assert "and 5 more arms or settings, 5 of 5 runs done" in text


def test_a_file_is_as_wide_as_columns_say_and_what_is_left_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    runs = specs(12)
    plan(tmp_path, runs)
    for run in runs:
        finish(tmp_path, run, {"first": run.seed * 1.0, "a second number with a name that is long": 1.0, "third": 2.0})
    screen, text = console(False)
    assert watch(str(tmp_path), once=True, console=screen) == 0
    shown = text.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert "too wide to show: third, the latest run" in shown
    assert "blocks show 10 of 12 seeds" in " ".join(shown.split())
    assert "…" not in shown, "nothing is cut"
