"""What a log says about runs: which were planned, abandoned, replaced or superseded, and what the studies declared.

Every sweep is logged before its first run starts, as an entry of kind ``sweep`` that lists its runs. So a planned seed
that is missing differs from one that was never planned, and counts even after its sweep was shortened. Entries of kind
``abandoned`` name runs that were given up, and why; entries of kind ``reinstated`` name abandoned runs that were taken
back, and why; entries of kind ``replaced`` name finished runs that were recorded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT, file_digest
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import Declaration
from kymograph._runs.log import Entry, Log
from kymograph._runs.spec import RunSpec
from kymograph._streams import MAX_SEED

SWEEP, ABANDONED, REINSTATED, REPLACED = "sweep", "abandoned", "reinstated", "replaced"


class History:
    """What a log says about runs; it follows the log as entries are appended."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._generation, self._seen = log.generation, 0
        self._clear()

    def _clear(self) -> None:
        self._planned: dict[str, RunSpec] = {}
        self._sweeps: dict[tuple[str, str, int, str], list[str]] = {}
        self._declared: dict[str, set[str | None]] = {}
        self._given_up: list[Entry] = []
        self._taken_back: list[Entry] = []
        self._abandoned: dict[str, str] = {}
        self._reinstated: dict[str, Reinstatement] = {}
        self._replaced: Counter[str] = Counter()

    def _follow(self) -> None:
        """Takes in the entries that are new; an invalid one, which is a problem of the log, is left out."""
        if self._generation != self.log.generation:
            self._generation, self._seen = self.log.generation, 0
            self._clear()
        fresh = self.log.order[self._seen :]
        self._seen += len(fresh)
        for entry in fresh:
            if entry.kind == SWEEP:
                self._take_sweep(entry)
            elif entry.kind == ABANDONED:
                self._given_up.append(entry)
            elif entry.kind == REINSTATED:
                self._taken_back.append(entry)
            elif entry.kind == REPLACED:
                self._replaced[str(entry.content.get("run"))] += 1

        if any(entry.kind in (ABANDONED, REINSTATED) for entry in fresh):
            self._settle_abandoned()

    def _settle_abandoned(self) -> None:
        """Decides which runs are abandoned, and which were taken back.

        An entry takes back what came before it in the graph of the log. Of two entries that processes wrote at the same
        time, neither came first, so the run stays abandoned.
        """
        self._abandoned, self._reinstated = {}, {}
        runs_of = {back.hash: set(map(str, _named_runs(back))) for back in self._taken_back}
        undone: dict[str, list[tuple[Entry, list[Entry]]]] = {}
        for entry in self._given_up:
            after = [back for back in self._taken_back if self.log.precedes(entry.hash, back.parents)]
            for run in map(str, _named_runs(entry)):
                undoing = [back for back in after if run in runs_of[back.hash]]
                undone.setdefault(run, []).append((entry, undoing))
        for run, times in undone.items():
            standing = [entry for entry, undoing in times if not undoing]
            if standing:
                self._abandoned[run] = _reason(standing[-1])
            else:
                last, backs = times[-1]
                self._reinstated[run] = Reinstatement(
                    _reason(last),
                    _reason(backs[-1]),
                    frozenset(back.hash for _, undoing in times for back in undoing),
                    all(run not in _finished_runs(entry) for entry, _ in times),
                )

    def _take_sweep(self, entry: Entry) -> None:
        study, declared = entry.content.get("study"), entry.content.get("declaration")
        if isinstance(study, str) and isinstance(declared, str | None):
            self._declared.setdefault(study, set()).add(declared)
        try:
            specs = _sweep_runs(entry.content)
        except ValueError:
            return
        for spec in specs:
            self._planned.setdefault(spec.id, spec)
            self._sweeps.setdefault(code_free_key(spec), []).append(entry.hash)

    @property
    def planned(self) -> dict[str, RunSpec]:
        """Every run that a logged sweep planned, by id, in the order of the log."""
        self._follow()
        return self._planned

    @property
    def sweeps(self) -> Mapping[tuple[str, str, int, str], Sequence[str]]:
        """The hashes of the log entries of all sweeps that planned a run, by its `code_free_key`."""
        self._follow()
        return self._sweeps

    @property
    def abandoned(self) -> Mapping[str, str]:
        """The reason why each abandoned run was given up, by run id; runs that were reinstated are not among them."""
        self._follow()
        return self._abandoned

    @property
    def reinstated(self) -> Mapping[str, Reinstatement]:
        """Every run that was abandoned and taken back, and is not abandoned now, by run id."""
        self._follow()
        return self._reinstated

    def seen_before_reinstated(self, run: str, started: Sequence[str] | None) -> bool:
        """Returns whether the results of a reinstated run may have been seen before it was taken back.

        ``started``: the heads of the log when the run started. Its results cannot have been seen if it had none when it
        was abandoned, and was started after it was taken back.
        """
        found = self.reinstated[run]
        return not (found.without_results and all(self.log.precedes(name, started or ()) for name in found.entries))

    @property
    def replaced(self) -> Mapping[str, int]:
        """How often each run was recorded again, by id."""
        self._follow()
        return self._replaced

    def declarations(self, study: str) -> Collection[str | None]:
        """Returns the digests of a study's logged declarations."""
        self._follow()
        return self._declared.get(study, set())


@dataclass(frozen=True)
class Reinstatement:
    """Why a run was abandoned and taken back."""

    abandoned_because: str
    reinstated_because: str
    entries: frozenset[str]
    """The hashes of the log entries that took it back."""
    without_results: bool
    """Whether the run was not finished whenever it was abandoned."""

    def __str__(self) -> str:
        return f"abandoned ({self.abandoned_because}) and taken back ({self.reinstated_because})"


def code_free_key(spec: RunSpec) -> tuple[str, str, int, str]:
    """Returns what identifies a run regardless of the code that computes it: study, arm, seed and settings."""
    return spec.study, spec.arm, spec.seed, spec.settings_text


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
    elif entry.kind in (ABANDONED, REINSTATED):
        ids, finished = _named_runs(entry), content.get("finished", [])
        if not ids or not all(isinstance(text, str) for text in (*ids, content.get("reason"))):
            raise ValueError("it names no runs, or no reason")
        if not isinstance(finished, list) or not all(run in ids for run in finished):
            raise ValueError("it names finished runs that are not among its runs")
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


def _named_runs(entry: Entry) -> list[Any]:
    ids = entry.content.get("runs")
    return ids if isinstance(ids, list) else []


def _reason(entry: Entry) -> str:
    return str(entry.content.get("reason", ""))


def _finished_runs(entry: Entry) -> list[Any]:
    """Returns which of its runs had results when they were abandoned; earlier versions did not log it: any may have."""
    ids = entry.content.get("finished")
    return ids if isinstance(ids, list) else _named_runs(entry)


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
