"""Checking a directory of runs: its log, records, plan and registrations, and some runs computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph.claims.files import OWN_STUDY
from kymograph.claims.log_problems import log_problems
from kymograph.claims.logged import REGISTRATION, Registration, binding, conflicts, family, registrations
from kymograph.claims.world import differing
from kymograph.errors import KymographError
from kymograph.foreign.files import is_file
from kymograph.lab.bundle import unpacked
from kymograph.lab.finding import Finding
from kymograph.lab.recompute import computed_again
from kymograph.lab.tuning_evidence import tuned_arms, with_chosen
from kymograph.lab.verify_tuning import tuning_findings
from kymograph.runs.archive import Archive
from kymograph.runs.declaration import Declaration
from kymograph.runs.history import History, declaration_digest, logged_declarations
from kymograph.runs.log import SHORT
from kymograph.runs.spec import slug
from kymograph.runs.superseded import current_code
from kymograph.studies.base import Study
from kymograph.wording import counted


def verify(
    root: str | Path, anchor: str | None = None, rerun: int = 0, studies: Iterable[Study] = (), seed: int | None = None
) -> list[Finding]:
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
) -> list[Finding]:
    """Checks a bundle as `verify` checks a directory; code in it is only run if ``rerun`` asks for it."""
    if not is_file(path):
        raise KymographError(f"there is no directory or bundle {path}")
    with unpacked(path) as bundle:
        detail = "; ".join(bundle.problems[:5]) or f"digest {bundle.digest[:SHORT]}"
        findings = [Finding("the bundle", not bundle.problems, detail)]
        packed = []
        if rerun and not bundle.problems:
            for name, code in bundle.code.items():
                try:
                    packed.append(code.load())
                except KymographError as error:
                    findings.append(Finding(f"the code of {name}", False, str(error)))
        return [*findings, *verify(bundle.runs, anchor, rerun, [*packed, *studies], seed)]


def _log(archive: Archive) -> Finding:
    log, problems = archive.log, log_problems(archive.log)
    if not log.entries and not problems:
        return Finding("the log", False, "missing: these runs are from before the log, or it was deleted")
    if problems:
        return Finding("the log", False, "; ".join(problems))
    heads = ", ".join(head[:SHORT] for head in log.heads)
    claims = {name for entry in log.of_kind(REGISTRATION) for name in entry.content["claims"]}
    entries = counted(len(log.entries), "entry", "entries")
    return Finding("the log", True, f"{entries}, {counted(len(claims), 'registered claim')}, head {heads}")


def _records(archive: Archive) -> list[Finding]:
    wrong = [Finding("a record", False, run.reason) for run in archive.damaged]
    wrong += [Finding("a directory", False, reason) for reason in archive.unreadable]
    for run in archive.store:
        try:
            run.check_network()
        except KymographError as error:
            wrong.append(
                Finding("a trained network", False, str(error).replace(str(run.directory), run.directory.name))
            )
    return wrong or [Finding("the records", True, f"{len(archive.store)} runs match their checksums")]


def _heads(archive: Archive) -> Finding:
    silent = [run for run in archive.store if run.log_heads is None]
    astray = [run for run in archive.store if set(run.log_heads or ()) - set(archive.log.entries)]
    if astray:
        return Finding("the runs' log entries", False, f"{len(astray)} runs refer to entries that are missing")
    detail = f"{len(silent)} runs are from before the log" if silent else ""
    return Finding("the runs' log entries", not silent, detail)


def _plans(archive: Archive, history: History) -> list[Finding]:
    listed, ended = {run.id for run in archive.planned}, {run.id for run in archive.store}
    absent = [run for run in archive.planned if run.id not in ended and run.id not in history.abandoned]
    codes = current_code(
        [*(run.spec for run in archive.store), *archive.planned, *history.planned.values()], archive.declarations
    )
    missing = [run for run in absent if run.study not in codes or codes[run.study].made(run)]
    unplanned = [run for run in archive.store if run.id not in listed]
    return [
        Finding("planned runs", not missing, f"{counted(len(missing), 'has', 'have')} not ended" if missing else ""),
        Finding(
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


def _notes(*counts: tuple[int, str, str, str]) -> list[Finding]:
    return [
        Finding(f"{counted(count, one, many)} {what}", True, note=True) for count, one, many, what in counts if count
    ]


def _reasons(history: History) -> list[str]:
    """Returns why planned runs were abandoned, each reason once."""
    return list(dict.fromkeys(reason for run, reason in history.abandoned.items() if run in history.planned))


def _declarations(archive: Archive, history: History) -> list[Finding]:
    found = []
    for study in dict.fromkeys([*archive.declarations, *(run.study for run in history.planned.values())]):
        logged = logged_declarations(archive.log, study)
        same = not logged or declaration_digest(archive.root / slug(study)) in logged
        found.append(
            Finding(f"the declaration of {study}", same, "" if same else "changed or deleted since it was logged")
        )
    return found


def _designs(archive: Archive, history: History) -> list[Finding]:
    """Compares runs and registrations with the designs that were registered first."""
    found: list[Finding] = []
    for study in dict.fromkeys(run.study for run in history.planned.values()):
        known = [*registrations(archive.log, study), *registrations(archive.log, OWN_STUDY)]
        found += [
            Finding(f"the registrations of {study}", False, text) for text in conflicts(known, study, archive.log)
        ]
        first = binding(known, study, archive.log)
        study_runs = [run for run in archive.store if run.study == study]
        declared = archive.declarations.get(study, Declaration(study))
        finished = [run for run in study_runs if run.status == "finished"]
        tuned = tuned_arms(None if first is None else first.plan, declared, finished, archive.root, history)
        found += tuning_findings(study, tuned)
        if first is None:
            continue
        settings = with_chosen(first.plan.settings_given(declared.defaults), tuned)
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
                sum(run.seed not in first.plan.seeds for run in study_runs),
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


def _anchored(archive: Archive, anchor: str) -> Finding:
    found = [name for name in archive.log.entries if len(anchor) >= 8 and name.startswith(anchor.lower())]
    return Finding(f"the anchor {anchor}", len(found) == 1, "" if found else "no entry of the log has this digest")


def all_hold(findings: Sequence[Finding]) -> bool:
    """Returns whether every finding holds."""
    return all(finding.holds for finding in findings)
