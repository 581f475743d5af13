"""What a log says about runs: which were planned, abandoned, replaced or superseded, and what the studies declared.

Every sweep is logged before its first run starts, as an entry of kind ``sweep`` that lists its runs. So a planned seed
that is missing differs from one that was never planned, and counts even after its sweep was shortened. Entries of kind
``abandoned`` name runs that were given up, and why; entries of kind ``replaced`` name finished runs that were recorded
again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT, file_digest, real_path
from kymograph._runs import log
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import Declaration
from kymograph._runs.log import Entry, Log
from kymograph._runs.spec import RunSpec, slug
from kymograph._streams import MAX_SEED

SWEEP, ABANDONED, REPLACED = "sweep", "abandoned", "replaced"


class History:
    """What a log says about runs; every answer is cached."""

    def __init__(self, history: Log) -> None:
        self.log = history

    @functools.cached_property
    def planned(self) -> dict[str, RunSpec]:
        """Every run that a logged sweep planned, by id, in the order of the log."""
        planned: dict[str, RunSpec] = {}
        for _, specs in self._sweeps:
            for spec in specs:
                planned.setdefault(spec.id, spec)
        return planned

    @functools.cached_property
    def sweeps(self) -> dict[tuple[str, str, int, str], list[str]]:
        """The hashes of the log entries of all sweeps that planned a run, by its `code_free_key`."""
        hashes: dict[tuple[str, str, int, str], list[str]] = {}
        for entry, specs in self._sweeps:
            for spec in specs:
                hashes.setdefault(code_free_key(spec), []).append(entry.hash)
        return hashes

    @functools.cached_property
    def _sweeps(self) -> list[tuple[Entry, list[RunSpec]]]:
        """Every logged sweep and its runs; an invalid entry, which is a problem of the log, is left out."""
        sweeps = []
        for entry in self.log.of_kind(SWEEP):
            try:
                sweeps.append((entry, _sweep_runs(entry.content)))
            except ValueError:
                continue
        return sweeps

    @functools.cached_property
    def abandoned(self) -> dict[str, str]:
        """The reason why each abandoned run was given up, by run id."""
        return {
            str(run): str(entry.content.get("reason", ""))
            for entry in self.log.of_kind(ABANDONED)
            for run in _abandoned_ids(entry)
        }

    @functools.cached_property
    def replaced(self) -> dict[str, int]:
        """How often each run was recorded again, by id."""
        return Counter(str(entry.content.get("run")) for entry in self.log.of_kind(REPLACED))


def code_free_key(spec: RunSpec) -> tuple[str, str, int, str]:
    """Returns what identifies a run regardless of the code that computes it: study, arm, seed and settings."""
    return spec.study, spec.arm, spec.seed, spec.settings_text


def log_sweep(root: Path, specs: Sequence[RunSpec]) -> None:
    """Logs the runs of a sweep and their study's declaration, unless both are logged already."""
    history, first = History(Log.read(root)), specs[0]
    declared = declaration_digest(root / slug(first.study))
    fresh = [spec for spec in specs if spec.id not in history.planned]
    if not fresh and declared in logged_declarations(history.log, first.study):
        return
    groups: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for spec in fresh:
        key = (spec.arm, spec.settings_text, spec.source)
        if key not in groups:
            source = {} if spec.source == first.source else {"source": spec.source}  # some arms use users' own parts
            groups[key] = {"arm": spec.arm, "config": spec.settings, "seeds": [], **source}
        groups[key]["seeds"].append(spec.seed)
    content = {"study": first.study, "version": first.version, "source": first.source, "declaration": declared,
               "runs": list(groups.values())}  # fmt: skip
    log.append(root, SWEEP, content)


def abandon(root: Path, runs: Iterable[RunSpec], reason: str) -> int:
    """Logs that ``runs`` were abandoned, and why; returns how many were not abandoned before."""
    if not any(character.isalnum() for character in reason):
        raise KymographError("say why the runs are abandoned, e.g. --reason 'the machine was needed elsewhere'")
    before = History(Log.read(root)).abandoned
    ids = [run.id for run in runs if run.id not in before]
    if ids:
        log.append(root, ABANDONED, {"runs": ids, "reason": reason.strip()})
    return len(ids)


def log_replaced(root: Path, spec: RunSpec) -> None:
    """Logs that a finished run is about to be recorded again."""
    log.append(root, REPLACED, {"run": spec.id, "study": spec.study, "arm": spec.arm, "seed": spec.seed})


