"""The names of options, which no setting of a study can have."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping

from kymograph.lab.run import run
from kymograph.sweep.engines.base import ENGINES, options_type

_ALWAYS = ("arm", "debug", "help", "seed", "version")
"""What names a run, and the options that every verb has."""


@functools.cache
def reserved_names() -> Mapping[str, str]:
    """Returns the names of all options for running a study, each with a phrase for its owner.

    They are those of `kymograph.run` and of the built-in engines. The command line has the same options under the same
    names; a test compares them.
    """
    found: dict[str, str] = {}
    for engine in filter(ENGINES.is_built_in, ENGINES.names()):
        kind = options_type(engine)
        own = dataclasses.fields(kind) if kind is not None else ()
        found |= {field.name: f"an option of the engine {engine}" for field in own}
    parameters = inspect.signature(run).parameters.items()
    shared = [*_ALWAYS, *(name for name, one in parameters if one.kind is not one.VAR_KEYWORD)]
    return found | dict.fromkeys(shared, "an option of every study")
