"""What an engine is asked to compute: one stack of a study's runs, convertible to JSON.

An order contains everything that its runs depend on, so that any process can compute it, on any machine that has the
package and the data and sees the output directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kymograph.runs.log import Log
from kymograph.runs.provenance import code_hash, versions
from kymograph.sweep.code_reference import CodeReference
from kymograph.sweep.plan import Stack
from kymograph.sweep.shipped_code import ShippedCode, is_here, ship

FURTHER_VARIABLES = "KYMOGRAPH_ENVIRONMENT"
"""The variable that lists, separated by commas, further environment variables to send with orders."""
_TRAVEL = ("CUBLAS_WORKSPACE_CONFIG",)  # torch's deterministic algorithms need it on CUDA


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

    def load_study(self, *, as_ordered: bool = False) -> Any:
        """Returns the study of these runs, from its files if they are on this machine, else from the order.

        With ``as_ordered``, files that were edited since do not count.
        """
        if self.shipped is None or is_here(self.study, self.shipped, exactly=as_ordered):
            return self.study.load()
        return self.shipped.unpacked(self.study).load()

    def to_json(self) -> dict[str, Any]:
        """Returns the order as a JSON-compatible dictionary."""
        return {
            "study": asdict(self.study),
            "stack": self.stack.to_json(),
            "directory": self.directory,
            "device": self.device,
            "data_dir": self.data_dir,
            "log": list(self.log),
            "shipped": None if self.shipped is None else self.shipped.to_json(),
            "environment": dict(self.environment),
            "package": dict(self.package),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Order:
        """Rebuilds the order from the output of `to_json`."""
        study = CodeReference(**{**value["study"], "search": tuple(value["study"]["search"])})
        shipped = value.get("shipped")
        return Order(
            study,
            Stack.from_json(value["stack"]),
            value["directory"],
            value["device"],
            value["data_dir"],
            tuple(value["log"]),
            None if shipped is None else ShippedCode(**shipped),
            value.get("environment", {}),
            value.get("package", {}),
        )


def orders_for(
    study: CodeReference, stacks: Sequence[Stack], directory: Path, device: str, data_dir: str | Path | None
) -> list[Order]:
    """Returns one order per stack, with absolute paths."""
    out = str(directory.absolute())
    data = None if data_dir is None else str(Path(data_dir).expanduser().absolute())
    heads = Log.read(directory).heads
    shipped, environment, package = ship(study), travelling_environment(), this_package()
    return [Order(study, stack, out, device, data, heads, shipped, environment, package) for stack in stacks]


def travelling_environment() -> dict[str, str]:
    """Returns the environment variables sent with an order: Kymograph's, those that affect numbers, those asked for.

    All others are left out, because some engines write orders to disk and an environment may hold passwords.
    """
    asked = [name.strip() for name in os.environ.get(FURTHER_VARIABLES, "").split(",")]
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("KYMOGRAPH_") or name in (*_TRAVEL, *asked)
    }


def this_package() -> dict[str, str]:
    """Returns the version of this package, and the hash of its code."""
    return {"version": versions()["kymograph"], "code": code_hash()}
