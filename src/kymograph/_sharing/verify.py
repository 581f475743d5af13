"""Checks a directory or a bundle of runs: log, records, planned runs, registrations, and some runs computed again."""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._claims.registration import (
    REGISTRATION,
    Registration,
    binding,
    conflicts,
    family,
    log_problems,
    registrations_about,
)
from kymograph._claims.tuning import TunedArm, tuned_arms, with_chosen
from kymograph._errors import KymographError
from kymograph._io.files import is_file
from kymograph._io.processes import temporary_directory
from kymograph._io.writing import plain
from kymograph._runs.declaration import Declaration, differing
from kymograph._runs.directory import Directory
from kymograph._runs.divergence import find_divergence
from kymograph._runs.history import History, current_code, declaration_digest
from kymograph._runs.log import SHORT
from kymograph._runs.provenance import hardware, versions
from kymograph._runs.record import ARRAYS, RunResult, pack_record
from kymograph._runs.spec import slug
from kymograph._runs.storable import stored_summary
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.thin_run import ThinRun, left_out_of
from kymograph._runs.tuned import tuned_study
from kymograph._sharing.bundle import unpacked
from kymograph._studies.loading import registered_study
from kymograph._studies.study import Study
from kymograph._sweep.compute import Workplace, import_torch
from kymograph._sweep.progress import Follower
from kymograph._wording import counted

TOLERANCE = 1e-3
"""The largest deviation, relative to a series' largest value, allowed on another machine or with other versions."""


@dataclass(frozen=True)
class CheckResult:
    """One thing that was checked.

    >>> print(ky.CheckResult("the log", True, "12 entries"))
    ok     the log: 12 entries
    """

    what: str
    holds: bool
    detail: str = ""
    note: bool = False
    """Whether it is not an error, but something that verdicts show and a reader should know."""

    def __str__(self) -> str:
        word = "note" if self.note else "ok" if self.holds else "WRONG"
        return f"{word:<6} {self.what}" + (f": {self.detail}" if self.detail else "")


def verify(
    root: str | Path,
    anchor: str | None = None,
    rerun: int = 0,
    studies: Iterable[Study[Any]] = (),
    seed: int | None = None,
) -> list[CheckResult]:
    """Checks whether a directory of runs is intact and consistent, and computes ``rerun`` random runs again.

    >>> all(result.holds for result in ky.verify("runs"))
    True

    Args:
        root: the directory of the runs, or a bundle of it.
        anchor: the digest of a registration that was published; it must be in the log.
        rerun: how many finished runs to compute again and compare.
        studies: user-defined studies whose code may be run for that.
        seed: the seed for choosing the runs; default: at random.
    """
    if is_file(root):
        return verify_bundle(root, anchor, rerun, studies, seed)
    directory = Directory(root).checked()
    if not directory.store.runs and not directory.damaged:
        raise KymographError(f"{root} contains no runs; name a directory of runs")
    if rerun < 0:
        raise KymographError(f"the number of runs to compute again must be at least 0, not {rerun}")
    history = directory.history
    results = [_log(directory), *_records(directory), _log_entries(directory), *_planned_runs(directory, history)]
    results += [*_declarations(directory, history), *_designs(directory, history)]
    if anchor is not None:
        entries = [name for name in directory.log.entries if len(anchor) >= 8 and name.startswith(anchor.lower())]
        detail = "" if entries else "no entry of the log has this digest"
        results.append(CheckResult(f"the anchor {anchor}", len(entries) == 1, detail))
    if rerun:
        results += _computed_again(directory, rerun, {study.name: study for study in studies}, seed)
    return results


def verify_bundle(
    path: str | Path,
    anchor: str | None = None,
    rerun: int = 0,
    studies: Iterable[Study[Any]] = (),
    seed: int | None = None,
) -> list[CheckResult]:
    """Checks a bundle as `verify` checks a directory; code in it is only run if ``rerun`` asks for it."""
    if not is_file(path):
        raise KymographError(f"there is no directory or bundle {path}; name a directory of runs, or a bundle of one")
    with unpacked(path) as bundle:
        detail = "; ".join(bundle.problems[:5]) or f"digest {bundle.digest[:SHORT]}"
        results = [CheckResult("the bundle", not bundle.problems, detail)]
        packed = []
        if rerun and not bundle.problems:
            for name, code in bundle.code.items():
                try:
                    packed.append(code.load())
                except KymographError as error:
                    results.append(CheckResult(f"the code of {name}", False, str(error)))
        return [*results, *verify(bundle.runs, anchor, rerun, [*packed, *studies], seed)]


