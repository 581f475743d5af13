"""Checking a directory of runs: its log, records, plan and registrations, and some runs computed again."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.claims.evidence import differing
from kymograph.claims.files import OWN_STUDY
from kymograph.claims.registration import (
    REGISTRATION,
    Registration,
    binding,
    conflicts,
    family,
    log_problems,
    registrations,
)
from kymograph.claims.tuning import TunedArm, tuned_arms, with_chosen
from kymograph.errors import KymographError
from kymograph.io.files import is_file
from kymograph.io.processes import temporary_directory
from kymograph.io.writing import plain
from kymograph.runs.archive import Archive
from kymograph.runs.declaration import Declaration
from kymograph.runs.history import History, current_code, declaration_digest, logged_declarations
from kymograph.runs.log import SHORT
from kymograph.runs.provenance import hardware, versions
from kymograph.runs.record import RunResult
from kymograph.runs.spec import slug
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import tuned_study
from kymograph.sharing.bundle import unpacked
from kymograph.studies.loading import registered_study
from kymograph.studies.study import Study
from kymograph.sweep.compute import Workplace, import_torch
from kymograph.wording import counted


@dataclass(frozen=True)
class CheckResult:
    """One thing that was checked."""

    what: str
    holds: bool
    detail: str = ""
    note: bool = False
    """Whether it is no error, but a fact that verdicts show and a reader should know."""

    def __str__(self) -> str:
        word = "note" if self.note else "ok" if self.holds else "WRONG"
        return f"{word:<6} {self.what}" + (f": {self.detail}" if self.detail else "")


def tuning_findings(study: str, tuned: Mapping[str, TunedArm]) -> list[CheckResult]:
    """Returns a finding for every arm whose choice does not hold, and a note for each that decides nothing."""
    wrong = [one for one in tuned.values() if one.fails_verification]
    found = [
        CheckResult(f"the {one.tuned.setting} chosen for {one.arm} in {study}", False, one.problem) for one in wrong
    ]
    if tuned and not wrong:
        chosen = ", ".join(f"{one.arm} {one.tuned.setting} {_value_text(one.value)}" for one in tuned.values())
        found.append(CheckResult(f"the values chosen for {study}", True, f"the tuning runs call for them: {chosen}"))
    return found + [
        CheckResult(f"{study}: {one.problem}", True, note=True)
        for one in tuned.values()
        if one.problem and not one.fails_verification
    ]


def _value_text(value: Any) -> str:
    return "none" if value is None else str(value)


TOLERANCE = 1e-3
"""The largest deviation, relative to a series' largest value, allowed on another machine or with other versions."""


def computed_again(archive: Archive, count: int, named: Mapping[str, Study], seed: int | None) -> list[CheckResult]:
    """Computes ``count`` randomly chosen runs again; returns how each compares with its record."""
    runs = list(archive.store.finished)
    chosen = random.Random(seed).sample(runs, min(count, len(runs)))
    owners = {run.id: tuned_study(run.study) or run.study for run in chosen}  # a study's code also makes tuning runs
    return [_compared(run, named.get(owners[run.id]) or registered_study(owners[run.id])) for run in chosen]


class _Silent:
    """A follower that shows nothing."""

    def tick(self, steps: int) -> None:
        """Ignores the steps."""

    def say(self, text: str) -> None:
        """Ignores the message."""


def _compared(run: StoredRun, study: Study | None) -> CheckResult:
    what = f"{run.study}, {run.arm}, seed {run.seed}, computed again"
    if study is None:
        return CheckResult(what, False, "its study's code is not here; name it with --study")
    try:
        with temporary_directory("verify") as directory, _threads(run.provenance.get("threads")):
            work = Workplace(str(run.provenance.get("device", "cpu")), _Silent(), Path(directory))
            (result,) = study.train([study.typed(run.spec)], work)
    except KymographError as error:
        return CheckResult(what, False, str(error))
    difference = _largest_difference(run, result)
    if difference == 0:
        return CheckResult(what, True, "the same bits")
    same_environment = run.provenance.get("versions") == versions() and run.provenance.get("hardware") == hardware()
    if same_environment:
        return CheckResult(
            what, False, f"off by {difference:.1e}, but must be bit-identical on the same machine and versions"
        )
    detail = f"off by {difference:.1e} on another machine or with other versions (at most {TOLERANCE:g} allowed)"
    return CheckResult(what, difference <= TOLERANCE, detail)


