"""The live view in a terminal; without one, a line per change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kymograph._pictures.live.network import LEVELS, MISSING, ZERO, NetworkMap, TracedNetwork
from kymograph._pictures.live.reading import Watcher
from kymograph._pictures.live.state import (
    ArmState,
    LiveState,
    LostRunState,
    ProcessState,
    RunCounts,
    StudyState,
    arms_in_detail,
)
from kymograph._rounding import number_text
from kymograph._runs.locating import check_directory
from kymograph._wording import counted, format_duration, line_width

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text


INTERVAL = 0.5
"""Seconds between two readings of the directory."""
BLOCKS = "▁▂▃▄▅▆▇█"
MOST_ROWS = 8
"""The most layers of a network that are shown."""
MOST_LOST = 3
"""The most failed and damaged runs listed per study."""
_SEEDS, _TRACE = 10, 20  # the most blocks of a sparkline over seeds, and of one over training


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
        follow: keeps watching after everything has ended, until Ctrl-C.
        console: where to show it; default: standard output.
        clock: returns the time.
    """
    from rich.console import Console

    console = console or Console(highlight=False)
    check_directory(directory)
    watcher = Watcher(directory)
    state = watcher.state(clock())
    try:
        if once or (state.ended and not follow):
            if not console.is_terminal:
                console.width = line_width()
            console.print(_picture(state, clock(), console.width))
        elif console.is_terminal:
            state = _show_live(console, watcher, state, follow, clock)
        else:
            state = _print_changes(console, watcher, state, follow, clock)
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 1 if state.damaged else 0


def format_progress(study: StudyState) -> str:
    """Returns a study's progress as one line."""
    eta = "" if study.eta is None else f", about {format_duration(study.eta)} left"
    return f"{format_counts(study.counts)}{eta}"


def format_counts(counts: RunCounts) -> str:
    """Returns the counts as text, without the conditions that no run is in.

    >>> format_counts(RunCounts(finished=3, waiting=1))
    '3/4 done, 1 waiting'
    """
    names = ("diverged", "failed", "damaged", "running", "missing", "waiting")
    others = [f"{count} {name}" for name in names if (count := getattr(counts, name))]
    return ", ".join([f"{counts.done}/{counts.planned} done", *others])


def format_superseded(study: StudyState) -> str:
    """Returns how many runs of earlier code the study has, as text."""
    runs = "1 run" if study.superseded == 1 else f"{study.superseded} runs"
    return f"superseded: {runs} of an earlier version or source of the study, not counted here"


def spark(values: Sequence[float | None]) -> str:
    """Returns a row of blocks as high as the values, from the smallest to the largest; a gap for a missing one."""
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


def _show_live(
    console: Console, watcher: Watcher, state: LiveState, follow: bool, clock: Callable[[], float]
) -> LiveState:
    from rich.live import Live

    with Live(_picture(state, clock(), console.width), console=console, auto_refresh=False) as live:
        while follow or not state.ended:
            time.sleep(INTERVAL)
            before, state = state, watcher.state(clock())
            # Without a new state, only the running times of processes change.
            if state is not before or any(study.processes for study in state.studies):
                live.update(_picture(state, clock(), console.width), refresh=True)
        live.vertical_overflow = "visible"  # the whole picture stays on the screen
    return state


def _print_changes(
    console: Console, watcher: Watcher, state: LiveState, follow: bool, clock: Callable[[], float]
) -> LiveState:
    """Prints a line per study whenever its counts change, and every other message once."""
    shown: dict[str, RunCounts] = {}
    printed: set[str] = set()
    while True:
        for study in state.studies:
            if shown.get(study.name) != study.counts:
                shown[study.name] = study.counts
                _print_line(console, f"{study.name}: {format_progress(study)}")
            superseded = [f"{study.name} {format_superseded(study)}"] if study.superseded else []
            news = [f"{study.name} {_format_lost(run)}" for run in study.lost]
            for text in [*superseded, *news, *study.notes]:
                if text not in printed:
                    printed.add(text)
                    _print_line(console, text)
        if state.ended and not follow:
            return state
        time.sleep(INTERVAL)
        state = watcher.state(clock())


def _print_line(console: Console, text: str) -> None:
    console.print(_text(text), soft_wrap=True)
    console.file.flush()


def _picture(state: LiveState, now: float, width: int) -> Group:
    from rich.console import Group

    if not state.studies:
        return Group(_text(f"nothing is planned in {state.directory} yet"))
    return Group(*(part for study in state.studies for part in _study(study, now, width)))


