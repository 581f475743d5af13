"""Judging a directory of runs: every study's registered claims, one's own, or runs from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims import registration
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.decide import LEAST_SEEDS, could_be_told
from kymograph.claims.files import ForeignRun, read_claims, read_csv_arm
from kymograph.claims.judge import Expected, World, asked, quantities
from kymograph.claims.judge import judge as judge_study
from kymograph.claims.verdict import Verdict, Verdicts
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.files import make_directory
from kymograph.runs.ledger import PlannedRun, read_plan
from kymograph.runs.record import STATUS
from kymograph.runs.spec import slug
from kymograph.runs.store import Store, StoredRun
from kymograph.statistics.sign_flips import smallest_p
from kymograph.studies.base import BUILT_IN, Study, stored_study


def judge(
    runs: Store | str | Path,
    claims: Iterable[Claim] | str | Path | None = None,
    where: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
) -> Verdicts:
    """Judges the claims of every study that has runs in a store or directory; needs no torch.

    Args:
        runs: a store, or the directory of the runs. A directory is judged whole: what was planned and is missing, or
            was changed since it was written, makes a claim INVALID. A store is judged as it was chosen, and a verdict
            names the planned seeds that it lacks.
        claims: claims of your own, or a TOML or Python file of them; default: those of the studies.
        where: only runs with these settings, e.g. ``{"epochs": 60}``; a study without such a setting is judged whole.
        only: only runs with these ids.
    """
    files = _files(runs)
    if not (files.found or files.planned or files.spoilt):
        raise KymographError(f"{files.root} holds no run; make some with `kymograph run STUDY --out {files.root}`")
    files = _chosen(files, dict(where or {}), only)
    own = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    registered = registration.read(files.root) if files.root is not None else {}
    verdicts: list[Verdict] = []
    not_asked: list[str] = []
    for name in sorted(files.studies, key=lambda name: [*BUILT_IN, name].index(name)):
        study = stored_study(name)
        world = _world(name, study, files)
        mine = [] if study is None else list(study.claims())
        old = registration.abandoned(name, mine, registered)
        if own is not None:
            mine, old = [claim for claim in own if claim.study in (name, "own")], []
        ready = [claim for claim in (*mine, *old) if asked(claim, world)]
        not_asked += [claim.name for claim in mine if claim not in ready]
        forgotten = {registration.key(claim) for claim in old} if study is not None else set()

        def standing(claim: Claim, forgotten: set[str] = forgotten) -> str:
            words = registration.standing(claim, registered)
            return f"{words}, and no longer claimed" if registration.key(claim) in forgotten else words

        verdicts += judge_study(ready, world, standing)
    facts: dict[str, Any] = {"not_asked": not_asked}
    if own is not None:
        judged = {verdict.claim.name for verdict in verdicts}
        facts = {"own_not_asked": [claim.name for claim in own if claim.name not in judged]}
        if not verdicts:
            raise KymographError(f"no run fits any of the {len(own)} claims; look at their study, arm and where")
    return Verdicts(tuple(verdicts), facts)


@dataclass(frozen=True)
class _Files:
    """What lies in a directory, or was chosen from it: (study, run) each."""

    root: Path | None
    found: list[StoredRun]
    planned: list[PlannedRun]
    spoilt: list[tuple[str, str, Expected]]
    """Study, id and run."""
    whole: bool

    @property
    def studies(self) -> list[str]:
        """The studies, in the order of their runs."""
        named = [*(run.study for run in self.found), *(study for study, _, _ in self.spoilt)]
        return list(dict.fromkeys([*named, *(run.study for run in self.planned)] if self.whole else named))


def _files(runs: Store | str | Path) -> _Files:
    if isinstance(runs, Store):
        failed = [
            (run.study, run.id, Expected(run.arm, run.seed, run.config, f"it failed: {run.reason}"))
            for run in runs.failed
        ]
        planned = read_plan(runs.root) if runs.root is not None else []
        return _Files(runs.root, [*runs.finished], planned, failed, whole=False)
    root = Path(runs)
    found, spoilt = _gather(root)
    return _Files(root, found, read_plan(root), spoilt, whole=True)


def _chosen(files: _Files, where: dict[str, Any], only: Collection[str] | None) -> _Files:
    """Keeps the runs with the ids and settings asked for; a study that lacks a setting is not filtered by it."""
    known: dict[str, set[str]] = {}
    for study, config in [*((run.study, run.config) for run in files.found),
                          *((run.study, run.config) for run in files.planned)]:  # fmt: skip
        known.setdefault(study, set()).update(config)
    for name in where:
        if not any(name in names for names in known.values()):
            raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, set().union(*known.values()))}")

    def fits(study: str, run_id: str, config: Mapping[str, Any] | None) -> bool:
        if only is not None and run_id not in only:
            return False
        return config is None or all(
            config.get(name) == value for name, value in where.items() if name in known.get(study, set())
        )

    return replace(
        files,
        found=[run for run in files.found if fits(run.study, run.id, run.config)],
        planned=[run for run in files.planned if fits(run.study, run.id, run.config)],
        spoilt=[entry for entry in files.spoilt if fits(entry[0], entry[1], entry[2].config)],
    )


def _world(name: str, study: Study | None, files: _Files) -> World:
    """Returns what is known about one study's runs, those of an older version of it left out."""
    found = [run for run in files.found if run.study == name]
    planned = [run for run in files.planned if run.study == name]
    newest = max([*(run.spec.version for run in found), *(run.version for run in planned)], default=0)
    found = [run for run in found if run.spec.version == newest]
    planned = [run for run in planned if run.version == newest]
    unjudged: dict[str, list[int]] = {}
    if not files.whole:
        there = {(run.arm, json.dumps(dict(run.config), sort_keys=True), run.seed) for run in found}
        settings = {(arm, config) for arm, config, _ in there}
        for run in planned:
            config = json.dumps(dict(run.config), sort_keys=True)
            if (run.arm, config) in settings and (run.arm, config, run.seed) not in there:
                unjudged.setdefault(run.arm, []).append(run.seed)
        planned = []
    return World(
        found,
        [Expected(run.arm, run.seed, run.config) for run in planned],
        [run for owner, _, run in files.spoilt if owner == name],
        _declared(study),
        () if study is None else study.telling,
        unjudged,
    )