@contextlib.contextmanager
def _threads(count: Any) -> Iterator[None]:
    """Sets the number of torch threads to that of the run, because the order of summation depends on it."""
    torch = import_torch()
    before = torch.get_num_threads()
    if type(count) is int and 0 < count <= 4096:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _largest_difference(run: StoredRun, result: RunResult) -> float:
    """Returns the largest relative difference of any series or summary number; inf if something is missing or added."""
    pairs: list[tuple[Any, Any]] = []
    if run.series.keys() != result.series.keys() or run.summary.keys() != result.summary.keys():
        return math.inf
    for name, entry in run.series.items():
        other = result.series[name]
        if list(entry.sites or ()) != list(other.sites or ()):
            return math.inf
        pairs += [(entry.value, other.value), (entry.step, other.step)]
    stored, recomputed = plain(dict(run.summary)), plain(dict(result.summary))
    for name, value in stored.items():
        if all(isinstance(one, float | int) and not isinstance(one, bool) for one in (value, recomputed[name])):
            pairs.append((value, recomputed[name]))
        elif value != recomputed[name]:
            return math.inf
    return max((_relative(stored, other) for stored, other in pairs), default=0.0)


def _relative(stored: Any, other: Any) -> float:
    """Returns the largest difference over the first array's largest magnitude; inf if shapes or infinities differ."""
    first, second = (np.asarray(one, dtype=np.float64) for one in (stored, other))
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    if first.shape != second.shape:
        return math.inf
    known = np.isfinite(first)
    if (known != np.isfinite(second)).any() or not np.array_equal(first[~known], second[~known], equal_nan=True):
        return math.inf
    scale = float(np.abs(first[known]).max(initial=0.0)) or 1.0
    return float(np.abs(first[known] - second[known]).max(initial=0.0)) / scale


def verify(
    root: str | Path, anchor: str | None = None, rerun: int = 0, studies: Iterable[Study] = (), seed: int | None = None
) -> list[CheckResult]:
    """Checks whether a directory of runs is intact and consistent, and computes ``rerun`` random runs again.

    Args:
        root: the directory of the runs.
        anchor: the digest of a registration that was published; it must be in the log.
        rerun: how many finished runs to compute again and compare.
        studies: user-defined studies whose code may be run for that.
        seed: the seed for choosing the runs; default: at random.
    """
    archive = Archive.open(root).checked()
    if not archive.store.runs and not archive.damaged:
        raise KymographError(f"{root} contains no runs; name a directory of runs")
    history = History(archive.log)
    findings = [_log(archive), *_records(archive), _heads(archive), *_plans(archive, history)]
    findings += [*_declarations(archive, history), *_designs(archive, history)]
    if anchor is not None:
        findings.append(_anchored(archive, anchor))
    if rerun < 0:
        raise KymographError(f"the number of runs to compute again must be at least 0, not {rerun}")
    if rerun:
        findings += computed_again(archive, rerun, {study.name: study for study in studies}, seed)
    return findings


def verify_bundle(
    path: str | Path, anchor: str | None = None, rerun: int = 0, studies: Iterable[Study] = (), seed: int | None = None
) -> list[CheckResult]:
    """Checks a bundle as `verify` checks a directory; code in it is only run if ``rerun`` asks for it."""
    if not is_file(path):
        raise KymographError(f"there is no directory or bundle {path}")
    with unpacked(path) as bundle:
        detail = "; ".join(bundle.problems[:5]) or f"digest {bundle.digest[:SHORT]}"
        findings = [CheckResult("the bundle", not bundle.problems, detail)]
        packed = []
        if rerun and not bundle.problems:
            for name, code in bundle.code.items():
                try:
                    packed.append(code.load())
                except KymographError as error:
                    findings.append(CheckResult(f"the code of {name}", False, str(error)))
        return [*findings, *verify(bundle.runs, anchor, rerun, [*packed, *studies], seed)]


def _log(archive: Archive) -> CheckResult:
    log, problems = archive.log, log_problems(archive.log)
    if not log.entries and not problems:
        return CheckResult("the log", False, "missing: these runs are from before the log, or it was deleted")
    if problems:
        return CheckResult("the log", False, "; ".join(problems))
    heads = ", ".join(head[:SHORT] for head in log.heads)
    claims = {name for entry in log.of_kind(REGISTRATION) for name in entry.content["claims"]}
    entries = counted(len(log.entries), "entry", "entries")
    return CheckResult("the log", True, f"{entries}, {counted(len(claims), 'registered claim')}, head {heads}")


def _records(archive: Archive) -> list[CheckResult]:
    wrong = [CheckResult("a record", False, run.reason) for run in archive.damaged]
    wrong += [CheckResult("a directory", False, reason) for reason in archive.unreadable]
    for run in archive.store:
        try:
            run.check_network()
        except KymographError as error:
            wrong.append(
                CheckResult("a trained network", False, str(error).replace(str(run.directory), run.directory.name))
            )
    return wrong or [CheckResult("the records", True, f"{len(archive.store)} runs match their checksums")]


def _heads(archive: Archive) -> CheckResult:
    silent = [run for run in archive.store if run.log_heads is None]
    astray = [run for run in archive.store if set(run.log_heads or ()) - set(archive.log.entries)]
    if astray:
        return CheckResult("the runs' log entries", False, f"{len(astray)} runs refer to entries that are missing")
    detail = f"{len(silent)} runs are from before the log" if silent else ""
    return CheckResult("the runs' log entries", not silent, detail)