def _study(study: StudyState, now: float, width: int) -> list[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    counts = study.counts
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=max(counts.planned, 1), completed=study.progress, width=20)
    head.add_row(_text(study.name, style="bold"), bar, _text(format_progress(study)))
    parts: list[RenderableType] = [head]
    if study.processes:
        parts.append(_process_table(study.processes, now))
    if study.arms:
        shown = _arms_to_show(study.arms)
        parts.append(_arm_table(shown, width))
        if omitted := _format_omitted(shown, width):
            parts.append(_text(f"  {omitted}", style="dim"))
        if len(shown) < len(study.arms):
            parts.append(_text(f"  {_format_rest(study.arms, shown)}", style="dim"))
    if study.network is not None:
        parts += [_text(f"  {line}", style="" if row else "dim") for line, row in _network_lines(study.network, width)]
    parts += [_text(f"  {_format_lost(run)}", style="red") for run in study.lost[:MOST_LOST]]
    if len(study.lost) > MOST_LOST:
        parts.append(_text(f"  and {len(study.lost) - MOST_LOST} more diverged, failed or damaged", style="red"))
    if counts.missing and not counts.running:
        parts.append(_text("  missing: the process has ended; run the same command again to continue", style="yellow"))
    if study.superseded:
        parts.append(_text(f"  {format_superseded(study)}", style="dim"))
    parts += [_text(f"  {note}", style="red") for note in study.notes]
    return [*parts, _text("")]


def _process_table(processes: Sequence[ProcessState], now: float) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("  running", "steps", "for", "last message"):
        table.add_column(column, header_style="dim", overflow="fold")
    for process in processes:
        since = format_duration(max(now - process.started, 0)) if process.alive else "ended"
        table.add_row(
            _text(f"  {format_runs(process)}"),
            format_steps(process),
            since,
            _text(process.message or ("starting" if process.alive and not process.done else "")),
        )
    return table


def format_steps(process: ProcessState) -> str:
    """Returns how many steps are done, of how many if that is known."""
    if not process.steps:
        return f"{process.done:,}"
    return f"{process.done:,}/{process.steps:,} ({100 * process.done // process.steps} %)"


def format_runs(process: ProcessState) -> str:
    """Returns which runs a process computes, and on which host if it is another one, in a few words."""
    on_host = f" on {process.host}" if process.host else ""
    if process.runs == 1 and process.arms:
        return f"{process.arms[0]}, seed {process.seeds[0]}{on_host}"
    arms = ", ".join(process.arms) if len(process.arms) <= 2 else f"{process.arms[0]} … {process.arms[-1]}"
    return f"{process.runs} runs together{on_host}: {arms}" if arms else f"{process.runs} runs{on_host}"


def _arms_to_show(arms: Sequence[ArmState]) -> Sequence[ArmState]:
    """Returns the arms to show, in their order: all of them, or, if there are too many, preferably unfinished ones."""
    return [arms[index] for index in arms_in_detail([arm.counts for arm in arms])]


def _format_rest(arms: Sequence[ArmState], shown: Sequence[ArmState]) -> str:
    """Returns, in words, the progress of the arms that are not shown."""
    hidden = [arm.counts for arm in arms if arm not in shown]
    finished, planned = sum(counts.done for counts in hidden), sum(counts.planned for counts in hidden)
    return f"and {len(hidden)} more arms or settings, {finished} of {planned} runs done"


def _labels(arms: Sequence[ArmState]) -> list[str]:
    return list(dict.fromkeys(headline.label for arm in arms for headline in arm.headlines))


def _seeds(arms: Sequence[ArmState]) -> int:
    """Returns the largest number of seeds behind a headline number."""
    return max((len(headline.values) for arm in arms for headline in arm.headlines), default=0)


def _fitting(arms: Sequence[ArmState], width: int) -> tuple[list[str], bool]:
    """Returns which headline numbers fit next to the arms' names, at least the first, and whether a series does.

    What does not fit is left out rather than folded into narrow columns.
    """
    names = [arm.trace.name for arm in arms if arm.trace]
    series = max(_TRACE + 10, len(f"{names[0]}, latest run")) + 2 if names else 0
    left = width - max(len(arm.name) for arm in arms) - 14
    partial = any(value is None for arm in arms for headline in arm.headlines for value in headline.values)
    blocks = 10 + min(_seeds(arms), _SEEDS) + (len(" (10 of 10)") if partial else 0)
    needed = {label: max(len(label), blocks) + 2 for label in _labels(arms)}
    first = next(iter(needed.values()), 0)
    traced = bool(names) and first + series <= left
    left -= series if traced else 0
    fitting: list[str] = []
    for label, columns in needed.items():
        left -= columns
        if left >= 0 or not fitting:
            fitting.append(label)
    return fitting, traced


