"""The values of options that name a part: the names come from the registries and are never listed here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kymograph.errors import UsageError, did_you_mean

SCRIPT = "script"
"""The format of a study's research script, which the study itself defines."""


@dataclass(frozen=True)
class Choices:
    """The names that an option may take, looked up on demand."""

    noun: str
    find: Callable[[], Iterable[str]]
    also: tuple[str, ...] = ()
    """Names that are not parts, e.g. ``auto``."""

    def names(self) -> list[str]:
        """Returns every name, in display order."""
        return [*self.find(), *self.also]

    def check(self, name: str) -> str:
        """Returns ``name``; if there is no such part, raises and suggests the nearest name."""
        names = self.names()
        if name not in names:
            raise UsageError(f"there is no {self.noun} {name!r}{did_you_mean(name, names)}")
        return name


def _parts(module: str, registry: str) -> Callable[[], Iterable[str]]:
    """Returns a function that lists a registry's parts; the module is imported only when it is called."""
    return lambda: getattr(importlib.import_module(module), registry).names()


def _downloads() -> Iterable[str]:
    """Returns the data sets that are files."""
    from kymograph.data import DATA_SETS as registry

    return (name for name, part in registry.parts().items() if "files" in part.facts)


def _styles() -> Iterable[str]:
    from kymograph.figures.looks import LOOKS

    return LOOKS


def _spreads() -> Iterable[str]:
    from kymograph.figures.spreads import SPREADS as known

    return known


def _shells() -> Iterable[str]:
    from kymograph.cli.completion import SCRIPTS

    return SCRIPTS


DATA_SETS = Choices("data set", _parts("kymograph.data", "DATA_SETS"))
DOWNLOADS = Choices("data set to download called", _downloads)
ENGINES = Choices("engine", _parts("kymograph.sweep.engines.base", "ENGINES"), also=("auto",))
FORMATS = Choices("format", _parts("kymograph.runs.export", "FORMATS"), also=(SCRIPT,))
MODELS = Choices("model", _parts("kymograph.models", "MODELS"))
NULLS = Choices("null", _parts("kymograph.analysis.nulls", "NULLS"))
SHELLS = Choices("completion for the shell", _shells)
SPREADS = Choices("spread", _spreads)
STYLES = Choices("style", _styles)