def all_hold(results: Sequence[CheckResult]) -> bool:
    """Returns whether everything that was checked holds."""
    return all(result.holds for result in results)


def _log(directory: Directory) -> CheckResult:
    log, problems = directory.log, log_problems(directory.log)
    if not log.entries and not problems:
        return CheckResult("the log", False, "missing")
    if problems:
        return CheckResult("the log", False, "; ".join(problems))
    heads = ", ".join(head[:SHORT] for head in log.heads)
    claims = {name for entry in log.of_kind(REGISTRATION) for name in entry.content["claims"]}
    entries = counted(len(log.entries), "entry", "entries")
    return CheckResult("the log", True, f"{entries}, {counted(len(claims), 'registered claim')}, head {heads}")


def _records(directory: Directory) -> list[CheckResult]:
    wrong = [CheckResult("a record", False, run.reason) for run in directory.damaged]
    wrong += [CheckResult("a directory", False, reason) for reason in directory.unreadable]
    for run in directory.store:
        try:
            run.check_network()
        except KymographError as error:
            detail = str(error).replace(str(run.directory), run.directory.name)
            wrong.append(CheckResult("a trained network", False, detail))
    thin = [run for run in directory.store if isinstance(run, ThinRun)]
    notes = []
    if thin:
        names = ", ".join(left_out_of(thin)) or "none"
        what = (
            f"{counted(len(thin), 'run is', 'runs are')} thin: not checked are trained networks and the series {names}"
        )
        notes = [CheckResult(what, True, note=True)]
    return [
        *(wrong or [CheckResult("the records", True, f"{len(directory.store)} runs match their checksums")]),
        *notes,
    ]


def _log_entries(directory: Directory) -> CheckResult:
    silent = [run for run in directory.store if run.log_heads is None]
    astray = directory.without_entries(directory.store)
    if astray:
        return CheckResult("the runs' log entries", False, f"{len(astray)} runs refer to entries that are missing")
    count = counted(len(silent), "run does", "runs do")
    detail = f"{count} not name the entries that came before" if silent else ""
    return CheckResult("the runs' log entries", not silent, detail)


def _planned_runs(directory: Directory, history: History) -> list[CheckResult]:
    listed, ended = {run.id for run in directory.planned}, {run.id for run in directory.store}
    absent = [run for run in directory.planned if run.id not in ended and run.id not in history.abandoned]
    specs = [*(run.spec for run in directory.store), *directory.planned, *history.planned.values()]
    codes = current_code(specs, directory.declarations)
    missing = [run for run in absent if run.study not in codes or codes[run.study].made(run)]
    unplanned = [run for run in directory.store if run.id not in listed]
    ended_not = f"{counted(len(missing), 'has', 'have')} not ended" if missing else ""
    never = f"{counted(len(unplanned), 'run was', 'runs were')} never planned" if unplanned else ""
    abandoned = history.abandoned.keys() & history.planned.keys()
    reasons = list(dict.fromkeys(reason for run, reason in history.abandoned.items() if run in history.planned))
    taken_back = [why for run, why in history.reinstated.items() if run in history.planned]
    return [
        CheckResult("planned runs", not missing, ended_not),
        CheckResult("unplanned runs", not unplanned, never),
        *_notes(
            (len(absent) - len(missing), "superseded run is", "superseded runs are", "gone; verdicts still count them"),
            (len(abandoned), "planned run was", "planned runs were", f"abandoned ({'; '.join(reasons[:3])})"),
            (len(taken_back), "planned run was", "planned runs were", "; ".join(sorted(set(map(str, taken_back)))[:3])),
            (len(history.replaced), "run was", "runs were", "recorded again"),
        ),
    ]