def _format_omitted(arms: Sequence[ArmState], width: int) -> str:
    """Returns, in words, what the table of arms leaves out; empty if it shows everything."""
    fitting, traced = _fitting(arms, width)
    hidden = [label for label in _labels(arms) if label not in fitting]
    if any(arm.trace for arm in arms) and not traced:
        hidden.append("the latest run")
    parts = [f"too wide to show: {', '.join(hidden)}"] if hidden else []
    if _seeds(arms) > _SEEDS:
        parts.append(f"blocks show {_SEEDS} of {_seeds(arms)} seeds")
    return "; ".join(parts)


def _arm_table(arms: Sequence[ArmState], width: int) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    fitting, traced = _fitting(arms, width)
    traces = [arm.trace for arm in arms if arm.trace] if traced else []
    table.add_column("  arm", header_style="dim", overflow="fold")
    table.add_column("done", header_style="dim", no_wrap=True)
    for label in fitting:
        table.add_column(_text(label), header_style="dim", no_wrap=True)
    if traces:
        table.add_column(_text(f"{traces[0].name}, latest run"), header_style="dim", no_wrap=True)
    for arm in arms:
        by_label = {headline.label: headline for headline in arm.headlines}
        row: list[Text | str] = [_text(f"  {arm.name}"), f"{arm.counts.done}/{arm.counts.planned}"]
        for label in fitting:
            headline = by_label.get(label)
            mean = None if headline is None else headline.mean
            if headline is None or mean is None:
                row.append("")
                continue
            n = sum(value is not None for value in headline.values)
            few = f" ({n} of {len(headline.values)})" if n < len(headline.values) else ""
            row.append(f"{number_text(mean):<9} {_short(headline.values, _SEEDS)}{few}")
        if traces:
            row.append("" if arm.trace is None else f"{_short(arm.trace.values, _TRACE)} {_last(arm.trace.values)}")
        table.add_row(*row)
    return table


def _network_lines(network: TracedNetwork, width: int) -> list[tuple[str, bool]]:
    """Returns the first map of a network as lines of blocks, one per layer, and whether each line is a row of it."""
    first, *others = network.maps
    rows = first.map.ticks(MOST_ROWS)
    shown = [first.map.labels[row] for row in rows]
    labels = max(map(len, shown))
    columns = max(width - labels - 20, 10)
    name = f" of {first.map.title}" if first.map.title else ""
    count = f", {len(rows)} of {len(first.map.sites)} layers" if len(rows) < len(first.map.sites) else ""
    scale = f"{number_text(first.low, 3)} to {number_text(first.high, 3)}{' (log)' if first.log else ''}"
    head = f"{network.series.replace('_', ' ')}{name}, latest run ({network.arm}, seed {network.seed}){count}"
    lines = [(f"{head}: {scale}", False)]
    for row, label in zip(rows, shown, strict=True):
        last = first.ends[row][1]
        lines.append(
            (f"{label:>{labels}} {_blocks(first, row, columns)} {'' if last is None else number_text(last)}", True)
        )
    if others:
        lines.append((f"also recorded: {_format_maps(others)}; `kymograph report` shows all", False))
    if network.left_out:
        lines.append((f"never ran: {', '.join(network.left_out)}", False))
    return lines


def _blocks(drawn: NetworkMap, row: int, columns: int) -> str:
    """Returns a layer's cells as blocks as high as the values; a dot is exactly 0, a gap is no value."""
    cells = drawn.rows[row]
    count = min(columns, len(cells))
    letters = [cells[at * (len(cells) - 1) // max(count - 1, 1)] for at in range(count)]
    marks = {ZERO: "·", MISSING: " "}
    marks |= {letter: BLOCKS[at * len(BLOCKS) // len(LEVELS)] for at, letter in enumerate(LEVELS)}
    return "".join(marks[letter] for letter in letters)


def _format_maps(maps: Sequence[NetworkMap]) -> str:
    """Returns the names of families, and how many layers have no relatives."""
    families = [each.map.title for each in maps if each.map.pattern]
    single = [counted(len(each.map.sites), "single layer") for each in maps if not each.map.pattern]
    named = ", ".join(families[:2]) + (f" and {len(families) - 2} more families" if len(families) > 2 else "")
    return ", ".join(text for text in (named, *single) if text)


def _text(content: str, style: str = "") -> Text:
    """Returns text that may come from a file, in which neither markup nor control characters have any effect."""
    from rich.text import Text

    return Text("".join(letter if letter.isprintable() else "�" for letter in content), style=style)


def _format_lost(run: LostRunState) -> str:
    return f"{run.condition}: {run.arm}, seed {run.seed}" + (f": {run.reason}" if run.reason else "")


def _short(values: Sequence[float | None], most: int) -> str:
    """Returns a sparkline of at most ``most`` blocks, from evenly spaced values."""
    count = min(most, len(values))
    return spark([values[at * (len(values) - 1) // max(count - 1, 1)] for at in range(count)])


def _last(values: Sequence[float | None]) -> str:
    last = values[-1] if values else None
    return "not finite" if last is None else number_text(last)
