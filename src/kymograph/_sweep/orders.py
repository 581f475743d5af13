"""What a sweep asks of an engine: stacks of runs with the missing ones marked, and one order per stack, as JSON.

An order contains everything that its runs depend on, so that any process can compute it, on any machine that has the
package and the data and sees the output directory.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_SOURCE, is_file, read_bytes
from kymograph._io.processes import temporary_directory
from kymograph._io.writing import make_directory, write_atomically
from kymograph._runs.provenance import code_hash, versions
from kymograph._runs.record import is_finished
from kymograph._runs.spec import RunSpec, digest, slug
from kymograph._sweep.code_identity import importable_path, source_hash
from kymograph._sweep.code_loading import CodeReference

FURTHER_VARIABLES = "KYMOGRAPH_ENVIRONMENT"
"""The variable that lists, separated by commas, further environment variables to send with orders."""
_AFFECTS_NUMBERS = ("CUBLAS_WORKSPACE_CONFIG",)  # torch's deterministic algorithms need it on CUDA
_unpacked: dict[str, tempfile.TemporaryDirectory[str]] = {}
"""The temporary directories with code that came with orders, by source hash; removed when the process ends."""


@dataclass(frozen=True)
class Stack:
    """Runs that train as one network with a leading replica axis.

    The stack is formed from all runs asked for, finished or not, and is always computed whole; only its missing runs
    are stored. So a restart computes the same stack bit for bit.
    """

    specs: tuple[RunSpec[Any], ...]
    missing: tuple[bool, ...]
    steps: int

    @property
    def id(self) -> str:
        """The hash of the ids of its runs."""
        return digest([spec.id for spec in self.specs])

    @property
    def missing_specs(self) -> list[RunSpec[Any]]:
        """Those of its runs that are to be stored."""
        return [spec for spec, missing in zip(self.specs, self.missing, strict=True) if missing]

    @property
    def missing_runs(self) -> list[str]:
        """The ids of those runs."""
        return [spec.id for spec in self.missing_specs]

    def study_directory(self, root: str | Path) -> Path:
        """Returns the directory of its study's runs below the output directory ``root``."""
        return Path(root, slug(self.specs[0].study))

    def to_json(self) -> dict[str, Any]:
        """Returns the stack as a JSON-compatible dictionary, for a worker process."""
        return {"specs": [spec.identity for spec in self.specs], "missing": list(self.missing), "steps": self.steps}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Stack:
        """Rebuilds the stack from the output of `to_json`."""
        specs = tuple(RunSpec.from_identity(identity) for identity in value["specs"])
        return Stack(specs, tuple(value["missing"]), value["steps"])


