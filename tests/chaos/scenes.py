"""Commands that write, each with what it starts from and with what must be the same after a kill and a second try."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.points import forked

COIN = ("coin.py", "--engine", "serial", "--quiet")
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z)?")


@dataclass(frozen=True)
class Scene:
    """A command."""

    name: str
    words: tuple[str, ...]
    stored: bool = True
    """Whether it starts from stored runs."""


SCENES = (
    Scene("run", ("run", *COIN, "--seeds", "1", "2", "--out", "runs"), stored=False),
    Scene("run more", ("run", *COIN, "--seeds", "1", "2", "3", "--out", "runs", "--tosses", "5")),
    Scene("register", ("register", "new", "claims.toml"), stored=False),
    Scene("abandon", ("abandon", "runs", "--reason", "too dear", "--seeds", "9")),
    Scene("new", ("new", "study", "mine"), stored=False),
    Scene("judge", ("judge", "runs", "--json", "new/v.json", "--markdown", "new/v.md")),
    Scene("report", ("report", "runs", "-o", "new/report.html")),
    Scene("bundle", ("bundle", "runs", "-o", "new/runs.zip", "--study", "coin.py")),
    Scene("verify", ("verify", "runs", "--rerun", "1", "--study", "coin.py", "--seed", "0")),
    Scene("json", ("export", "runs", "--to", "json", "--output", "x.json")),
    Scene("csv", ("export", "runs", "--to", "csv", "--output", "x.csv")),
    Scene("parquet", ("export", "runs", "--to", "parquet", "--output", "x.parquet")),
    Scene("tensorboard", ("export", "runs", "--to", "tensorboard", "--output", "events")),
    Scene("mlflow more", ("export", "runs", "--to", "mlflow", "--output", "mlflow.db")),
    Scene("mlflow", ("export", "runs", "--to", "mlflow", "--output", "mlflow.db")),
    Scene("figure", ("figure", "coin-curves", "--from", "runs", "--out", "new")),
)


def set_out(scene: Scene, stage: Path, place: Path) -> None:
    """Puts what a scene starts from into ``place``, which is empty then but for that."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in ("coin.py", "claims.toml"):
        shutil.copyfile(stage / name, place / name)
    if scene.stored:
        shutil.copytree(stage / "runs", place / "runs")
    if scene.name == "abandon":
        plan_one_more(place)
    if scene.name == "mlflow more":
        shutil.copyfile(database(stage), place / "mlflow.db")


def database(stage: Path) -> Path:
    """Returns an MLflow database that holds some of the stored runs, made if there is none yet."""
    path = stage / "mlflow.db"
    if not path.exists():
        words = ("export", "runs", "--to", "mlflow", "--output", path.name, "--arms", "fair")
        assert forked(words, stage).code == 0
    return path


def plan_one_more(place: Path) -> None:
    """Plans a run that nobody computes, so that it can be given up."""
    from kymograph.runs.history import log_sweep
    from kymograph.runs.store import Store

    run = Store.open(place / "runs")[0]
    log_sweep(place / "runs", run.spec.at_seeds([9]))


def fingerprint(place: Path) -> dict[str, Any]:
    """Returns what must not depend on how often a command was killed: every byte, but for times and process names."""
    found: dict[str, Any] = {}
    entries: set[str] = set()
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if path.is_symlink():
            found[name] = "a link"
        elif path.is_dir() or "__pycache__" in name or name.endswith("-journal"):
            continue
        elif path.suffix == ".jsonl":
            entries |= {_entry(line) for line in path.read_bytes().splitlines()}
        elif path.suffix == ".db":
            found[name] = _database(path)
        elif path.name in ("config.json", "status.json"):
            found[name] = _record(json.loads(path.read_bytes()))
        else:
            found[name] = hashlib.sha256(_TIME.sub(b"", path.read_bytes())).hexdigest()
    if entries:
        found["the log"] = sorted(entries)
    return found


def leftovers(place: Path) -> list[str]:
    """Returns what a command must not leave: hidden files, unfinished runs, the journal of a database."""
    names = [str(path.relative_to(place)) for path in place.rglob("*") if "__pycache__" not in str(path)]
    return [name for name in names if re.search(r"(^|/)\.|\.part($|/)|-(journal|wal|shm)$", name)]


def _entry(line: bytes) -> str:
    """Returns what an entry of the log says, without when, by whom and after what."""
    entry = json.loads(line)
    return json.dumps([entry["kind"], entry["content"]], sort_keys=True)


def _record(facts: Mapping[str, Any]) -> Any:
    """Returns a record without times, and without the heads of the log, which are hashes of times."""
    kept = {key: value for key, value in facts.items() if key not in ("seconds", "written")}
    kept["files"] = {name: 0 if name == "config.json" else one for name, one in facts.get("files", {}).items()}
    kept["provenance"] = {key: value for key, value in facts.get("provenance", {}).items() if key != "log"}
    return kept


def _database(path: Path) -> list[Any]:
    """Returns the runs of an MLflow database that are not deleted, with all that they hold, by our ids."""
    with closing(sqlite3.connect(path)) as connection:
        runs = dict(
            connection.execute(
                "select r.run_uuid, t.value from runs r join tags t on t.run_uuid = r.run_uuid "
                "where t.key = 'run' and r.lifecycle_stage = 'active'"
            )
        )
        found: list[Any] = sorted(runs.values())
        for table, columns in (("params", "key, value"), ("metrics", "key, value, step"), ("runs", "status, name")):
            rows = connection.execute(f"select run_uuid, {columns} from {table}").fetchall()
            found.append(sorted([runs[row[0]], *map(str, row[1:])] for row in rows if row[0] in runs))
    return found


def whole(scene: Scene, stage: Path, roots: tuple[Path, Path]) -> tuple[dict[str, Any], int]:
    """Runs a scene without any harm; returns its fingerprint and how many write points it has."""
    set_out(scene, stage, roots[0])
    ended = forked(scene.words, roots[0], roots)
    assert ended.code == 0, (scene.name, ended.out)
    return fingerprint(roots[0]), ended.points
