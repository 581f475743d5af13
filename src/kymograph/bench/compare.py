"""Ours beside the scripts' way of working, interleaved, as ratios with their spread."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.provenance import hardware, versions


@dataclass(frozen=True)
class Comparison:
    """One piece of work done both ways; each function returns seconds per seed."""

    about: str
    script: Callable[[], float]
    ours: Callable[[], float]
    target: float


@dataclass(frozen=True)
class Timing:
    """Seconds per seed of both ways in each repeat, measured one after the other."""

    name: str
    comparison: Comparison
    script: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours was, repeat by repeat."""
        return [script / ours for script, ours in zip(self.script, self.ours, strict=True)]


def bench(names: Sequence[str], repeats: int, markdown: str | None) -> int:
    """Times the named comparisons (default: all), prints a table, writes it to ``markdown``; returns the exit code."""
    known = comparisons()
    for name in names:
        if name not in known:
            raise KymographError(f"there is no comparison {name!r}{did_you_mean(name, known)}")
    if repeats < 1:
        raise KymographError(f"repeats must be at least 1, not {repeats}")
    timings = []
    for name in names or known:
        comparison = known[name]
        pairs = []
        for number in range(repeats):
            print(f"{name}: {number + 1} of {repeats}", file=sys.stderr, flush=True)
            pairs.append((comparison.script(), comparison.ours()))
        timings.append(Timing(name, comparison, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)))
    table = render(timings)
    print(table)
    if markdown is not None:
        Path(markdown).write_text("# Speed\n\nPrinted by `make bench`.\n\n" + table + "\n")
    return 0


def render(timings: Sequence[Timing]) -> str:
    """Returns the timings as a Markdown table with a line that says what they were measured on."""
    lines = [
        "| work | the script's way, s per seed | ours, s per seed | ratio: median (range) | target |",
        "|---|---|---|---|---|",
    ]
    for timing in timings:
        ratios, script, ours = timing.ratios, statistics.median(timing.script), statistics.median(timing.ours)
        lines.append(
            f"| {timing.comparison.about} | {script:.3g} | {ours:.3g} | {statistics.median(ratios):.3g}x "
            f"({min(ratios):.3g}-{max(ratios):.3g}) | {timing.comparison.target:g}x |"
        )
    repeats = len(timings[0].script) if timings else 0
    lines.append("")
    lines.append(
        f"{hardware()['processor']}, torch {versions()['torch']}; {repeats} repeats, both ways interleaved. "
        "Start-up is included on our side; on the script's side where it says so."
    )
    return "\n".join(lines)


def comparisons() -> dict[str, Comparison]:
    """Returns every comparison by name."""
    return {
        "clipping-32": Comparison(
            "`clipping`, whole study, 32 seeds (start-up on our side only)",
            _script_clipping,
            lambda: _ours("clipping", 32),
            100,
        ),
        "clipping-1": Comparison(
            "`clipping`, whole study, 1 seed (start-up on our side only)",
            _script_clipping,
            lambda: _ours("clipping", 1),
            5,
        ),
        "depth-10": Comparison(
            "`depth`, both script arms, 10 seeds (whole commands; the script is one process a seed)",
            lambda: _timed([sys.executable, "-c", "from kymograph.bench import naive; naive.depth_seed(42)"]),
            lambda: _ours("depth", 10, "--arms", "plain", "residual"),
            10,
        ),
        "depth-10-warm": Comparison(
            "the same with a script already loaded and warm (start-up on our side only)",
            _script_depth,
            lambda: _ours("depth", 10, "--arms", "plain", "residual"),
            5,
        ),
    }


def _script_clipping() -> float:
    from kymograph.bench import naive

    started = time.perf_counter()
    naive.clipping_seed(42)
    return time.perf_counter() - started


def _script_depth() -> float:
    from kymograph.bench import naive

    naive.depth_seed(42, steps=5)
    started = time.perf_counter()
    naive.depth_seed(42)
    return time.perf_counter() - started


def _ours(study: str, seeds: int, *options: str) -> float:
    """Returns the seconds per seed of the whole command, in a fresh process and a fresh directory."""
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            "-m",
            "kymograph",
            "run",
            study,
            "--n-seeds",
            str(seeds),
            "--out",
            directory,
            "--quiet",
        ]
        return _timed([*command, *options]) / seeds


def _timed(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
