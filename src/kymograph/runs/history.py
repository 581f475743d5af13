"""What a log says about runs: which were planned, abandoned, replaced or superseded, and what the studies declared.

[runs.history] What a log says about runs: which were planned, abandoned or replaced, and what the studies declared.

Entries of kind ``sweep`` list every run that a sweep planned, so that runs of a deleted or shortened plan still count
as missing. Entries of kind ``abandoned`` name runs that were given up, and why; entries of kind ``replaced`` name
finished runs that were recorded again.

[runs.planned] Which runs were ever planned: those listed by the sweeps in the log.

Every sweep is logged before its first run starts, so that a planned seed that is missing can be distinguished from one
that was never planned. Directories that predate the log have a ``STUDY/plan.json`` instead, and some have both: the
plan is then the union. Such files are no longer written, because keeping them in step with the log took a lock that not
every shared file system supports.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.io.documents import parse_json
from kymograph.io.files import MAX_DOCUMENT, MAX_TABLE, file_digest, matching, read_bytes, real_path
from kymograph.io.writing import check_schema
from kymograph.runs import log
from kymograph.runs.declaration import FILE as DECLARATION
from kymograph.runs.declaration import Declaration
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


PLAN = "plan.json"


def read_plan(root: Path) -> list[RunSpec]:
    """Returns every run ever planned below ``root``, an output directory or a study's own."""
    return planned_runs(root, History(log_of(root)))


def planned_runs(root: Path, history: History) -> list[RunSpec]:
    """Returns every run ever planned below ``root``: those in plan files, then those in the log."""
    listed = [run for path in matching(root, PLAN, f"*/{PLAN}") for run in read_plan_file(path)]
    own = None if is_output(root) else real_path(root).name
    logged = (
        history.planned if own is None else {i: run for i, run in history.planned.items() if slug(run.study) == own}
    )
    return list(({run.id: run for run in listed} | logged).values()) if listed else list(logged.values())


def is_output(root: Path) -> bool:
    """Returns whether ``root`` is an output directory, not a study's own directory inside one that has a log."""
    return (root / log.DIRECTORY).is_dir() or not (real_path(root).parent / log.DIRECTORY).is_dir()


def log_of(root: Path) -> Log:
    """Returns the log that covers ``root``; for a study's own directory, the one next to it."""
    return Log.read(root if is_output(root) else real_path(root).parent)


def read_plan_file(path: Path) -> list[RunSpec]:
    """Returns the runs of one plan file, in the order they were planned; raises if it is damaged, edited or newer."""
    try:
        content = parse_json(read_bytes(path, MAX_TABLE, follow=False))
        schema, entries = content["schema"], content["runs"]
        if not isinstance(schema, int):
            raise TypeError("schema")
        check_schema(schema, path)
        return [_entry(entry) for entry in entries]
    except (ValueError, KeyError, TypeError):
        raise KymographError(f"{path} is cut off or edited; {_remedy(path)}") from None


def _remedy(path: Path) -> str:
    """Returns what to do about a damaged plan; deleting it would lose runs that only it lists."""
    if (real_path(path).parent.parent / log.DIRECTORY).is_dir():
        return "restore it from a copy, or rename it: the log lists what was planned since it began"
    return "restore it from a copy, since it is the only list of what was planned"


def _entry(entry: Mapping[str, Any]) -> RunSpec:
    """Returns one entry; raises ValueError unless its id is the hash of the rest."""
    try:
        run = RunSpec.from_identity({**entry, "config": dict(entry["config"])})
    except KymographError as error:
        raise ValueError(str(error)) from None
    if type(run.seed) is not int or run.id != entry["id"]:
        raise ValueError("its id does not match the run")
    return run


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
    """Returns the current code of every study among ``specs``, as declared by its last sweep.

    Without a stored declaration, as in directories that predate declarations, it is the newest version.
    """
    versions: dict[str, int] = {}
    for spec in specs:
        versions[spec.study] = max(spec.version, versions.get(spec.study, spec.version))
    found = {}
    for study, newest in versions.items():
        declared = declarations.get(study)
        if declared is not None and declared.stored:
            found[study] = CurrentCode(declared.version, frozenset({declared.source, *declared.part_sources}))
        else:
            found[study] = CurrentCode(newest, None)
    return found


def code_text(spec: RunSpec) -> str:
    """Returns the code that made a run, in words."""
    return f"version {spec.version}" if spec.source is None else f"source {spec.source}"