def missing_stacks(
    specs: Sequence[RunSpec[Any]],
    root: Path,
    stack_key: Callable[[RunSpec[Any]], Hashable],
    steps: Callable[[RunSpec[Any]], int],
    largest: int,
) -> list[Stack]:
    """Returns all stacks, the longest first, with their missing runs marked; raises if a stored record is damaged.

    Runs with the same key are cut into the fewest stacks of at most ``largest``, as equal in size as possible.
    """
    groups: dict[Hashable, list[RunSpec[Any]]] = {}
    for spec in specs:
        groups.setdefault(stack_key(spec), []).append(spec)
    stacks = []
    for group in groups.values():
        count = -(-len(group) // largest)
        cuts = [len(group) * part // count for part in range(count + 1)]
        for start, stop in itertools.pairwise(cuts):
            members = tuple(group[start:stop])
            missing = tuple(not is_finished(root, spec) for spec in members)
            stacks.append(Stack(members, missing, steps(members[0])))
    return sorted(stacks, key=lambda stack: -stack.steps * len(stack.specs))


@dataclass(frozen=True)
class ShippedCode:
    """The text of every file of a study's code, by path relative to a directory from which it can be imported."""

    source: str
    """The hash of the files, as `source_hash` computes it."""
    main: str
    """The path of the file that defines the study."""
    files: Mapping[str, str]

    @staticmethod
    def of(code: CodeReference) -> ShippedCode | None:
        """Returns the current source of ``code``; None if it is built in or in no file."""
        path = code.path() if code.user_defined and code.module != "__main__" else None
        if path is None:
            return None
        files = code.files()
        names = {file: str(importable_path(name, file)) for name, file in files.items()}
        texts = {name: read_bytes(file, MAX_SOURCE).decode("utf-8", "surrogateescape") for file, name in names.items()}
        return ShippedCode(source_hash(files), names[path.resolve()], texts)

    def unpacked(self, code: CodeReference) -> CodeReference:
        """Writes the files to a temporary directory of this process; returns a reference to ``code`` there."""
        if self.source not in _unpacked:
            if any({"..", "/"} & {*PurePosixPath(name).parts} for name in (self.main, *self.files)):
                raise KymographError("an order names a file outside its own directory; it was not computed")
            _unpacked[self.source] = temporary_directory("order")
        home = Path(_unpacked[self.source].name)
        for name, text in self.files.items():
            make_directory((home / name).parent)
            write_atomically(home / name, text.encode("utf-8", "surrogateescape"))
        if code.file:
            return CodeReference(code.name, file=str(home / self.main))
        return CodeReference(code.name, code.module, search=(str(home),))


@dataclass(frozen=True)
class Order:
    """One stack to compute: its study and runs, output directory, device and data."""

    study: CodeReference
    stack: Stack
    directory: str
    """The output directory, absolute, since a worker may start elsewhere."""
    device: str = "auto"
    data_dir: str | None = None
    """The directory of data files, absolute; None: as the environment says."""
    log: tuple[str, ...] = ()
    """The heads of the directory's log when the sweep started; every run stores them."""
    shipped: ShippedCode | None = None
    """The study's code, for a worker that does not have its files; None if it is built in or in no file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to set while the stack is computed."""
    package: Mapping[str, str] = field(default_factory=dict)
    """The version and code hash of the package that planned the runs; empty: unknown."""
    processes: int = 1
    """How many processes train a run together."""

    def load_study(self, *, as_ordered: bool = False) -> Any:
        """Returns the study of these runs, from its files if they are on this machine, else from the order.

        With ``as_ordered``, files that were edited since do not count.
        """
        shipped = self.shipped
        if shipped is not None:
            path = self.study.path()
            here = path is not None and is_file(path)
            if not here or (as_ordered and source_hash(self.study.files()) != shipped.source):
                return shipped.unpacked(self.study).load()
        return self.study.load()

    def to_json(self) -> dict[str, Any]:
        """Returns the order as a JSON-compatible dictionary."""
        shipped = None if self.shipped is None else asdict(self.shipped)
        return {**vars(self), "study": asdict(self.study), "stack": self.stack.to_json(), "shipped": shipped}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Order:
        """Rebuilds the order from the output of `to_json`."""
        return Order(
            study=CodeReference(**{**value["study"], "search": tuple(value["study"]["search"])}),
            stack=Stack.from_json(value["stack"]),
            directory=value["directory"],
            device=value["device"],
            data_dir=value["data_dir"],
            log=tuple(value["log"]),
            shipped=None if value["shipped"] is None else ShippedCode(**value["shipped"]),
            environment=value["environment"],
            package=value["package"],
            processes=value.get("processes", 1),  # a job that an earlier version submitted has none
        )


def orders_for(
    study: CodeReference,
    stacks: Sequence[Stack],
    directory: Path,
    log: tuple[str, ...],
    device: str,
    data_dir: str | Path | None,
    processes: int = 1,
) -> list[Order]:
    """Returns one order per stack, with absolute paths; ``log`` are the heads of the directory's log."""
    out = str(directory.absolute())
    data = None if data_dir is None else str(Path(data_dir).expanduser().absolute())
    shipped, environment, package = ShippedCode.of(study), travelling_environment(), this_package()
    return [Order(study, stack, out, device, data, log, shipped, environment, package, processes) for stack in stacks]


def travelling_environment() -> dict[str, str]:
    """Returns the environment variables sent with an order: Kymograph's, those that affect numbers, those asked for.

    All others are left out, because some engines write orders to disk and an environment may hold passwords.
    """
    asked = [name.strip() for name in os.environ.get(FURTHER_VARIABLES, "").split(",")]
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("KYMOGRAPH_") or name in (*_AFFECTS_NUMBERS, *asked)
    }


def this_package() -> dict[str, str]:
    """Returns the version of this package, and the hash of its code."""
    return {"version": versions()["kymograph"], "code": code_hash()}