def _plans(archive: Archive, history: History) -> list[CheckResult]:
    listed, ended = {run.id for run in archive.planned}, {run.id for run in archive.store}
    absent = [run for run in archive.planned if run.id not in ended and run.id not in history.abandoned]
    codes = current_code(
        [*(run.spec for run in archive.store), *archive.planned, *history.planned.values()], archive.declarations
    )
    missing = [run for run in absent if run.study not in codes or codes[run.study].made(run)]
    unplanned = [run for run in archive.store if run.id not in listed]
    return [
        CheckResult(
            "planned runs", not missing, f"{counted(len(missing), 'has', 'have')} not ended" if missing else ""
        ),
        CheckResult(
            "unplanned runs",
            not unplanned,
            f"{counted(len(unplanned), 'run was', 'runs were')} never planned" if unplanned else "",
        ),
        *_notes(
            (len(absent) - len(missing), "superseded run is", "superseded runs are", "gone; verdicts still count them"),
            (
                len(history.abandoned.keys() & history.planned.keys()),
                "planned run was",
                "planned runs were",
                f"abandoned ({'; '.join(_reasons(history)[:3])})",
            ),
            (len(history.replaced), "run was", "runs were", "recorded again"),
        ),
    ]


def _notes(*counts: tuple[int, str, str, str]) -> list[CheckResult]:
    return [
        CheckResult(f"{counted(count, one, many)} {what}", True, note=True)
        for count, one, many, what in counts
        if count
    ]


def _reasons(history: History) -> list[str]:
    """Returns why planned runs were abandoned, each reason once."""
    return list(dict.fromkeys(reason for run, reason in history.abandoned.items() if run in history.planned))


def _declarations(archive: Archive, history: History) -> list[CheckResult]:
    found = []
    for study in dict.fromkeys([*archive.declarations, *(run.study for run in history.planned.values())]):
        logged = logged_declarations(archive.log, study)
        same = not logged or declaration_digest(archive.root / slug(study)) in logged
        found.append(
            CheckResult(f"the declaration of {study}", same, "" if same else "changed or deleted since it was logged")
        )
    return found


def _designs(archive: Archive, history: History) -> list[CheckResult]:
    """Compares runs and registrations with the designs that were registered first."""
    found: list[CheckResult] = []
    for study in dict.fromkeys(run.study for run in history.planned.values()):
        known = [*registrations(archive.log, study), *registrations(archive.log, OWN_STUDY)]
        found += [
            CheckResult(f"the registrations of {study}", False, text) for text in conflicts(known, study, archive.log)
        ]
        first = binding(known, study, archive.log)
        study_runs = [run for run in archive.store if run.study == study]
        declared = archive.declarations.get(study, Declaration(study))
        finished = [run for run in study_runs if run.status == "finished"]
        tuned = tuned_arms(None if first is None else first.terms, declared, finished, archive.root, history)
        found += tuning_findings(study, tuned)
        if first is None:
            continue
        settings = with_chosen(first.terms.settings_given(declared.defaults), tuned)
        wanted = {(name, repr(value)) for one in known for where in _wheres(one) for name, value in where.items()}
        other = [
            run
            for run in study_runs
            if any(
                (name, repr(run.config.get(name))) not in wanted for name in differing(run.config, settings.of(run.arm))
            )
        ]
        late = sum(
            len(one.claims) for one in known if one.study == study and binding([one], study, archive.log) is None
        )
        statements = family(known)
        found += _notes(
            (
                sum(run.seed not in first.terms.seeds for run in study_runs),
                f"run of {study} has",
                f"runs of {study} have",
                "seeds beyond the registered ones",
            ),
            (len(other), f"run of {study} has", f"runs of {study} have", "other settings than registered"),
            (late, f"claim about {study} was", f"claims about {study} were", "registered after its runs"),
            (
                len(statements) - len({name for name, _ in statements}),
                f"claim about {study} was",
                f"claims about {study} were",
                "changed and registered again",
            ),
        )
    return found


def _wheres(one: Registration) -> list[Mapping[str, Any]]:
    """Returns the settings that registered claims themselves ask for."""
    sides = [content.get(side) for content in one.claims.values() for side in ("left", "right")]
    return [side["where"] for side in sides if isinstance(side, dict) and isinstance(side.get("where"), dict)]


def _anchored(archive: Archive, anchor: str) -> CheckResult:
    found = [name for name in archive.log.entries if len(anchor) >= 8 and name.startswith(anchor.lower())]
    return CheckResult(f"the anchor {anchor}", len(found) == 1, "" if found else "no entry of the log has this digest")


def all_hold(findings: Sequence[CheckResult]) -> bool:
    """Returns whether every finding holds."""
    return all(finding.holds for finding in findings)