def judge_csv(first: str | Path, second: str | Path, claims: str | Path | None = None) -> Verdicts:
    """Judges two directories of CSV files (columns seed, step, value), each one arm under its own name.

    Without claims every shared series is asked whether its last value is greater in the first; such a claim was
    registered by nobody and is marked post hoc.
    """
    arms = [read_csv_arm(first), read_csv_arm(second)]
    if arms[0][0].arm == arms[1][0].arm:
        raise KymographError(f"both directories are called {arms[0][0].arm!r}, and that is the arms' name; rename one")
    world = World([run for arm in arms for run in arm])
    asked_for = read_claims(claims) if claims is not None else _last_values(arms)
    ready = [claim for claim in asked_for if asked(claim, world)]
    if not ready:
        raise KymographError(f"no claim is about the arms {arms[0][0].arm} and {arms[1][0].arm}")
    return Verdicts(tuple(judge_study(ready, world, lambda claim: registration.POST_HOC)))


def register(root: Path, study: Study) -> None:
    """Registers the study's claims with the directory, before any of its runs is computed."""
    claims = list(study.claims())
    if claims:
        registration.register(root, claims, {study.name: _begun(root, study.name)})


def register_file(root: str | Path, path: str | Path) -> list[Claim]:
    """Registers claims of one's own with a directory of runs, best before it has any; returns them."""
    claims = read_claims(path)
    place = Path(root)
    make_directory(place)
    registration.register(place, claims, {claim.study: _begun(place, claim.study) for claim in claims})
    return claims


