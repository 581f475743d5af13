"""The live view in a terminal, and a line per change where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kymograph.live.numbers import duration
from kymograph.live.state import LiveArm, LiveCounts, LiveState, LiveStudy, LiveWork, look, look_again

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

EVERY = 0.5
"""Seconds between two looks at the directory."""
BLOCKS = "▁▂▃▄▅▆▇█"
_FAILURES, _SEEDS, _TRACE, _WIDE = 3, 8, 20, 200


def watch(
    directory: str,
    once: bool = False,
    follow: bool = False,
    console: Console | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Shows the state of ``directory`` until all planned runs have ended; returns the exit code.

    Args:
        directory: the runs' directory.
        once: prints the state and returns.
        follow: goes on when everything has ended, until Ctrl-C.
        console: where to show it; default: standard output.
        clock: tells the time.
    """
    from rich.console import Console

    console = console or Console(highlight=False)
    state = look(directory, clock())
    try:
        if once or (state.ended and not follow):
            if not console.is_terminal:
                console.width = _WIDE  # a file has no edge to cut at
            console.print(_picture(state, clock(), console.width))
        elif console.is_terminal:
            state = _live(console, directory, state, follow, clock)
        else:
            state = _lines(console, directory, state, follow, clock)
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 1 if state.damaged else 0


def line(study: LiveStudy) -> str:
    """Returns a study's progress as one line."""
    eta = "" if study.eta is None else f", about {duration(study.eta)} left"
    return f"{study.name}: {tell(study.counts)}{eta}"


def tell(counts: LiveCounts) -> str:
    """Returns the counts in words, leaving out conditions that no run is in."""
    others = [(counts.failed, "failed"), (counts.running, "running"), (counts.stopped, "stopped")]
    parts = [f"{counts.finished}/{counts.planned} done", *(f"{n} {word}" for n, word in others if n)]
    return ", ".join([*parts, *([f"{counts.waiting} waiting"] if counts.waiting else [])])


def spark(values: Sequence[float | None]) -> str:
    """Returns a row of blocks as high as the values, between their least and greatest; a gap for a missing one."""
    finite = [value for value in values if value is not None]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    middle = len(BLOCKS) // 2 - 1

    def block(value: float | None) -> str:
        if value is None:
            return " "
        # Halved before the subtraction, which could overflow for the largest numbers there are.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else None
        return BLOCKS[middle if share is None else min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]

    return "".join(map(block, values))


def _live(console: Console, directory: str, state: LiveState, follow: bool, clock: Callable[[], float]) -> LiveState:
    from rich.live import Live

    with Live(_picture(state, clock(), console.width), console=console, refresh_per_second=4) as live:
        while follow or not state.ended:
            time.sleep(EVERY)
            state = look_again(directory, clock())
            live.update(_picture(state, clock(), console.width))
        live.vertical_overflow = "visible"  # what stays on the screen is the whole picture
    return state


def _lines(console: Console, directory: str, state: LiveState, follow: bool, clock: Callable[[], float]) -> LiveState:
    """Prints a line per study whenever its counts change."""
    shown: dict[str, LiveCounts] = {}
    told: set[str] = set()
    while True:
        for study in state.studies:
            if shown.get(study.name) != study.counts:
                shown[study.name] = study.counts
                _say(console, line(study))
            news = [f"{study.name} failed: {_failure(study, at)}" for at in range(len(study.failures))]
            for text in [*news, *study.notes]:
                if text not in told:
                    told.add(text)
                    _say(console, text)
        if state.ended and not follow:
            return state
        time.sleep(EVERY)
        state = look_again(directory, clock())


def _say(console: Console, text: str) -> None:
    console.print(_text(text), soft_wrap=True)
    console.file.flush()


def _picture(state: LiveState, now: float, width: int) -> Group:
    from rich.console import Group

    if not state.studies:
        return Group(_text(f"nothing is planned in {state.directory} yet"))
    return Group(*(part for study in state.studies for part in _study(study, now, width)))


