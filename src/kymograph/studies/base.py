"""The seam between a study and everything that runs, stores, draws or judges it."""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import math
import sys
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.claims.claim import Claim
    from kymograph.runs.store import Store

BUILT_IN = {
    "clipping": "kymograph.studies.clipping:Clipping",
    "depth": "kymograph.studies.depth:Depth",
    "snapshot": "kymograph.studies.snapshot:Snapshot",
    "calibration": "kymograph.studies.calibration:Calibration",
    "audit": "kymograph.studies.audit:Audit",
}


@dataclass(frozen=True)
class Arm:
    """One condition of a study.

    ``treatment`` is what the arm is about, and the user cannot override it; ``preset`` is a setting it comes
    with, which the user's own value replaces.
    """

    name: str
    about: str
    treatment: Mapping[str, Any] = field(default_factory=dict)
    preset: Mapping[str, Any] = field(default_factory=dict)
    default: bool = False
    """Whether the arm runs when no arms are named."""


class Study(ABC):
    """A question, the arms that answer it, how a stack of its runs is trained, and its figures."""

    name: ClassVar[str]
    question: ClassVar[str]
    version: ClassVar[int]
    """Raised whenever the numbers change, so that stored runs of an older version are not taken for new ones."""
    config_type: ClassVar[type]
    largest_stack: ClassVar[int]
    """The most runs that train in one stack."""
    threads: ClassVar[int | None] = None
    """How many torch threads a stack can use when it is computed in this process; None: all."""

    telling: ClassVar[Sequence[str]] = ()
    """The settings without which a verdict on the study's runs could be misread, e.g. the data."""
    headlines: ClassVar[Mapping[str, str]] = {}
    """The few summary numbers that tell a run's story, with what to call them."""

    @abstractmethod
    def arms(self) -> Sequence[Arm]:
        """Returns every arm, the default ones first."""

    @abstractmethod
    def stack_key(self, config: Mapping[str, Any]) -> tuple:
        """Returns what must be equal for two runs to train in one stack."""

    @abstractmethod
    def steps(self, config: Mapping[str, Any]) -> int:
        """Returns how many steps a run takes, for progress bars."""

    @abstractmethod
    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains all ``specs`` together as one stack of replicas; returns their results in that order."""

    @abstractmethod
    def figures(self) -> Mapping[str, Callable[[Store], Figure]]:
        """Returns the functions that draw this study's figures from stored runs, by name."""

    def prepare(self, specs: Sequence[RunSpec]) -> None:  # noqa: B027
        """Raises, before anything is written, if something these runs need is not there."""

    def claims(self) -> Sequence[Claim]:
        """Returns what is predicted of the runs, to be registered before they exist."""
        return ()

    def to_script(self, store: Store) -> Mapping[str, Any]:
        """Returns one seed's runs in the layout of the research script's own file."""
        raise KymographError(f"the script behind {self.name} wrote no file, so there is no layout to export to")

    def specs(
        self, seeds: Sequence[int], arms: Sequence[str] | None = None, fields: Mapping[str, Any] | None = None
    ) -> list[RunSpec]:
        """Returns the runs of the named arms (default: the default arms) at ``seeds``, with ``fields`` set."""
        fields = dict(fields or {})
        chosen = self.choose_arms(arms)
        return [self._spec(arm, seed, fields) for arm in chosen for seed in seeds]

    def choose_arms(self, names: Sequence[str] | None) -> list[Arm]:
        """Returns the arms named, which may be patterns such as ``extreme/*``, in the study's order."""
        known = {arm.name: arm for arm in self.arms()}
        if not names:
            return [arm for arm in known.values() if arm.default]
        chosen: set[str] = set()
        for name in names:
            matches = fnmatch.filter(known, name)
            if not matches:
                raise KymographError(f"{self.name} has no arm {name!r}{did_you_mean(name, known)}")
            chosen.update(matches)
        return [arm for arm in known.values() if arm.name in chosen]

    def _spec(self, arm: Arm, seed: int, fields: Mapping[str, Any]) -> RunSpec:
        for name in fields:
            if name in arm.treatment and fields[name] != arm.treatment[name]:
                raise KymographError(
                    f"arm {arm.name!r} is about {name} = {arm.treatment[name]}; drop the arm or your own {name}"
                )
        config = build_config(self.config_type, {**arm.preset, **fields, **arm.treatment}, self.name)
        return RunSpec(self.name, arm.name, seed, dataclasses.asdict(config), self.version)


def build_config(config_type: type, fields: Mapping[str, Any], study: str) -> Any:
    """Builds a study's configuration, checking the name and the type of every field."""
    hints = typing.get_type_hints(config_type)
    checked = {}
    for name, value in fields.items():
        if name not in hints:
            raise KymographError(f"{study} has no field {name!r}{did_you_mean(name, hints)}")
        checked[name] = _fit(hints[name], value, name)
    return config_type(**checked)


def _fit(hint: Any, value: Any, name: str) -> Any:
    """Returns ``value`` as the type ``hint`` asks for, or says in one sentence what it should be."""
    if typing.get_origin(hint) is typing.Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            raise KymographError(f"{name} cannot be {value!r}{did_you_mean(str(value), map(str, choices))}")
        return value
    if isinstance(hint, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
        return None if value is None else _fit(options[0], value, name)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise KymographError(f"{name} must be of type {hint.__name__}, not {value!r}")
    return value


def at_least(name: str, value: float, least: float) -> None:
    """Raises unless ``value`` is finite and not below ``least``."""
    if not math.isfinite(value) or value < least:
        raise KymographError(f"{name} must be at least {least}, not {value}")


def above_zero(name: str, value: float) -> None:
    """Raises unless ``value`` is finite and positive."""
    if not math.isfinite(value) or value <= 0:
        raise KymographError(f"{name} must be above 0, not {value}")


def load_study(name: str) -> Study:
    """Returns the study called ``name``: a built-in one, or a user's own given as ``module:name``."""
    reference = BUILT_IN.get(name, name)
    if ":" not in reference:
        raise KymographError(f"there is no study {name!r}{did_you_mean(name, BUILT_IN)}")
    module_name, attribute = reference.split(":", 1)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
        study = found() if isinstance(found, type) else found
    except Exception as error:  # a user's module can fail to load in any way
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise KymographError(f"cannot load the study {name!r}: {reason}") from None
    if not isinstance(study, Study):
        raise KymographError(f"{name!r} is not a study; it must be a subclass of kymograph.Study")
    return study


def stored_study(name: str) -> Study | None:
    """Returns the study that stored runs name, if it is built in or the caller has imported it; None otherwise.

    A name read from a file imports nothing: whoever sent the file would choose what runs here.
    """
    module_name = name.split(":")[0]
    if name not in BUILT_IN and (":" not in name or module_name not in sys.modules):
        return None
    try:
        return load_study(name)
    except KymographError:
        return None


def list_studies() -> Iterable[Study]:
    """Yields every built-in study."""
    return (load_study(name) for name in BUILT_IN)
