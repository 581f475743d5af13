"""A study's settings with their defaults and descriptions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from typing import Any, NamedTuple


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
    found = []
    for field in dataclasses.fields(config_type):
        if field.init:
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            found.append(SettingDoc(field.name, default, texts.get(field.name, "")))
    return found


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