def planning_note(study: Study, arms: Collection[str], seeds: int) -> str | None:
    """Returns why so many seeds cannot decide the study's claims about these arms, if they cannot."""
    ready = [claim for claim in study.claims() if {quantity.arm for quantity in quantities(claim)} <= set(arms)]
    if not ready:
        return None
    if seeds < LEAST_SEEDS:
        return f"{seeds} seeds are too few for a verdict: claims need at least {LEAST_SEEDS}"
    families = [claim.family for claim in ready]
    largest = max(families, key=families.count)
    if not could_be_told(seeds, families.count(largest), ready[0].alpha):
        return (
            f"{seeds} seeds cannot decide the {families.count(largest)} claims of {largest}: "
            f"the exact test reaches no p below {smallest_p(seeds):.2g}"
        )
    return None


def _begun(root: Path, study: str) -> int:
    """Counts the runs of a study (or of all, for claims of no study) that were planned or have ended below ``root``."""
    ended = sum(1 for _ in root.glob(f"{'*' if study == 'own' else slug(study)}/*/{STATUS}"))
    planned = sum(1 for run in read_plan(root) if study in ("own", run.study))
    return max(ended, planned)


def _last_values(arms: Sequence[Sequence[ForeignRun]]) -> list[Claim]:
    names = [{name for run in arm for name in run.series} for arm in arms]
    shared = sorted(names[0] & names[1])
    if not shared:
        raise KymographError("the two directories have no CSV file of one name; name the files after the series")
    one, other = arms[0][0].arm, arms[1][0].arm
    return [
        Claim(
            f"last {name}", "csv", "own", f"the last {name} is greater in {one} than in {other}",
            "asked of every series",
            Quantity(one, Measure(name, "last")), Quantity(other, Measure(name, "last")), "greater", 0.0,
        )
        for name in shared
    ]  # fmt: skip


def whole_runs(root: Path) -> tuple[Store, list[str]]:
    """Returns every run below ``root`` whose record can be read, and why the others cannot."""
    runs, damaged = [], []
    for directory, run in _read_all(root):
        if isinstance(run, StoredRun):
            runs.append(run)
        else:
            damaged.append(f"{directory.name}: {run}")
    if not runs:
        raise KymographError(f"{root} holds no run that can be read; make some with `kymograph run STUDY --out {root}`")
    return Store(sorted(runs, key=lambda run: (run.study, run.arm, run.seed, run.id)), root), damaged


def _gather(root: Path) -> tuple[list[StoredRun], list[tuple[str, str, Expected]]]:
    """Returns the ended runs below ``root`` that count, and those that do not, with the reason."""
    found, spoilt = [], []
    for directory, run in _read_all(root):
        if isinstance(run, str):
            study, arm, seed = _named(directory)
            spoilt.append((study, directory.name.rsplit("-", 1)[-1], Expected(arm, seed, None, run)))
        elif run.status == "finished":
            found.append(run)
        else:
            spoilt.append((run.study, run.id, Expected(run.arm, run.seed, run.config, f"it failed: {run.reason}")))
    return found, spoilt


def _read_all(root: Path) -> Iterator[tuple[Path, StoredRun | str]]:
    """Yields every ended run below ``root``, read to the last byte, or why it cannot be."""
    for directory in Store.directories(root):
        try:
            run = StoredRun(directory)
            _ = run.summary, run.series  # reading them checks their checksums
            yield directory, run
        except KymographError as error:
            yield directory, str(error).replace(str(directory), directory.name)


def _named(directory: Path) -> tuple[str, str, int]:
    """Returns study, arm and seed from where a damaged record lies."""
    arm, _, rest = directory.name.rpartition("-s")
    seed = rest.split("-")[0]
    return directory.parent.name, arm.replace("__", "/"), int(seed) if seed.isdecimal() else -1


def _declared(study: Study | None) -> dict[str, frozenset[str]]:
    if study is None:
        return {}
    return {arm.name: frozenset(arm.treatment) | frozenset(arm.preset) for arm in study.arms()}