def _notes(*counts: tuple[int, str, str, str]) -> list[CheckResult]:
    """Returns a note for each (number, singular, plural, rest of the sentence) whose number is not 0."""
    return [
        CheckResult(f"{counted(count, singular, plural)} {rest}", True, note=True)
        for count, singular, plural, rest in counts
        if count
    ]


def _declarations(directory: Directory, history: History) -> list[CheckResult]:
    results = []
    for study in dict.fromkeys([*directory.declarations, *(run.study for run in history.planned.values())]):
        logged = history.declarations(study)
        same = not logged or declaration_digest(directory.root / slug(study)) in logged
        detail = "" if same else "changed or deleted since it was logged"
        results.append(CheckResult(f"the declaration of {study}", same, detail))
    return results


def _designs(directory: Directory, history: History) -> list[CheckResult]:
    """Compares runs and registrations with the designs that were registered first."""
    results: list[CheckResult] = []
    for study in dict.fromkeys(run.study for run in history.planned.values()):
        registered = registrations_about(directory.log, study)
        what = f"the registrations of {study}"
        results += [CheckResult(what, False, text) for text in conflicts(registered, study, directory.log)]
        first = binding(registered, study, directory.log)
        runs = [run for run in directory.store if run.study == study]
        declared = directory.declarations.get(study, Declaration(study))
        finished = [run for run in runs if run.has_results]
        tuned = tuned_arms(None if first is None else first.terms, declared, finished, directory.root, history)
        results += _tuning(study, tuned)
        if first is None:
            continue
        settings = with_chosen(first.terms.settings_given(declared.defaults), tuned)
        asked = {(name, repr(value)) for where in _wheres(registered) for name, value in where.items()}
        beyond = sum(run.seed not in first.terms.seeds for run in runs)
        other = sum(
            any((name, repr(run.config.get(name))) not in asked for name in differing(run.config, settings.of(run.arm)))
            for run in runs
        )
        late = sum(
            len(registration.claims)
            for registration in registered
            if registration.study == study and binding([registration], study, directory.log) is None
        )
        statements = family(registered)
        changed = len(statements) - len({name for name, _ in statements})
        have = (f"run of {study} has", f"runs of {study} have")
        were = (f"claim about {study} was", f"claims about {study} were")
        results += _notes(
            (beyond, *have, "seeds beyond the registered ones"),
            (other, *have, "other settings than registered"),
            (late, *were, "registered after its runs"),
            (changed, *were, "changed and registered again"),
        )
    return results


def _wheres(registered: Iterable[Registration]) -> list[Mapping[str, Any]]:
    """Returns the settings that registered claims themselves ask for."""
    claims = [claim for registration in registered for claim in registration.claims.values()]
    sides = [claim.get(side) for claim in claims for side in ("left", "right")]
    return [side["where"] for side in sides if isinstance(side, dict) and isinstance(side.get("where"), dict)]


def _tuning(study: str, tuned: Mapping[str, TunedArm]) -> list[CheckResult]:
    """Returns a failed check for every arm whose choice does not hold, and a note for each that decides nothing."""
    wrong = [arm for arm in tuned.values() if arm.fails_verification]
    results = [
        CheckResult(f"the {arm.tuned.setting} chosen for {arm.arm} in {study}", False, arm.problem) for arm in wrong
    ]
    if tuned and not wrong:
        values = [(arm.arm, arm.tuned.setting, "none" if arm.value is None else arm.value) for arm in tuned.values()]
        chosen = ", ".join(f"{arm} {setting} {value}" for arm, setting, value in values)
        results.append(CheckResult(f"the values chosen for {study}", True, f"the tuning runs call for them: {chosen}"))
    idle = [arm for arm in tuned.values() if arm.problem and not arm.fails_verification]
    return results + [CheckResult(f"{study}: {arm.problem}", True, note=True) for arm in idle]


