"""What a log says about runs: which were planned, abandoned or replaced, and what the studies declared.

Entries of kind ``sweep`` list every run that a sweep planned, so that runs of a deleted or shortened plan still count
as missing. Entries of kind ``abandoned`` name runs that were given up, and why; entries of kind ``replaced`` name
finished runs that were recorded again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.foreign.files import MAX_DOCUMENT, file_digest
from kymograph.runs import log
from kymograph.runs.declaration import FILE as DECLARATION
from kymograph.runs.log import Entry, Log
from kymograph.runs.spec import RunSpec, slug
from kymograph.streams import MAX_SEED

SWEEP, ABANDONED, REPLACED = "sweep", "abandoned", "replaced"


def log_sweep(root: Path, specs: Sequence[RunSpec]) -> None:
    """Logs the runs of a sweep and their study's declaration, unless both are logged already."""
    history = Log.read(root)
    known = {run.id for run in logged_runs(history)}
    fresh = [spec for spec in specs if spec.id not in known]
    study = specs[0].study
    declared = declaration_digest(root / slug(study))
    if not fresh and declared in logged_declarations(history, study):
        return
    first = specs[0]
    groups: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for spec in fresh:
        key = (spec.arm, spec.settings_text, spec.source)
        if key not in groups:
            own = {} if spec.source == first.source else {"source": spec.source}  # only some arms use users' own parts
            groups[key] = {"arm": spec.arm, "config": spec.settings, "seeds": [], **own}
        groups[key]["seeds"].append(spec.seed)
    content = {"study": study, "version": first.version, "source": first.source, "declaration": declared,
               "runs": list(groups.values())}  # fmt: skip
    log.append(root, SWEEP, content)


def logged_runs(history: Log) -> list[RunSpec]:
    """Returns every run that a logged sweep planned, in the order of the log."""
    found: dict[str, RunSpec] = {}
    for entry in history.of_kind(SWEEP):
        for spec in _runs_of(entry.content):
            found.setdefault(spec.id, spec)
    return list(found.values())


def code_free_key(spec: RunSpec) -> tuple[str, str, int, str]:
    """Returns what identifies a run regardless of the code that computes it: study, arm, seed and settings."""
    return spec.study, spec.arm, spec.seed, spec.settings_text


class History:
    """What a log says about runs; every answer is cached."""

    def __init__(self, history: Log) -> None:
        self.log = history

    @functools.cached_property
    def planned(self) -> dict[str, RunSpec]:
        """Every run that a logged sweep planned, by id."""
        return {run.id: run for run in logged_runs(self.log)}

    @functools.cached_property
    def abandoned(self) -> dict[str, str]:
        """The reason why each abandoned run was given up, by run id."""
        return abandoned_runs(self.log)

    @functools.cached_property
    def replaced(self) -> dict[str, int]:
        """How often each run was recorded again, by id."""
        return Counter(str(entry.content.get("run")) for entry in self.log.of_kind(REPLACED))

    @functools.cached_property
    def sweeps(self) -> dict[tuple[str, str, int, str], list[str]]:
        """The hashes of the log entries of all sweeps that planned a run, by its `code_free_key`."""
        found: dict[tuple[str, str, int, str], list[str]] = {}
        for entry in self.log.of_kind(SWEEP):
            for spec in _runs_of(entry.content):
                found.setdefault(code_free_key(spec), []).append(entry.hash)
        return found


def logged_declarations(history: Log, study: str) -> set[str | None]:
    """Returns the digests of a study's logged declarations."""
    found = [entry.content for entry in history.of_kind(SWEEP) if entry.content.get("study") == study]
    return {content.get("declaration") for content in found if isinstance(content.get("declaration"), str | None)}


def declaration_digest(directory: Path) -> str | None:
    """Returns the SHA-256 of a study's ``study.json``; None if it has none."""
    try:
        return file_digest(directory / DECLARATION, MAX_DOCUMENT, follow=False)
    except KymographError:
        return None


def abandon(root: Path, runs: Iterable[RunSpec], reason: str) -> int:
    """Logs that ``runs`` were abandoned, and why; returns how many were not abandoned before."""
    if not any(character.isalnum() for character in reason):
        raise KymographError("say why the runs are abandoned, e.g. --reason 'the machine was needed elsewhere'")
    before = abandoned_runs(Log.read(root))
    ids = [run.id for run in runs if run.id not in before]
    if ids:
        log.append(root, ABANDONED, {"runs": ids, "reason": reason.strip()})
    return len(ids)


def log_replaced(root: Path, spec: RunSpec) -> None:
    """Logs that a finished run is about to be recorded again."""
    log.append(root, REPLACED, {"run": spec.id, "study": spec.study, "arm": spec.arm, "seed": spec.seed})


def abandoned_runs(history: Log) -> dict[str, str]:
    """Returns the reason why each abandoned run was given up, by run id."""
    return {
        str(run): str(entry.content.get("reason", ""))
        for entry in history.of_kind(ABANDONED)
        for run in _list_field(entry.content, "runs")
    }


def sweep_runs(content: Mapping[str, Any]) -> list[RunSpec]:
    """Returns the runs of a logged sweep; raises ValueError if its content is invalid."""
    groups = content.get("runs")
    if not isinstance(groups, list) or not isinstance(content.get("study"), str):
        raise ValueError("it lists no runs of a study")
    if not isinstance(content.get("declaration"), str | None):
        raise ValueError("its declaration is not a digest")
    try:
        found: list[RunSpec] = []
        for group in groups:
            seeds = group["seeds"]
            if not isinstance(seeds, list) or not all(type(seed) is int and abs(seed) <= MAX_SEED for seed in seeds):
                raise ValueError("a seed is not a 64-bit integer")
            found += RunSpec.from_identity({"source": content["source"], **content, **group, "seed": 0}).at_seeds(seeds)
        return found
    except (KeyError, TypeError, AttributeError):
        raise ValueError("its runs lack an arm, settings, seeds, a version or a source") from None
    except KymographError as error:
        raise ValueError(str(error)) from None


def check_content(entry: Entry) -> None:
    """Raises ValueError if an entry about runs lacks the content that its kind requires."""
    content = entry.content
    if entry.kind == SWEEP:
        sweep_runs(content)
    elif entry.kind == ABANDONED:
        texts = _list_field(content, "runs")
        if not texts or not all(isinstance(text, str) for text in (*texts, content.get("reason"))):
            raise ValueError("it names no runs, or no reason")
    elif entry.kind == REPLACED and not isinstance(content.get("run"), str):
        raise ValueError("it names no run")


def _runs_of(content: Mapping[str, Any]) -> list[RunSpec]:
    """Returns the runs of a logged sweep; none if it is invalid, which is reported as a problem of the log."""
    try:
        return sweep_runs(content)
    except ValueError:
        return []


def _list_field(content: Mapping[str, Any], name: str) -> list[Any]:
    """Returns the list ``name`` of an entry; empty if it is not a list."""
    found = content.get(name)
    return found if isinstance(found, list) else []
