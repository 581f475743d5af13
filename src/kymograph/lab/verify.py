"""Checking a directory of runs: its log, its records, its plan and its registrations, and some runs computed again."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kymograph.claims import registration
from kymograph.claims.logged import REGISTRATION
from kymograph.errors import KymographError
from kymograph.lab.bundle import unpacked
from kymograph.runs.archive import Archive
from kymograph.runs.history import declaration_digest, logged_declarations, logged_runs
from kymograph.runs.log import SHORT
from kymograph.runs.provenance import hardware, versions
from kymograph.runs.record import RunResult
from kymograph.runs.spec import slug
from kymograph.runs.stored import StoredRun
from kymograph.studies.base import Study
from kymograph.studies.loading import registered_study
from kymograph.sweep.compute import Workplace

TOLERANCE = 1e-3
"""How far, relative to its largest value, a series computed on another machine or with other versions may be off."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    what: str
    holds: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{'ok' if self.holds else 'WRONG':<6} {self.what}" + (f": {self.detail}" if self.detail else "")


def verify(
    root: str | Path, anchor: str | None = None, rerun: int = 0, studies: Iterable[Study] = (), seed: int | None = None
) -> list[Finding]:
    """Checks what a directory says about itself, and computes ``rerun`` randomly chosen runs again.

    Args:
        root: the directory of the runs.
        anchor: the digest of a registration that was published; it must be in the log.
        rerun: how many finished runs to compute again and compare.
        studies: user-defined studies whose code may be run for that.
        seed: chooses the runs; default: at random.
    """
    archive = Archive.open(root).checked()
    if not archive.store.runs and not archive.damaged:
        raise KymographError(f"{root} holds no run; name a directory of runs")
    findings = [_log(archive), *_records(archive), _heads(archive), *_plans(archive), *_declarations(archive)]
    findings.append(_registered(archive))
    if anchor is not None:
        findings.append(_anchored(archive, anchor))
    if rerun:
        findings += _computed_again(archive, rerun, {study.name: study for study in studies}, seed)
    return findings


def verify_bundle(
    path: str | Path, anchor: str | None = None, rerun: int = 0, studies: Iterable[Study] = (), seed: int | None = None
) -> list[Finding]:
    """Checks a bundle as `verify` checks a directory; code in it is only run if ``rerun`` asks for it."""
    if not Path(path).is_file():
        raise KymographError(f"there is no directory or bundle {path}")
    with unpacked(path) as bundle:
        whole = Finding("the bundle", not bundle.problems, "; ".join(bundle.problems[:5]))
        packed = [code.load() for code in bundle.code.values()] if rerun and not bundle.problems else []
        return [whole, *verify(bundle.runs, anchor, rerun, [*packed, *studies], seed)]


def _log(archive: Archive) -> Finding:
    log = archive.log
    if not log.entries and not log.problems:
        return Finding("the log", False, "there is none: these runs are from before the log, or it was deleted")
    heads = ", ".join(head[:SHORT] for head in log.heads)
    return Finding("the log", not log.problems, "; ".join(log.problems) or f"{len(log.entries)} entries, head {heads}")


def _records(archive: Archive) -> list[Finding]:
    wrong = [Finding("a record", False, run.reason) for run in archive.damaged]
    return wrong or [Finding("the records", True, f"{len(archive.store)} runs match their checksums")]


def _heads(archive: Archive) -> Finding:
    silent = [run for run in archive.store if run.log_heads is None]
    astray = [run for run in archive.store if set(run.log_heads or ()) - set(archive.log.entries)]
    if astray:
        return Finding("what runs say of the log", False, f"{len(astray)} runs started after entries that are gone")
    detail = f"{len(silent)} runs are from before the log" if silent else ""
    return Finding("what runs say of the log", not silent, detail)


