"""Command lines into dataclasses with tyro, and every mistake into one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

from kymograph.errors import KymographError, did_you_mean

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], program: str) -> T:
    """Returns ``kind``, a dataclass, filled from ``arguments``; prints help and exits if that is asked for."""
    import tyro

    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            filled, unknown = tyro.cli(
                kind,
                prog=program,
                args=list(arguments),
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        raise KymographError(_sentence(errors.getvalue(), program)) from None
    if unknown:
        option = unknown[0].split("=")[0]
        known = [f"--{field.replace('_', '-')}" for field in _field_names(kind)]
        raise KymographError(f"{program} has no option {option!r}{did_you_mean(option, known)}")
    return filled


def parse_with_settings(
    kind: type[T], config_type: type, arguments: Sequence[str], program: str
) -> tuple[T, dict[str, Any]]:
    """Returns ``kind`` filled from ``arguments``, and those settings of a study that they give, not yet checked.

    What makes no sense with the defaults may do so with what an arm sets, so that they are checked with the arm's.
    """
    unchecked = {"__post_init__": lambda _: None, "__doc__": config_type.__doc__}
    settings = type("Settings", (config_type,), unchecked)
    both = dataclasses.make_dataclass(
        "Run",
        [
            ("sweep", kind, dataclasses.field(default=kind())),  # the help's headings are these names
            ("study", settings, dataclasses.field(default=settings())),
        ],
        frozen=True,
    )
    parsed: Any = parse(both, arguments, program)
    return parsed.sweep, {name: getattr(parsed.study, name) for name in given(config_type, arguments)}


def given(kind: type, arguments: Sequence[str]) -> set[str]:
    """Returns the names of the fields of ``kind`` that ``arguments`` set, as opposed to those left at default."""
    words = {word.split("=")[0].replace("_", "-") for word in arguments if word.startswith("--")}
    return {
        name
        for name in _field_names(kind)
        if f"--{name.replace('_', '-')}" in words or f"--no-{name.replace('_', '-')}" in words
    }


def _field_names(kind: Any) -> list[str]:
    """Returns the option names of a dataclass, those of dataclasses inside it included."""
    names: list[str] = []
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        inner = hints[field.name]
        names += _field_names(inner) if dataclasses.is_dataclass(inner) else [field.name.rstrip("_")]
    return names


def _sentence(text: str, program: str) -> str:
    """Returns the message inside tyro's framed error text as one line."""
    lines = [re.sub(r"[│╭╮╰╯─]", " ", line).strip() for line in text.splitlines()]
    body: list[str] = []
    for line in lines[1:]:
        if re.fullmatch(r"-{5,}", line) or not line:
            if body:
                break
            continue
        body.append(line)
    message = " ".join(body) or " ".join(filter(None, lines)) or "the arguments could not be read"
    return f"{message.rstrip('.')} (see `{program} --help`)"