def _study(study: LiveStudy, now: float, width: int) -> list:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    counts = study.counts
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=max(counts.planned, 1), completed=counts.finished + counts.failed, width=20)
    head.add_row(_text(study.name, style="bold"), bar, _text(line(study).removeprefix(f"{study.name}: ")))
    parts: list = [head]
    if study.work:
        parts.append(_work_table(study.work, now))
    if study.arms:
        parts.append(_arm_table(study.arms, width))
    for place in range(min(len(study.failures), _FAILURES)):
        parts.append(_text(f"  failed: {_failure(study, place)}", style="red"))
    if len(study.failures) > _FAILURES:
        parts.append(_text(f"  and {len(study.failures) - _FAILURES} more failed", style="red"))
    if counts.stopped and not counts.running:
        parts.append(_text("  stopped: the process has ended; run the same command again to go on", style="yellow"))
    parts += [_text(f"  {note}", style="red") for note in study.notes]
    return [*parts, _text("")]


def _work_table(work: Sequence[LiveWork], now: float) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("  at work", "steps", "for", "last words"):
        table.add_column(column, header_style="dim", overflow="fold")
    for one in work:
        share = f"{one.done}/{one.steps} ({100 * one.done // max(one.steps, 1)} %)"
        since = duration(max(now - one.started, 0)) if one.alive else "stopped"
        table.add_row(_text(f"  {runs_of(one)}"), share, since, _text(one.words))
    return table


def runs_of(work: LiveWork) -> str:
    """Returns which runs a process is at, in few words."""
    if work.runs == 1 and work.arms:
        return f"{work.arms[0]}, seed {work.seeds[0]}"
    arms = ", ".join(work.arms) if len(work.arms) <= 2 else f"{work.arms[0]} … {work.arms[-1]}"
    return f"{work.runs} runs together: {arms}" if arms else f"{work.runs} runs"


def _arm_table(arms: Sequence[LiveArm], width: int) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    labels = list(dict.fromkeys(headline.label for arm in arms for headline in arm.headlines))
    traces = [arm.trace for arm in arms if arm.trace]
    # Numbers that do not fit are left out rather than folded into ribbons.
    longest = max(len(arm.name) for arm in arms)
    left = width - longest - 14 - (_TRACE + 11 if traces else 0)
    seeds = max((len(headline.values) for arm in arms for headline in arm.headlines), default=0)
    fitting: list[str] = []
    for label in labels:
        left -= max(len(label), 10 + min(seeds, _SEEDS)) + 2
        if left >= 0 or not fitting:
            fitting.append(label)
    table.add_column("  arm", header_style="dim", overflow="fold")
    table.add_column("done", header_style="dim", no_wrap=True)
    for label in fitting:
        table.add_column(_text(label), header_style="dim", no_wrap=True)
    if traces:
        table.add_column(_text(f"{traces[0].name}, latest run"), header_style="dim", no_wrap=True)
    for arm in arms:
        found = {headline.label: headline for headline in arm.headlines}
        row: list[Text | str] = [_text(f"  {arm.name}"), f"{arm.counts.finished}/{arm.counts.planned}"]
        for label in fitting:
            headline = found.get(label)
            mean = None if headline is None else headline.mean
            if headline is None or mean is None:
                row.append("")
                continue
            known = sum(value is not None for value in headline.values)
            few = f" ({known} of {len(headline.values)})" if known < len(headline.values) else ""
            row.append(f"{mean:<9.3g} {_short(headline.values, _SEEDS)}{few}")
        if traces:
            row.append("" if arm.trace is None else f"{_short(arm.trace.values, _TRACE)} {_last(arm.trace.values)}")
        table.add_row(*row)
    return table


def _text(words: str, style: str = "") -> Text:
    """Returns words, which may come from a file, as text: no markup in them is obeyed, nor any control character."""
    from rich.text import Text

    return Text("".join(letter if letter.isprintable() else "�" for letter in words), style=style)


def _failure(study: LiveStudy, place: int) -> str:
    failure = study.failures[place]
    return f"{failure.arm}, seed {failure.seed}: {failure.reason}"


def _short(values: Sequence[float | None], most: int) -> str:
    """Returns a sparkline of at most ``most`` blocks, of values spread evenly over all."""
    count = min(most, len(values))
    return spark([values[at * (len(values) - 1) // max(count - 1, 1)] for at in range(count)])


def _last(values: Sequence[float | None]) -> str:
    last = values[-1] if values else None
    return "not finite" if last is None else f"{last:.3g}"
