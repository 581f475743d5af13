"""Names of options, which no setting of a study can have."""

from __future__ import annotations

import dataclasses
import functools
import inspect

from kymograph.lab.run import run
from kymograph.sweep.engines.base import ENGINES, options_type

_ALWAYS = frozenset({"arm", "debug", "help", "seed", "version"})
"""What names a run, and the options that every verb has."""


@functools.cache
def reserved_names() -> frozenset[str]:
    """Returns the names of all options of running a study: those of `kymograph.run` and of the built-in engines.

    The command line has the same options under the same names; a test compares them.
    """
    own = {name for name, one in inspect.signature(run).parameters.items() if one.kind is not one.VAR_KEYWORD}
    kinds = [options_type(name) for name in ENGINES.names() if ENGINES.is_built_in(name)]
    engines = {field.name for kind in kinds if kind is not None for field in dataclasses.fields(kind)}
    return frozenset(own | engines | _ALWAYS)