def _plans(archive: Archive) -> list[Finding]:
    listed, ended = {run.id for run in archive.planned}, {run.id for run in archive.store}
    unlisted = [run for run in logged_runs(archive.log) if run.id not in listed]
    missing = [run for run in archive.planned if run.id not in ended]
    unplanned = [run for run in archive.store if run.id not in listed]
    return [
        Finding("the plan", not unlisted, f"{len(unlisted)} logged runs are not in it" if unlisted else ""),
        Finding("planned runs", not missing, f"{len(missing)} have not ended" if missing else ""),
        Finding("unplanned runs", not unplanned, f"{len(unplanned)} runs were never planned" if unplanned else ""),
    ]


def _declarations(archive: Archive) -> list[Finding]:
    found = []
    for study in archive.declarations:
        logged = logged_declarations(archive.log, study)
        same = not logged or declaration_digest(archive.root / slug(study)) in logged
        found.append(Finding(f"what {study} declares", same, "" if same else "changed since it was logged"))
    return found


def _registered(archive: Archive) -> Finding:
    logged = {
        name: content
        for entry in archive.log.of_kind(REGISTRATION)
        for name, content in entry.content["claims"].items()
    }
    every = [
        (name, content)
        for entry in archive.log.of_kind(REGISTRATION)
        for name, content in entry.content["claims"].items()
    ]
    stored = registration.read(archive.root)
    wrong = [name for name in stored if name in logged and (name, stored[name].get("claim")) not in every]
    strange = [name for name in stored if name not in logged] if archive.log.entries else []
    detail = f"{(wrong or strange)[0]!r} is not as it was logged" if wrong or strange else f"{len(logged)} claims"
    return Finding("the registered claims", not wrong and not strange, detail)


def _anchored(archive: Archive, anchor: str) -> Finding:
    found = [name for name in archive.log.entries if len(anchor) >= 8 and name.startswith(anchor.lower())]
    return Finding(f"the anchor {anchor}", len(found) == 1, "" if found else "no entry of the log has this digest")


def _computed_again(archive: Archive, count: int, named: dict[str, Study], seed: int | None) -> list[Finding]:
    runs = list(archive.store.finished)
    chosen = random.Random(seed).sample(runs, min(count, len(runs)))
    return [_compared(run, named.get(run.study) or registered_study(run.study)) for run in chosen]


class _Silent:
    """Follows nothing."""

    def tick(self, steps: int) -> None:
        """Ignores it."""

    def say(self, text: str) -> None:
        """Ignores it."""


def _compared(run: StoredRun, study: Study | None) -> Finding:
    what = f"{run.study}, {run.arm}, seed {run.seed}, computed again"
    if study is None:
        return Finding(what, False, "its study's code is not here; name it with --study")
    try:
        with tempfile.TemporaryDirectory() as directory:
            work = Workplace(str(run.provenance.get("device", "cpu")), _Silent(), Path(directory))
            (result,) = study.train([study.typed(run.spec)], work)
    except KymographError as error:
        return Finding(what, False, str(error))
    same_place = run.provenance.get("versions") == versions() and run.provenance.get("hardware") == hardware()
    apart = _apart(run, result)
    if apart == 0:
        return Finding(what, True, "the same bits")
    allowed = 0.0 if same_place and run.provenance.get("threads") == 1 else TOLERANCE
    how = "the same machine and versions" if same_place else "another machine or other versions"
    return Finding(what, apart <= allowed, f"off by {apart:.1e} on {how} (at most {allowed:g} allowed)")


def _apart(run: StoredRun, result: RunResult) -> float:
    """Returns the largest difference of any series, relative to the series' largest value; inf if one is missing."""
    if run.series.keys() != result.series.keys():
        return float("inf")
    worst = 0.0
    for name, entry in run.series.items():
        mine, other = (np.asarray(one.value, dtype=np.float64) for one in (entry, result.series[name]))
        if mine.shape != other.shape or (np.isnan(mine) != np.isnan(other)).any():
            return float("inf")
        if not np.array_equal(mine, other, equal_nan=True):
            scale = float(np.nanmax(np.abs(mine))) or 1.0
            worst = max(worst, float(np.nanmax(np.abs(mine - other))) / scale)
    return worst


def all_hold(findings: Sequence[Finding]) -> bool:
    """Says whether everything that was checked holds."""
    return all(finding.holds for finding in findings)
