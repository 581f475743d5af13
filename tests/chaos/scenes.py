"""Commands that write, each with what it starts from and with what must be the same after a kill and a second try."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph._runs.log import SHORT
from tests.chaos.points import Ended, forked, kill
from tests.cli.command import call
from tests.fuzz import stage as samples
from tests.science.data import archive

COIN = ("coin.py", "--engine", "serial", "--quiet")
TINY = ("--data", "digits", "--depth", "2", "--width", "8", "--batch-size", "256", "--epochs", "2")
"""A network that is trained on embedded images in no time."""
TRAINED = "image/snapshot/resmlp__dfa-*"
_TIME = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z)?"
_HASH = re.compile(r'"hash": "([0-9a-f]{64})"')


@dataclass(frozen=True)
class Scene:
    """A command."""

    name: str
    words: tuple[str, ...]
    """The command line; one with a ``*`` is a name to be looked for, as a shell does."""
    starts_from: tuple[str, ...] = ("runs",)
    """What of the stage it needs, besides a user-defined study and claims."""
    before: Callable[[], None] | None = None
    """Called in the process before the command."""
    costly: bool = False
    """Whether it takes so long that few of its points must do where time is short."""

    def line(self, directory: Path) -> list[str]:
        """Returns the command line in ``directory``."""
        found = ((str(path.relative_to(directory)) for path in directory.glob(word)) if "*" in word else (word,)
                 for word in self.words)  # fmt: skip
        return [word for words in found for word in words]

    def play(
        self,
        roots: Sequence[Path],
        at: int | None = None,
        act: Callable[[], None] = kill,
        *,
        forever: bool = False,
        before: Callable[[], None] | None = None,
    ) -> Ended:
        """Runs the command in the first of ``roots``; ``before`` is called besides its own."""

        def both() -> None:
            for one in (self.before, before):
                if one is not None:
                    one()

        return forked(self.line(roots[0]), roots[0], roots, at, act, forever=forever, before=both)


def downloaded() -> None:
    """Lets the official address of CIFAR-10 answer with the archive that lies here."""
    from kymograph_studies.data import cifar10_files

    content = Path("cifar.tar.gz").read_bytes()
    cifar10_files.MD5 = hashlib.md5(content).hexdigest()
    cifar10_files.urllib.request.urlopen = lambda *_, **__: io.BytesIO(content)  # type: ignore[assignment]


SCENES = (
    Scene("run", ("run", *COIN, "--seeds", "1", "2", "--dir", "runs"), ()),
    Scene("run more", ("run", *COIN, "--seeds", "1", "2", "3", "--dir", "runs", "--tosses", "5")),
    Scene("run tuned", ("run", "bowl.py", *COIN[1:], "--seeds", "1", "2", "--dir", "runs"), ("bowl.py",)),
    Scene("run images", ("run", "snapshot", "--arms", "resmlp/dfa", "--seeds", "1", *TINY, "--checkpoint-every", "1",
                         *COIN[1:], "--dir", "runs"), (), costly=True),
    Scene("variance", ("variance", "varying.py", *COIN[1:], "--seeds", "1", "2", "--dir", "runs"), ("varying.py",)),
    Scene("reproduce", ("reproduce", "--study", "coin.py", "--n-seeds", "2", "--engine", "serial", "--dir", "runs"), (),
          costly=True),
    Scene("audit", ("audit", TRAINED, "--images", "64", "--quiet", "-o", "new/audit.json"), ("image",), costly=True),
    Scene("calibrate", ("calibrate", TRAINED, "--images", "64", "--draws", "19", "-o", "new"), ("image",),
          costly=True),
    Scene("fetch", ("fetch", "cifar10", "-o", "data"), ("cifar.tar.gz",), downloaded),
    Scene("selftest", ("selftest", "--worlds", "100"), (), costly=True),
    Scene("register", ("register", "claims.toml", "--dir", "new"), ()),
    Scene("abandon", ("abandon", "runs", "--reason", "too dear", "--seeds", "9")),
    Scene("new", ("new", "study", "mine"), ()),
    Scene("judge", ("judge", "runs", "--json", "new/v.json", "--markdown", "new/v.md")),
    Scene("report", ("report", "runs", "-o", "new/report.html")),
    Scene("bundle", ("bundle", "runs", "-o", "new/runs.zip", "--study", "coin.py")),
    Scene("verify", ("verify", "runs", "--rerun", "1", "--study", "coin.py", "--seed", "0")),
    Scene("verify bundle", ("verify", "runs.zip", "--rerun", "1", "--seed", "0"), ("runs.zip",)),
    Scene("json", ("export", "runs", "--to", "json", "--output", "x.json")),
    Scene("csv", ("export", "runs", "--to", "csv", "--output", "x.csv")),
    Scene("csv-summary", ("export", "runs", "--to", "csv-summary", "--output", "y.csv")),
    Scene("parquet", ("export", "runs", "--to", "parquet", "--output", "x.parquet")),
    Scene("script", ("export", "image", "--to", "script", "--output", "x.json"), ("image",)),
    Scene("tensorboard", ("export", "runs", "--to", "tensorboard", "--output", "events")),
    Scene("mlflow more", ("export", "runs", "--to", "mlflow", "--output", "mlflow.db"), ("runs", "mlflow.db"),
          costly=True),
    Scene("mlflow", ("export", "runs", "--to", "mlflow", "--output", "mlflow.db"), costly=True),
    Scene("figure", ("figure", "coin-curves", "--dir", "runs", "-o", "new"), costly=True),
)  # fmt: skip
PRINTING = (
    ("completion", "bash"),
    ("studies",),
    ("power", "claims.toml", "--n", "6"),
    ("rules",),
    ("show",),
    ("watch", "runs", "--once"),
)
"""Commands that write nothing."""


def set_out(scene: Scene, stage: Path, directory: Path) -> None:
    """Puts what a scene starts from into ``directory``, which is empty then but for that."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if "mlflow.db" in scene.starts_from:
        half_exported(stage)
    samples.copy(stage, ("coin.py", "claims.toml", *scene.starts_from), directory)
    if scene.name == "abandon":
        plan_one_more(directory)


