"""Judging a directory of runs: every study's registered claims, one's own, or runs from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph.claims import registration
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.files import ForeignRun, read_claims, read_csv_arm
from kymograph.claims.judge import Expected, World, asked
from kymograph.claims.judge import judge as judge_study
from kymograph.claims.verdict import Verdicts
from kymograph.errors import KymographError
from kymograph.runs.store import Store, StoredRun
from kymograph.studies.study import BUILT_IN, Study, load_study
from kymograph.sweep.ledger import read_plan


def judge(
    runs: Store | str | Path,
    claims: Iterable[Claim] | str | Path | None = None,
    where: Mapping[str, Any] | None = None,
) -> Verdicts:
    """Judges the claims of every study that has runs in a store or directory; needs no torch.

    Args:
        runs: a store, or the directory of the runs. A directory is judged whole: what was planned and is missing, or
            was changed since it was written, shows.
        claims: claims of your own, or a TOML or Python file of them; default: those of the studies.
        where: only runs with these settings, e.g. ``{"epochs": 60}``.
    """
    settings = dict(where or {})
    root = runs.root if isinstance(runs, Store) else Path(runs)
    found, spoilt = ([*runs.finished], []) if isinstance(runs, Store) else _gather(Path(runs))
    if isinstance(runs, Store):
        spoilt = [
            (run.study, Expected(run.arm, run.seed, run.config, f"it failed: {run.reason}")) for run in runs.failed
        ]
        planned = []
    else:
        planned = [(run.study, Expected(run.arm, run.seed, run.config)) for run in read_plan(Path(runs))]
    found = [run for run in found if _has(run.config, settings)]
    planned = [(study, run) for study, run in planned if _has(run.config or {}, settings)]
    own = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    registered = registration.read(root) if root is not None else {}
    there = dict.fromkeys([*(run.study for run in found), *(study for study, _ in (*planned, *spoilt))])
    names = sorted(there, key=lambda name: [*BUILT_IN, name].index(name))
    verdicts, left_out = [], 0
    for name in names:
        study = _known_study(name)
        world = World(
            [run for run in found if run.study == name],
            [run for owner, run in planned if owner == name],
            [run for owner, run in spoilt if owner == name],
            _declared(study),
        )
        mine = _claims_of(study) if own is None else [claim for claim in own if claim.study in (name, "own")]
        ready = [claim for claim in mine if asked(claim, world)]
        left_out += len(mine) - len(ready)
        verdicts += judge_study(ready, world, lambda claim: registration.standing(claim, registered))
    if own is not None and not verdicts:
        raise KymographError(f"no run fits any of the {len(own)} claims; look at their study, arm and where")
    return Verdicts(tuple(verdicts), {"not_asked": left_out})


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
    claims = _claims_of(study)
    if claims:
        registration.register(root, claims, {study.name: _ended(root, study.name)})


def register_file(root: str | Path, path: str | Path) -> list[Claim]:
    """Registers claims of one's own with a directory of runs, best before it has any; returns them."""
    claims = read_claims(path)
    place = Path(root)
    place.mkdir(parents=True, exist_ok=True)
    registration.register(place, claims, {claim.study: _ended(place, claim.study) for claim in claims})
    return claims


def _ended(root: Path, study: str) -> int:
    """Counts the runs of a study (or of all, for claims of no study) that have ended below ``root``."""
    return sum(1 for _ in root.glob(f"{'*' if study == 'own' else study}/*/status.json"))


def _last_values(arms: Sequence[Sequence[ForeignRun]]) -> list[Claim]:
    shared = sorted(set(arms[0][0].series) & set(arms[1][0].series))
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


def _gather(root: Path) -> tuple[list[StoredRun], list[tuple[str, Expected]]]:
    """Reads every ended run below ``root`` to the last byte; returns those that count, and those that do not."""
    found, spoilt = [], []
    for directory in Store.directories(root):
        try:
            run = StoredRun(directory)
            _ = run.summary, run.series  # reading them checks their checksums
        except KymographError as error:
            study, arm, seed = _named(directory)
            reason = str(error).replace(str(directory), directory.name)
            spoilt.append((study, Expected(arm, seed, None, reason)))
            continue
        if run.status == "finished":
            found.append(run)
        else:
            spoilt.append((run.study, Expected(run.arm, run.seed, run.config, f"it failed: {run.reason}")))
    return found, spoilt


def _named(directory: Path) -> tuple[str, str, int]:
    """Returns study, arm and seed from where a damaged record lies."""
    arm, _, rest = directory.name.rpartition("-s")
    seed = rest.split("-")[0]
    return directory.parent.name, arm.replace("__", "/"), int(seed) if seed.isdecimal() else -1


def _known_study(name: str) -> Study | None:
    try:
        return load_study(name)
    except KymographError:
        return None  # somebody else's study, whose module is not here


def _claims_of(study: Study | None) -> list[Claim]:
    return [] if study is None else list(study.claims())


def _declared(study: Study | None) -> dict[str, frozenset[str]]:
    if study is None:
        return {}
    return {arm.name: frozenset(arm.treatment) | frozenset(arm.preset) for arm in study.arms()}


def _has(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(config.get(name) == value for name, value in settings.items())