def logged_declarations(history: Log, study: str) -> set[str | None]:
    """Returns the digests of a study's logged declarations."""
    sweeps = [entry.content for entry in history.of_kind(SWEEP) if entry.content.get("study") == study]
    return {content.get("declaration") for content in sweeps if isinstance(content.get("declaration"), str | None)}


def declaration_digest(directory: Path) -> str | None:
    """Returns the SHA-256 of a study's ``study.json``; None if it has none."""
    try:
        return file_digest(directory / DECLARATION, MAX_DOCUMENT, follow=False)
    except KymographError:
        return None


def check_content(entry: Entry) -> None:
    """Raises ValueError if an entry about runs lacks the content that its kind requires."""
    content = entry.content
    if entry.kind == SWEEP:
        _sweep_runs(content)
    elif entry.kind == ABANDONED:
        ids = _abandoned_ids(entry)
        if not ids or not all(isinstance(text, str) for text in (*ids, content.get("reason"))):
            raise ValueError("it names no runs, or no reason")
    elif entry.kind == REPLACED and not isinstance(content.get("run"), str):
        raise ValueError("it names no run")


def _sweep_runs(content: Mapping[str, Any]) -> list[RunSpec]:
    """Returns the runs of a logged sweep; raises ValueError if its content is invalid."""
    groups = content.get("runs")
    if not isinstance(groups, list) or not isinstance(content.get("study"), str):
        raise ValueError("it lists no runs of a study")
    if not isinstance(content.get("declaration"), str | None):
        raise ValueError("its declaration is not a digest")
    try:
        specs: list[RunSpec] = []
        for group in groups:
            seeds = group["seeds"]
            if not isinstance(seeds, list) or not all(type(seed) is int and abs(seed) <= MAX_SEED for seed in seeds):
                raise ValueError("a seed is not a 64-bit integer")
            specs += RunSpec.from_identity({"source": content["source"], **content, **group, "seed": 0}).at_seeds(seeds)
        return specs
    except (KeyError, TypeError, AttributeError):
        raise ValueError("its runs lack an arm, settings, seeds, a version or a source") from None
    except KymographError as error:
        raise ValueError(str(error)) from None


def _abandoned_ids(entry: Entry) -> list[Any]:
    ids = entry.content.get("runs")
    return ids if isinstance(ids, list) else []


def planned_runs(root: Path, history: Log | None = None) -> list[RunSpec]:
    """Returns every run ever planned below ``root``, an output directory or a study's own.

    ``history``: the log that covers ``root``, if it was read already.
    """
    planned = History(log_of(root) if history is None else history).planned.values()
    return list(planned) if is_output(root) else [run for run in planned if slug(run.study) == real_path(root).name]


def is_output(root: Path) -> bool:
    """Returns whether ``root`` is an output directory, not a study's own directory inside one that has a log."""
    return (root / log.DIRECTORY).is_dir() or not (real_path(root).parent / log.DIRECTORY).is_dir()


def log_of(root: Path) -> Log:
    """Returns the log that covers ``root``; for a study's own directory, the one next to it."""
    return Log.read(root if is_output(root) else real_path(root).parent)


@dataclass(frozen=True)
class CurrentCode:
    """The version of a study, and the sources of a user-defined one, whose runs count."""

    version: int
    sources: frozenset[str | None] | None
    """None: runs of every source count, because no current source is declared."""

    def made(self, spec: RunSpec) -> bool:
        """Returns whether this code, not an earlier one, made the run."""
        return spec.version == self.version and (self.sources is None or spec.source in self.sources)


def current_code(specs: Iterable[RunSpec], declarations: Mapping[str, Declaration]) -> dict[str, CurrentCode]:
    """Returns the current code of every study among ``specs``: as declared by its last sweep, else the newest version.

    A declaration counts only if it was stored with the runs.
    """
    versions: dict[str, int] = {}
    for spec in specs:
        versions[spec.study] = max(spec.version, versions.get(spec.study, spec.version))
    codes = {}
    for study, newest in versions.items():
        declared = declarations.get(study)
        if declared is not None and declared.stored:
            codes[study] = CurrentCode(declared.version, frozenset({declared.source, *declared.part_sources}))
        else:
            codes[study] = CurrentCode(newest, None)
    return codes


def code_words(spec: RunSpec) -> tuple[str, str]:
    """Returns what names the code that made a run, and its name: a built-in study's version, or a user's source."""
    return ("version", str(spec.version)) if spec.source is None else ("source", spec.source)