def build(root: Path) -> Path:
    """Makes everything that a scene starts from below ``root``; returns it."""
    samples.build(root)
    for name in ("bowl.py", "varying.py"):
        shutil.copyfile(Path(__file__).parent.parent / "studies" / name, root / name)
    both = ("--arms", "resmlp/dfa", "resmlp/bp", "--seeds", "1")
    assert call("run", "snapshot", *both, *TINY, *COIN[1:], "--dir", str(root / "image")) == 0
    archive.make(root / "cifar", per_batch=8)
    with tarfile.open(root / "cifar.tar.gz", "w:gz") as packed:
        packed.add(root / "cifar" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    return root


def half_exported(stage: Path) -> None:
    """Makes an MLflow database that holds some of the stored runs, if there is none yet."""
    if not (stage / "mlflow.db").exists():
        words = ("export", "runs", "--to", "mlflow", "--output", "mlflow.db", "--arms", "fair")
        assert forked(words, stage).code == 0


def plan_one_more(directory: Path) -> None:
    """Plans a run that nobody computes, so that it can be given up."""
    from kymograph._runs.directory import Directory
    from kymograph._runs.store import Store

    run = Store.open(directory / "runs")[0]
    Directory(directory / "runs").plan(run.spec.at_seeds([9]))


def fingerprint(directory: Path) -> dict[str, Any]:
    """Returns what must not depend on how often a command was killed: every byte, but for times and process names.

    The hash of an entry of the log is one over its time and its process.
    """
    found: dict[str, Any] = {}
    entries: set[str] = set()
    hashes = [name.encode() for path in directory.rglob("*.jsonl") for name in _HASH.findall(path.read_text())]
    passing = re.compile(b"|".join([_TIME, *(b"%s(%s)?" % (name[:SHORT], name[SHORT:]) for name in hashes)]))
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
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
            found[name] = hashlib.sha256(passing.sub(b"", path.read_bytes())).hexdigest()
    if entries:
        found["the log"] = sorted(entries)
    return found


def leftovers(directory: Path) -> list[str]:
    """Returns what a command must not leave: hidden files, unfinished runs, the journal of a database."""
    names = [str(path.relative_to(directory)) for path in directory.rglob("*") if "__pycache__" not in str(path)]
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
    ended = scene.play(roots)
    assert ended.code == 0, (scene.name, ended.out)
    return fingerprint(roots[0]), ended.points
