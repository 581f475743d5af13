"""Times the scripts' way of working and ours, interleaved, and reports ratios with their spread."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kymograph.errors import KymographError, did_you_mean
from kymograph.io.writing import write_atomically
from kymograph.runs.provenance import hardware, versions

PROBE_WAYS = ("recording", "light", "standard", "deep")
PROBE_LIMITS = {"recording": 1.03, "light": 1.10, "standard": 1.25}
"""The most that a loop with a probe may take, relative to the loop without."""


@dataclass(frozen=True)
class Comparison:
    """One piece of work done both ways; each function returns seconds."""

    about: str
    unit: str
    script: Callable[[], float]
    ours: Callable[[], float]
    target: str
    floor: Callable[[], float] | None = None
    """Returns the seconds of the matrix products alone, with the work as it is written down."""
    together: Callable[[], tuple[float, float]] | None = None
    """Alternates between both ways, instead of timing one after the other; returns the seconds of each."""
    most: float | None = None
    """The most that ours may take, relative to the script's time; the command fails if every repeat takes more."""


@dataclass(frozen=True)
class Timing:
    """Seconds of both ways, and of the floor, in each repeat."""

    name: str
    comparison: Comparison
    script: tuple[float, ...]
    ours: tuple[float, ...]
    floor: tuple[float, ...] = ()

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours was, repeat by repeat."""
        return [script / ours for script, ours in zip(self.script, self.ours, strict=True)]


def bench(names: Sequence[str], repeats: int, markdown: str | None = None) -> int:
    """Times the named comparisons (default: all), prints a table, writes it to ``markdown``; returns the exit code."""
    known = comparisons()
    for name in names:
        if name not in known:
            raise KymographError(f"there is no comparison {name!r}{did_you_mean(name, known)}")
    if repeats < 1:
        raise KymographError(f"repeats must be at least 1, not {repeats}")
    if markdown is not None and not Path(markdown).parent.is_dir():
        raise KymographError(f"there is no directory {Path(markdown).parent}; create it first")
    timings = []
    for name in names or known:
        comparison = known[name]
        rows = []
        for number in range(repeats):
            print(f"{name}: {number + 1} of {repeats}", file=sys.stderr, flush=True)
            both = comparison.together() if comparison.together else (comparison.script(), comparison.ours())
            rows.append((*both, comparison.floor() if comparison.floor else 0.0))
        script, ours, floor = zip(*rows, strict=True)
        timings.append(Timing(name, comparison, script, ours, floor if comparison.floor else ()))
    table = render(timings)
    if any(timing.comparison.floor for timing in timings):
        memory = max(_epochs().peak_memory(rule) for rule in ("bp", "dfa"))
        table += f" Peak memory of an epoch of `snapshot`: {memory:.2f} GB (target: under 1.5 GB)."
    print(table)
    if markdown is not None:
        write_atomically(Path(markdown), f"# Speed\n\nPrinted by `make bench`.\n\n{table}\n".encode())
    exceeded = [sentence for timing in timings if (sentence := over_limit(timing))]
    for sentence in exceeded:
        print(sentence, file=sys.stderr)
    return 1 if exceeded else 0


def over_limit(timing: Timing) -> str:
    """Returns a sentence if ours exceeds its limit relative to the script's time; empty if not, or without a limit.

    The smallest ratio counts, because other load on the machine adds to single repeats and takes nothing away.
    """
    most, least = timing.comparison.most, 1 / max(timing.ratios)
    if most is None or least <= most:
        return ""
    return f"{timing.name} takes {least:.2f} times as long as the loop without it, above the limit of {most:.2f}"


def render(timings: Sequence[Timing]) -> str:
    """Returns the timings as a Markdown table, and a line that names the processor and the version of torch."""
    lines = [
        "| work | the script's way | ours | ratio: median (range) | the script's way / matrix products alone "
        "| ours / matrix products alone | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        script, ours, unit = statistics.median(timing.script), statistics.median(timing.ours), timing.comparison.unit
        script_share, our_share = _over(timing.script, timing.floor), _over(timing.ours, timing.floor)
        lines.append(
            f"| {timing.comparison.about} | {script:.3g} {unit} | {ours:.3g} {unit} | {_spread(timing.ratios)} "
            f"| {script_share} | {our_share} | {timing.comparison.target} |"
        )
    repeats = len(timings[0].script) if timings else 0
    lines.append("")
    lines.append(f"{hardware()['processor']}, torch {versions()['torch']}; {repeats} repeats, all ways interleaved.")
    return "\n".join(lines)


def _over(seconds: Sequence[float], floor: Sequence[float]) -> str:
    return _spread([a / b for a, b in zip(seconds, floor, strict=True)]) if floor else ""


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g}x ({min(values):.3g}-{max(values):.3g})"


def comparisons() -> dict[str, Comparison]:
    """Returns every comparison by name."""
    seed, epoch = "s per seed", "s per epoch"
    arms = ("--arms", "plain", "residual")
    loaded = [sys.executable, "-c", "from benchmarks import naive; naive.depth_seed(42)"]
    return {
        "clipping-32": Comparison(
            "`clipping`, whole study, 32 seeds; start-up counted for ours only",
            seed,
            _script_clipping,
            lambda: _ours("clipping", 32),
            "100x, aim 300x",
        ),
        "clipping-1": Comparison(
            "`clipping`, whole study, 1 seed; start-up counted for ours only",
            seed,
            _script_clipping,
            lambda: _ours("clipping", 1),
            "5x",
        ),
        "depth-10": Comparison(
            "`depth`, both script arms, 10 seeds; whole commands, the script's being one process per seed",
            seed,
            lambda: _timed(loaded),
            lambda: _ours("depth", 10, *arms),
            "10x",
        ),
        "depth-10-warm": Comparison(
            "the same against a script that is loaded and warm; start-up counted for ours only",
            seed,
            _script_depth,
            lambda: _ours("depth", 10, *arms),
            "",
        ),
        "snapshot-data": Comparison(
            "`snapshot`, batches of CIFAR-10's size, no training",
            epoch,
            lambda: _epochs().script_pipeline(),
            lambda: _epochs().our_pipeline(),
            "ours under 0.6 s",
        ),
        "snapshot-bp": _epoch("bp", "1.8x"),
        "snapshot-dfa": _epoch("dfa", "2x"),
        "snapshot-bp-sweep": _epoch_in_a_sweep("bp"),
        "snapshot-dfa-sweep": _epoch_in_a_sweep("dfa"),
        "calibration": Comparison(
            "`calibration`, one fresh-B draw on 2,048 images; the script recomputes the gradients, ours are stored",
            "s per draw",
            lambda: _null_draws().script_draw(),
            lambda: _null_draws().our_draw(),
            "100x",
        ),
        "calibration-999": Comparison(
            "the same, 999 draws as a whole: gradients and their float64 recheck counted; the script's time is 999 "
            "times one draw",
            "s",
            lambda: 999 * _null_draws().script_draw(),
            lambda: _null_draws().calibration(),
            "ours under 3 s",
        ),
        "watching": Comparison(
            "an MLP's own loop with the norms of every layer and of its gradient read at every step; compared with the "
            "same loop unwatched; the least of nine rounds each",
            "s for 100 steps",
            lambda: _watching().least(watched=False),
            lambda: _watching().least(watched=True),
            "0.91x (watched takes at most 1.10 of the time)",
        ),
        **{f"probe-{way}": _probe(way, 1) for way in PROBE_WAYS},
        **{f"probe-{way}-threads": _probe(way, None) for way in PROBE_LIMITS},
        **{f"probe-{way}-wide": _probe(way, 1, wide=True) for way in PROBE_LIMITS},
    }


def _probe(way: str, threads: int | None, wide: bool = False) -> Comparison:
    about = "the loss logged in a recorded run" if way == "recording" else f"a probe at level `{way}`"
    how = "CPU time on one thread" if threads else "wall-clock time on all threads"
    most = PROBE_LIMITS.get(way) if threads and not wide else None
    rounds = 5 if way == "deep" else 200
    network = "an MLP 784-256-256-256-256-10" if wide else "an MLP with 100,000 parameters"

    def both() -> tuple[float, float]:
        probing = _probing()
        return probing.ratio(way, threads, rounds=rounds, widths=probing.WIDE if wide else probing.SMALL)

    return Comparison(
        f"{network}, batch 128, Adam, {about} at every step; compared with the same loop without, "
        f"alternating every 8 steps, {how}, median of {rounds} ratios",
        "s per step",
        lambda: both()[0],
        lambda: both()[1],
        "" if most is None else f"at most {most:.2f} of the time",
        together=both,
        most=most,
    )


def _epoch(rule: str, most: str) -> Comparison:
    return Comparison(
        f"`snapshot`, {rule.upper()}",
        "s per epoch",
        lambda: _epochs().script_epoch(rule),
        lambda: _epochs().our_epoch(rule),
        f"7x; at most {most} the products",
        lambda: _epochs().products(rule),
    )


def _epoch_in_a_sweep(rule: str) -> Comparison:
    return Comparison(
        f"{rule.upper()} in a sweep: a run on every core, each on one thread; "
        "the script trains one run after the other",
        "s per epoch",
        lambda: _epochs().script_epoch(rule),
        lambda: _epochs().sweep_epoch(rule),
        "",
    )


def _null_draws() -> ModuleType:
    from benchmarks import null_draws

    return null_draws


def _probing() -> ModuleType:
    from benchmarks import probing

    return probing


def _watching() -> ModuleType:
    from benchmarks import watching

    return watching


def _epochs() -> ModuleType:
    from benchmarks import epochs

    return epochs


def _script_clipping() -> float:
    from benchmarks import naive

    started = time.perf_counter()
    naive.clipping_seed(42)
    return time.perf_counter() - started


def _script_depth() -> float:
    from benchmarks import naive

    naive.depth_seed(42, steps=5)
    started = time.perf_counter()
    naive.depth_seed(42)
    return time.perf_counter() - started


def _ours(study: str, seeds: int, *options: str) -> float:
    """Returns the seconds per seed of the whole command on the CPU, in a fresh process and a fresh directory."""
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
            "--device",
            "cpu",  # where the scripts train
        ]
        return _timed([*command, *options]) / seeds


def _timed(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