def _computed_again(
    directory: Directory, count: int, named: Mapping[str, Study[Any]], seed: int | None
) -> list[CheckResult]:
    """Computes ``count`` randomly chosen runs again; returns how each compares with its record."""
    runs = list(directory.store.finished)
    chosen = random.Random(seed).sample(runs, min(count, len(runs)))
    owners = {run.id: tuned_study(run.study) or run.study for run in chosen}  # a study's code also makes tuning runs
    return [_compared(run, named.get(owners[run.id]) or registered_study(owners[run.id])) for run in chosen]


def _compared(run: StoredRun, study: Study[Any] | None) -> CheckResult:
    what = f"{run.study}, {run.arm}, seed {run.seed}, computed again"
    if study is None:
        return CheckResult(what, False, "its study's code is not here; name it with --study")
    try:
        with temporary_directory("verify") as directory, _threads(run.provenance.get("threads")):
            work = Workplace(str(run.provenance.get("device", "cpu")), Follower(), Path(directory))
            (result,) = study.train([study.typed(run.spec)], work)
    except KymographError as error:
        return CheckResult(what, False, str(error))
    again = find_divergence(plain(dict(result.summary)), lambda: result.series)
    if run.divergence != again and (run.states_divergence or not isinstance(run, ThinRun)):
        said, found = ("did not diverge" if one is None else str(one) for one in (run.divergence, again))
        return CheckResult(what, False, f"by its record it {said}, computed again it {found}")
    if isinstance(run, ThinRun):  # the series that were left out are compared by the digest of all of them
        packed = pack_record(run.spec, result, {})[ARRAYS]
        if hashlib.sha256(packed).hexdigest() == run.series_digest and _summary_difference(run, result) == 0:
            return CheckResult(what, True, "the same bits, by the digest of its series")
        result = replace(result, series={name: result.series[name] for name in run.series if name in result.series})
    difference = max(_series_difference(run, result), _summary_difference(run, result))
    if difference == 0 and not isinstance(run, ThinRun):
        return CheckResult(what, True, "the same bits")
    off = f"off by {difference:.1e}"
    if run.provenance.get("versions") == versions() and run.provenance.get("hardware") == hardware():
        return CheckResult(what, False, f"{off}, but must be bit-identical on the same machine and versions")
    detail = f"{off} on another machine or with other versions (at most {TOLERANCE:g} allowed)"
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


def _series_difference(run: StoredRun, result: RunResult) -> float:
    """Returns the largest relative difference of any series; inf if one is missing or added."""
    if run.series.keys() != result.series.keys():
        return math.inf
    pairs: list[tuple[Any, Any]] = []
    for name, entry in run.series.items():
        other = result.series[name]
        if list(entry.sites or ()) != list(other.sites or ()):
            return math.inf
        if entry.step.dtype.kind == "i" and not np.array_equal(entry.step, other.step):
            return math.inf  # counted, not computed; and float64 would not tell large integers apart
        pairs += [(entry.value, other.value), (entry.step, other.step)]
    return max((_relative(*pair) for pair in pairs), default=0.0)


def _summary_difference(run: StoredRun, result: RunResult) -> float:
    """Returns the largest relative difference of any summary number; inf if one is missing, added or another text."""
    if run.summary.keys() != result.summary.keys():
        return math.inf
    differences = [0.0]
    stored, recomputed = plain(dict(run.summary)), plain(stored_summary(result.summary, "summary"))
    for name, value in stored.items():
        pair = (value, recomputed[name])
        if all(isinstance(number, int) and not isinstance(number, bool) for number in pair):
            differences.append(abs(pair[0] - pair[1]) / max(abs(pair[0]), 1))  # exact, however large they are
        elif all(isinstance(number, float | int) and not isinstance(number, bool) for number in pair):
            differences.append(_relative(*pair))
        elif value != recomputed[name]:
            return math.inf
    return max(differences)


def _relative(stored: Any, other: Any) -> float:
    """Returns the largest difference over the first array's largest magnitude; inf if shapes or infinities differ."""
    first, second = np.asarray(stored, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    if first.shape != second.shape:
        return math.inf
    finite = np.isfinite(first)
    if (finite != np.isfinite(second)).any() or not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return math.inf
    scale = float(np.abs(first[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(first[finite] - second[finite]).max(initial=0.0)) / scale
