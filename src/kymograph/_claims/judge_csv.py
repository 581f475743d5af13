"""Judging runs from elsewhere: two directories of CSV files, each one arm."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.claim_files import read_claims
from kymograph._claims.evidence import StudyEvidence, has_planned_runs
from kymograph._claims.judge import decide_claims
from kymograph._claims.registration import POST_HOC
from kymograph._claims.verdict import Verdicts
from kymograph._errors import KymographError, did_you_mean
from kymograph._io.documents import MAX_DIGITS, read_csv
from kymograph._io.files import is_directory
from kymograph._runs.record import RunSeries
from kymograph._runs.steps import Step, checked_step
from kymograph._runs.storable import is_exact, shown
from kymograph._streams import MAX_SEED

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


@dataclass(frozen=True)
class ImportedRun:
    """A run from elsewhere: its arm is the directory's name, its series are the files."""

    arm: str
    seed: int
    series: Mapping[str, RunSeries]
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_csv_arm(directory: str | Path) -> list[ImportedRun]:
    """Returns the runs of a directory of CSV files with columns seed, step and value, one file per series.

    Steps are integers or fractions, in any order. An empty value is missing.
    """
    folder = Path(directory)
    files = sorted(folder.glob("*.csv")) if is_directory(folder) else []
    if not files:
        raise KymographError(f"{folder} contains no CSV file with the columns seed, step and value")
    by_seed: dict[int, dict[str, list[tuple[Step, float]]]] = {}
    for path in files:
        for seed, step, value in _csv_rows(path):
            by_seed.setdefault(seed, {}).setdefault(path.stem, []).append((step, value))
    if not by_seed:
        raise KymographError(f"the CSV files of {folder} contain no values")
    runs = []
    for seed, series in sorted(by_seed.items()):
        arrays = {}
        for name, rows in series.items():
            rows.sort(key=lambda row: row[0])
            steps = [step for step, _ in rows]
            if len(set(steps)) < len(steps):
                raise KymographError(f"{folder / name}.csv has two values at one step of seed {seed}")
            fractions = any(isinstance(step, float) for step in steps)
            if fractions and not all(isinstance(step, float) or is_exact(step) for step in steps):
                raise KymographError(f"{folder / name}.csv has fractional steps and integers too large to go with them")
            arrays[name] = RunSeries(
                np.array(steps, dtype=np.float64 if fractions else np.int64),
                np.array([value for _, value in rows], dtype=np.float64),
            )
        runs.append(ImportedRun(folder.name, seed, arrays))
    return runs


def _csv_rows(path: Path) -> list[tuple[int, Step, float]]:
    rows = []
    for number, row in enumerate(read_csv(path, columns=("seed", "step", "value")), start=2):
        try:
            text = row["value"]
            seed, step = _number(row["seed"] or ""), checked_step(_number(row["step"] or ""))
            if not isinstance(seed, int) or abs(seed) > MAX_SEED:
                raise ValueError("it has no valid seed")
            value = _number(text) if text else math.nan
            if isinstance(value, int) and not is_exact(value):
                raise ValueError(f"{shown(value)} is not exactly a float64")
            rows.append((seed, step, float(value)))
        except (ValueError, KymographError) as error:
            raise KymographError(f"{path}, line {number} is not a seed, a step and a value: {error}") from None
    return rows


def _number(text: str) -> int | float:
    """Returns the number that a text spells, as an int or a float; raises ValueError if it is none or too large."""
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
        return int(text)
    number = float(text)
    if math.isinf(number) and any(character.isdigit() for character in text):
        raise ValueError(f"{text.strip()[:40]} is too large")
    return number


DIRECTIONS = ("less", "greater")
"""What can be claimed of a last value without a margin; other directions need a file of claims."""


def judge_csv(
    first: str | Path,
    second: str | Path,
    claims: str | Path | None = None,
    direction: str | Sequence[str] = (),
) -> Verdicts:
    """Judges two directories of CSV files (columns seed, step, value), each one arm under its own name.

    Args:
        first: the arm that the claims are about.
        second: the arm that it is compared with.
        claims: a TOML or Python file of claims about the two arms.
        direction: without claims, whether the last value is claimed to be ``less`` or ``greater`` in the first arm: one
            word for every series, or ``["loss=less", "accuracy=greater"]``. Such a claim is not registered, so its
            verdict is marked post hoc.
    """
    words = [direction] if isinstance(direction, str) else list(direction)
    if claims is None and not words:
        raise KymographError(
            "state whether a lower or a higher value is claimed, before the files are read: "
            "--direction less, --direction greater, or one for each series, e.g. --direction loss=less accuracy=greater"
        )
    if claims is not None and words:
        raise KymographError("the claims in a file have their own directions; drop --direction or --claims")
    arms = [read_csv_arm(first), read_csv_arm(second)]
    if arms[0][0].arm == arms[1][0].arm:
        raise KymographError(f"both directories are called {arms[0][0].arm!r}, which names the arms; rename one")
    evidence = StudyEvidence([run for arm in arms for run in arm])
    asked_for = read_claims(claims) if claims is not None else _last_values(arms, words)
    ready = [claim for claim in asked_for if has_planned_runs(claim, evidence)]
    if not ready:
        raise KymographError(f"no claim is about the arms {arms[0][0].arm} and {arms[1][0].arm}")
    return Verdicts(tuple(decide_claims(ready, evidence, lambda claim: POST_HOC)))


def directions_by_series(words: Sequence[str], series: Sequence[str]) -> dict[str, str]:
    """Returns the direction that is claimed for each series.

    >>> directions_by_series(["less"], ["error", "loss"])
    {'error': 'less', 'loss': 'less'}
    >>> directions_by_series(["loss=less", "accuracy=greater"], ["accuracy", "error", "loss"])
    {'loss': 'less', 'accuracy': 'greater'}
    """
    directions: dict[str, str] = {}
    for word in words:
        name, equals, direction = word.rpartition("=")
        if direction not in DIRECTIONS:
            raise KymographError(f"--direction takes less or greater, or SERIES=less, not {word!r}")
        if not equals and len(words) > 1:
            raise KymographError(f"--direction {word} applies to every series; name one series with each direction")
        if equals and name not in series:
            raise KymographError(f"the two directories share no series {name!r}{did_you_mean(name, series)}")
        directions |= dict.fromkeys([name] if equals else series, direction)
    return directions


def _last_values(arms: Sequence[Sequence[ImportedRun]], words: Sequence[str]) -> list[Claim]:
    """Returns a claim about the last value of every series that has a direction."""
    names = [{name for run in arm for name in run.series} for arm in arms]
    shared = sorted(names[0] & names[1])
    if not shared:
        raise KymographError("the two directories share no CSV file name; name the files after the series")
    left, right = arms[0][0].arm, arms[1][0].arm
    return [
        Claim(
            f"last {name}", "csv", f"the last {name} is {direction} in {left} than in {right}",
            Side(left, Measure(name, "last")), Side(right, Measure(name, "last")),
            cast(Literal["less", "greater"], direction), 0.0, origin="asked on the command line",
        )
        for name, direction in directions_by_series(words, shared).items()
    ]  # fmt: skip
