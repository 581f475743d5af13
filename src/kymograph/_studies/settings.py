"""A study's settings: the name, type, range and description of every field."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._runs.storable import is_exact, shown, stored_scalar


def build_config(config_type: type, fields: Mapping[str, Any], study: str) -> Any:
    """Returns a study's configuration with ``fields`` set, each checked for its name and type."""
    config = config_type(**fit_settings(config_type, fields, study))
    for field in dataclasses.fields(config):
        _check_stored(field.name, getattr(config, field.name))
    return config


def _check_stored(name: str, value: Any) -> None:
    """Raises if a record could not hold the value of a setting, so that it would not be read back."""
    if isinstance(value, tuple):
        for item in value:
            _check_stored(name, item)
    elif isinstance(value, float) and not math.isfinite(value):  # JSON has no name for it
        raise UsageError(f"{name} must be a finite number, not {value}; use None for none")
    else:
        stored_scalar(value, f"the setting {name}", "settings are strings, numbers, Booleans, None and tuples of these")


def fit_settings(config_type: type, fields: Mapping[str, Any], study: str) -> dict[str, Any]:
    """Returns ``fields`` as the types that the configuration declares; raises on a wrong name or type.

    Whether the values are consistent is checked by the configuration itself.
    """
    hints = _type_hints(config_type)
    names = [field.name for field in dataclasses.fields(config_type) if field.init]
    checked = {}
    for name, value in fields.items():
        if name not in names:
            raise UsageError(f"{study} has no setting {name!r}{did_you_mean(name, names)}")
        checked[name] = _fit(hints[name], value, name)
    return checked


@functools.cache
def _type_hints(config_type: type) -> dict[str, Any]:
    return typing.get_type_hints(config_type)  # cached: it evaluates every annotation, and a study has dozens of arms


def check_settings(config_type: type, study: str) -> None:
    """Raises unless every field of a configuration has a default, and a type that JSON can hold."""
    try:
        hints = typing.get_type_hints(config_type)
    except Exception as error:  # an annotation is code, and may use undefined names
        raise KymographError(f"the types of {study}'s settings cannot be read: {error}") from None
    for field in dataclasses.fields(config_type):
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init and missing:
            raise KymographError(f"the setting {field.name} of {study} has no default; every setting needs one")
        if not _is_supported(hints[field.name]):
            raise KymographError(
                f"the setting {field.name} of {study} cannot be of type {_type_name(hints[field.name])}; settings are "
                "strings, numbers, booleans, choices (Literal), a union of these, or a tuple of one of them"
            )


_SCALARS = (str, int, float, bool, types.NoneType)


def _is_supported(hint: Any) -> bool:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal or hint in _SCALARS:
        return True
    if origin in (types.UnionType, typing.Union):
        return all(map(_is_supported, options))
    return origin is tuple and all(option is Ellipsis or _is_supported(option) for option in options)


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")


def _fit(hint: Any, value: Any, name: str) -> Any:
    """Returns ``value`` as the type ``hint``; raises if it does not fit."""
    wrong = UsageError(f"{name} must be of type {_type_name(hint)}, not {shown(value)}")
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in options:
            raise UsageError(f"{name} cannot be {value!r}{did_you_mean(str(value), map(str, options))}")
        return value
    if origin in (types.UnionType, typing.Union):
        return _fit_any(options, value, name, wrong)
    if origin is tuple:
        return _fit_tuple(options, value, name, wrong)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if not is_exact(value):
            raise UsageError(f"{name} must be of type float, and no float is {shown(value)}; write it as a float")
        value = float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise wrong
    return value


def _fit_any(options: tuple[Any, ...], value: Any, name: str, wrong: KymographError) -> Any:
    """Returns ``value`` unchanged if the union has its type (1 in ``float | int``), else as the first that fits."""
    if type(value) in options:
        return value
    real = [option for option in options if option is not types.NoneType]
    if len(real) == 1:
        return _fit(real[0], value, name)
    for option in real:
        with contextlib.suppress(KymographError):
            return _fit(option, value, name)
    raise wrong


def _fit_tuple(options: tuple[Any, ...], value: Any, name: str, wrong: KymographError) -> tuple[Any, ...]:
    """Returns a list or tuple as a tuple of the declared types."""
    if not isinstance(value, list | tuple):
        raise wrong
    hints = (options[0],) * len(value) if options[1:] == (Ellipsis,) else options
    if len(hints) != len(value):
        raise wrong
    return tuple(_fit(hint, item, name) for hint, item in zip(hints, value, strict=True))


def at_least(name: str, value: float, least: float) -> None:
    """Raises unless ``value`` is finite and not below ``least``."""
    if not math.isfinite(value) or value < least:
        raise UsageError(f"{name} must be at least {least}, not {value}")


def above_zero(name: str, value: float) -> None:
    """Raises unless ``value`` is finite and positive."""
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name} must be above 0, not {value}")


class SettingDoc(NamedTuple):
    """One setting: its name, its default and the docstring below it in the code, empty if there is none."""

    name: str
    default: Any
    about: str


def setting_docs(config_type: type) -> list[SettingDoc]:
    """Returns every setting of a configuration, in the order of declaration.

    Args:
        config_type: a dataclass; a string below a field describes it, as in the help of `kymograph run`.
    """
    texts: dict[str, str] = {}
    for kind in reversed(config_type.__mro__):
        texts |= _field_texts(kind)
    return [
        SettingDoc(
            field.name,
            field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
            texts.get(field.name, ""),
        )
        for field in dataclasses.fields(config_type)
        if field.init
    ]


def _field_texts(kind: type) -> dict[str, str]:
    """Returns the strings that follow the fields in a class's source; empty if the source is not available."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }  # fmt: skip
