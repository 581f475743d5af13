"""What an engine is asked to compute: one stack of runs of a study, as JSON can hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kymograph.runs.log import Log
from kymograph.sweep.code_reference import CodeReference
from kymograph.sweep.plan import Stack


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

    def load_study(self) -> Any:
        """Returns the study whose runs these are."""
        return self.study.load()

    def to_json(self) -> dict[str, Any]:
        """Returns the order as JSON can hold it."""
        return {
            "study": asdict(self.study),
            "stack": self.stack.to_json(),
            "directory": self.directory,
            "device": self.device,
            "data_dir": self.data_dir,
            "log": list(self.log),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Order:
        """Returns the order that `to_json` described."""
        study = CodeReference(**{**value["study"], "search": tuple(value["study"]["search"])})
        stack, log = Stack.from_json(value["stack"]), tuple(value["log"])
        return Order(study, stack, value["directory"], value["device"], value["data_dir"], log)


def orders_for(
    study: CodeReference, stacks: Sequence[Stack], directory: Path, device: str, data_dir: str | Path | None
) -> list[Order]:
    """Returns one order per stack, its paths made absolute."""
    out = str(directory.absolute())
    data = None if data_dir is None else str(Path(data_dir).expanduser().absolute())
    heads = Log.read(directory).heads
    return [Order(study, stack, out, device, data, heads) for stack in stacks]
