"""A study's settings: the name, type and range of every field, checked before anything is written."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from kymograph.errors import KymographError, did_you_mean


def build_config(config_type: type, fields: Mapping[str, Any], study: str) -> Any:
    """Returns a study's configuration with ``fields`` set, each checked for its name and type."""
    hints = typing.get_type_hints(config_type)
    known = [field.name for field in dataclasses.fields(config_type)]
    checked = {}
    for name, value in fields.items():
        if name not in known:
            raise KymographError(f"{study} has no field {name!r}{did_you_mean(name, known)}")
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
