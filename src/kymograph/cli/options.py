"""Groups of options that several verbs share."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from kymograph.cli.arguments import choice, settings_from, shown
from kymograph.cli.choices import DATA_SETS, ENGINES

if TYPE_CHECKING:
    from kymograph.lab.run import SweepOptions
    from kymograph.runs.store import Store
    from kymograph.studies.base import Study

T = TypeVar("T")


@dataclass(frozen=True)
class SelectOptions:
    """Which stored runs to use."""

    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study: its name, or module:Name or file.py to load a user-defined study as well."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="all")] = ()
    """Only these arms, by name or pattern."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="all")] = ()
    """Only runs with these settings, e.g. --where lr=0.1 task=identity."""

    def open(self, directory: str) -> tuple[Store, NamedStudy]:
        """Returns the runs of a directory that the options ask for, and the study that they name."""
        from kymograph.lab.select_runs import select

        study = named_study(self.study)
        return select(directory, study.name, self.arms, settings_from(self.where)), study


@dataclass(frozen=True)
class DeviceOptions:
    """The device, and the directory of data sets that are not embedded."""

    device: Annotated[str, shown("DEVICE")] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    data_dir: Annotated[str | None, shown("DIR", default="the environment variable KYMOGRAPH_DATA")] = None
    """Directory of a data set that is not embedded; for CIFAR-10, in either official layout."""


@dataclass(frozen=True)
class EngineOptions(DeviceOptions):
    """How and where the runs are computed."""

    engine: Annotated[str, choice(ENGINES)] = "auto"
    """What computes the runs; auto chooses by the amount of work. Some engines have options of their own, which
    --engine NAME --help lists."""
    workers: Annotated[int | None, shown("N", default="one per core or accelerator")] = None
    """Number of worker processes, or of jobs that run at a time."""
    debug: bool = False
    """Print the tracebacks of failed runs, and of an error."""

    def sweep_options(self, out: str, options: Any, quiet: bool = False) -> SweepOptions:
        """Returns how the runs in the directory ``out`` are computed; ``options`` are the verb's."""
        from kymograph.lab.run import SweepOptions

        own = getattr(options, _field(self.engine), None)
        given = {} if own is None else {one.name: getattr(own, one.name) for one in dataclasses.fields(own)}
        return SweepOptions(out, self.engine, self.workers, self.device, self.data_dir, quiet, given, self.debug)


def _field(engine: str) -> str:
    """Returns the name of the field with an engine's own options, which is also their heading in the help."""
    return engine.replace("-", "_")


def with_engine_options(kind: type[T], words: Sequence[str]) -> type[T]:
    """Returns ``kind``, a verb's options, with a further field for the options of the engine that ``words`` name."""
    from kymograph.sweep.engines.base import options_type

    text = [part for word in words for part in (word.split("=", 1) if word.startswith("--engine=") else [word])]
    names = [after for word, after in itertools.pairwise(text) if word == "--engine"]
    own = options_type(names[-1]) if names and names[-1] in ENGINES.names() else None
    if own is None:
        return kind
    hints = typing.get_type_hints(own)
    # Subclasses, because tyro finds the help texts in the source of the classes below.
    shown_fields = [
        (one.name, Annotated[hints[one.name], shown(one.metadata.get("metavar"), default=one.metadata.get("default"))],
         dataclasses.field(default=one.default))
        for one in dataclasses.fields(own)
    ]  # fmt: skip
    options_type = dataclasses.make_dataclass(names[-1], shown_fields, bases=(own,), frozen=True)
    extra: list[Any] = [(_field(names[-1]), options_type, dataclasses.field(default_factory=options_type))]
    made = dataclasses.make_dataclass(kind.__name__, extra, bases=(kind,), frozen=True)
    made.__doc__ = kind.__doc__
    return made


@dataclass(frozen=True)
class TestDataOptions(DeviceOptions):
    """The test images and the device that a trained network is measured on."""

    data: Annotated[str | None, choice(DATA_SETS), shown(default="those it was trained on; cifar10 for a .pt file")] = (
        None
    )
    """Test images."""


@dataclass(frozen=True)
class NamedStudy:
    """The study that ``--study`` names: the name of its stored runs, and its code if the user names that."""

    name: str | None
    code: tuple[Study, ...] = ()


def named_study(study: str | None) -> NamedStudy:
    """Returns the study that a user names: by its stored name, or by its code, which is then loaded.

    named_study("depth")                          a stored name: nothing is imported
    named_study("warmup.py"), "warmup.py:Warmup"  a file
    named_study("my.package:Warmup")              a module
    """
    if study is None or not (":" in study or study.endswith(".py")):
        return NamedStudy(study)
    from kymograph.studies.loading import load_study

    code = load_study(study)
    return NamedStudy(code.name, (code,))
