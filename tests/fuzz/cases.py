"""Numbered cases: the seed and the number of a case say which file is damaged, how, and which command reads it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.fuzz import forged, mutations, stage
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.watched import Watched, watch

NAMED = re.compile(
    r"damaged|cut off|edited|changed|left out|INVALID|missing|WRONG|not one of|cannot be|not read|gone|will not verify"
)
"""What a command says of a record that it does not use."""
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z)?|\d+\.\d+ s\b")


@dataclass
class Case:
    """One damaged file and one command, by number."""

    number: int
    seed: int
    target: Target
    words: tuple[str, ...]
    draw: random.Random

    @staticmethod
    def numbered(number: int, seed: int) -> Case:
        """Returns the case of this number."""
        draw = random.Random(f"{seed}/{number}")
        (target,) = draw.choices(TARGETS, [one.weight for one in TARGETS])
        (words,) = draw.choices(list(target.commands), list(target.commands.values()))
        return Case(number, seed, target, words, draw)

    def __str__(self) -> str:
        again = f"KYMOGRAPH_FUZZ_SEED={self.seed} KYMOGRAPH_FUZZ_CASE={self.number} python -m tests.fuzz"
        return f"case {self.number}: kymograph {' '.join(self.words)}\n    again: {again}"


class Workspace:
    """A directory to fuzz in: ``stage`` with whole samples, ``work`` with those of a case, ``out``, ``temporary``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stage, self.work, self.out, self.temporary = (
            root / name for name in ("stage", "work", "out", "temporary")
        )
        self.beside = root / "beside"
        self.beside.mkdir(parents=True, exist_ok=True)
        (self.beside / "secret.json").write_text('{"schema": 1, "secret": "nobody may read this"}')
        if not self.stage.exists():
            stage.build(self.stage)
        self._clean: dict[tuple[str, ...], tuple[str, dict[str, bytes]]] = {}

    def prepare(self, target: Target) -> None:
        """Puts whole samples into ``work`` and empties the rest."""
        for directory in (self.work, self.out, self.temporary):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        if target.trained and not (self.stage / "net.pt").exists():
            stage.build_networks(self.stage)
        stage.copy(self.stage, target.needs, self.work)

    def words(self, case: Case) -> tuple[str, ...]:
        """Returns the command with the run's directory in its place."""
        runs = [path.name for path in self.work.glob("image/snapshot/*-s1-*")]
        return tuple(word.replace("RUN", runs[0]) if runs else word for word in case.words)

    def run(self, case: Case) -> tuple[Watched, str, list[str]]:
        """Runs a case; returns what the command did, how the file was damaged, and which rules were broken."""
        self.prepare(case.target)
        damage, sealed = self.damage(case)
        before = _state(self.root)
        with quick():
            watched = watch(self.words(case), self.work, self.temporary)
        writable = [self.out, self.temporary, *(self.work / name for name in case.target.writable)]
        faults = watched.faults(writable)
        after = _state(self.root)
        touched = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        allowed = tuple(os.path.relpath(path, self.root) for path in writable)
        faults += [f"{name} was changed" for name in touched if not name.startswith(allowed)]
        left = [str(path.name) for path in self.temporary.iterdir()]
        faults += [f"it left {name} behind" for name in left]
        if "nobody may read this" in watched.out + watched.err:
            faults.append("it showed a file that lies outside")
        if sealed and not faults:
            faults += self._accepted(case, watched)
        return watched, damage, faults

    def damage(self, case: Case) -> tuple[str, bool]:
        """Damages one file; returns how, and whether a checksum must have noticed."""
        draw, target = case.draw, case.target
        path = draw.choice(target.samples(self.work))
        name = path.relative_to(self.work)
        fate = draw.random()
        if target.forge and fate < 0.45:
            before = path.read_bytes()
            if target.forge == "record":
                forged.forge_record(path.parent, path.name, draw)
            elif target.forge == "log":
                path.write_bytes(forged.forge_log(before, draw))
            elif target.forge == "tensors":
                path.write_bytes(forged.forge_tensors(before, draw))
            else:
                path.write_bytes(mutations.dump(mutations.replace_value(json.loads(before), draw)))
            return f"{name} forged", False
        if fate < 0.6:
            return f"{name} replaced by: {mutations.no_file(path, draw, self.beside / 'secret.json')}", False
        mutate = draw.choice(mutations.BYTES)
        before = path.read_bytes()
        content = mutate(before, draw)
        path.write_bytes(content)
        return f"{name}: {mutate.__name__}", target.sealed and content != before

    def _accepted(self, case: Case, watched: Watched) -> list[str]:
        """Returns whether a changed file was taken for a whole one."""
        if watched.code != 0 or case.words[0] in ("register", "abandon"):  # these print when they were run
            return []
        if case.words[0] == "verify":
            return ["`verify` accepted a changed file"]
        if case.words not in self._clean:
            files = _contents(self.out)  # what the damaged case wrote
            self.prepare(case.target)
            with quick():
                whole = watch(self.words(case), self.work, self.temporary)
            self._clean[case.words] = (_plain(whole.out), _contents(self.out))
        else:
            files = _contents(self.out)
        out, expected = self._clean[case.words]
        same = _plain(watched.out) == out and files == expected
        said = watched.out + watched.err + b"".join(files.values()).decode("utf-8", "replace")
        return [] if same or NAMED.search(said) else ["a changed file was accepted: other numbers, and not a word"]


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Leaves out the drawing of pictures that follows a calibration, which reads nothing."""
    with mock.patch("kymograph._pictures.saving.save_figure", lambda figure, directory, name, **options: []):
        yield


def _plain(text: str) -> str:
    return _TIME.sub(b"", text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): _TIME.sub(b"", path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix not in (".zip", ".db")  # which hold when it was
    }


def _state(root: Path) -> dict[str, tuple[int, int]]:
    """Returns size and date of every file below ``root`` but for the stage, which nothing names."""
    found: dict[str, tuple[int, int]] = {}
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                name = os.path.relpath(entry.path, root)
                if name == "stage":
                    continue
                facts = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    found[name] = (0, 0)
                else:
                    found[name] = (facts.st_size, facts.st_mtime_ns)
    return found
