"""What an engine is asked to compute: one stack of runs of a study, as JSON can hold it.

An order holds all that its runs depend on, so that it can be computed by any process and on any machine that has the
package, sees the output directory and has the data.
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
"""Names, separated by commas, environment variables that travel with orders although they are not ours."""
_TRAVEL = ("CUBLAS_WORKSPACE_CONFIG",)  # with deterministic algorithms, torch asks for it on CUDA


@dataclass(frozen=True)
class Order:
    """One stack to compute: whose runs they are, which, where they are stored, on what, and with which data."""

    study: CodeReference
    stack: Stack
    directory: str
    """The output directory, absolute: a worker may start somewhere else."""
    device: str = "auto"
    data_dir: str | None = None
    """Where data sets that are files lie, absolute; None: where the environment says."""
    log: tuple[str, ...] = ()
    """The heads of the directory's log when the sweep started; every run stores them."""
    shipped: ShippedCode | None = None
    """The study's code, for a worker that does not have its files; None: it is built in."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables under which the stack is computed."""
    package: Mapping[str, str] = field(default_factory=dict)
    """The version of this package, and the hash of its code, that planned the runs; empty: not known."""

    def load_study(self, *, as_ordered: bool = False) -> Any:
        """Returns the study whose runs these are, from its files if they are here, else from the order.

        With ``as_ordered``, files that were edited since do not count as being here.
        """
        if self.shipped is None or is_here(self.study, self.shipped, exactly=as_ordered):
            return self.study.load()
        return self.shipped.unpacked(self.study).load()

    def to_json(self) -> dict[str, Any]:
        """Returns the order as JSON can hold it."""
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
        """Returns the order that `to_json` described."""
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
    """Returns one order per stack, its paths made absolute."""
    out = str(directory.absolute())
    data = None if data_dir is None else str(Path(data_dir).expanduser().absolute())
    heads = Log.read(directory).heads
    shipped, environment, package = ship(study), travelling_environment(), this_package()
    return [Order(study, stack, out, device, data, heads, shipped, environment, package) for stack in stacks]


def travelling_environment() -> dict[str, str]:
    """Returns the environment variables that go with an order: ours, those that numbers depend on, those asked for.

    The rest stays here. Orders are written to disk by some engines, and an environment may hold passwords.
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
