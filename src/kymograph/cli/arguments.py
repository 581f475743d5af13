"""Turns command lines into dataclasses with tyro, and every mistake into one sentence.

A verb declares its options as a frozen dataclass whose docstrings are the help texts. `positional`, `shown` and
`choice` go into ``Annotated``:

    @dataclass(frozen=True)
    class Options:
        directory: Annotated[str, positional(), shown("DIR")]
        output: Annotated[str, shown("FILE", short="-o")] = "report.html"
        engine: Annotated[str, choice(ENGINES)] = "auto"

Annotations are evaluated when a command line is parsed (``from __future__ import annotations``), so that a verb which
parses nothing does not import tyro.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from kymograph.cli import script_flags
from kymograph.cli.choices import Choices
from kymograph.cli.guarded_output import unguarded_output
from kymograph.cli.help_text import fitting_output
from kymograph.errors import KymographError, UsageError, did_you_mean

T = TypeVar("T")


def positional() -> Any:
    """Marks a field that is given by position and not as ``--name``."""
    import tyro

    return tyro.conf.Positional


def shown(
    metavar: str | None = None, *, default: str | None = None, name: str | None = None, short: str | None = None
) -> Any:
    """Sets how the help shows an option.

    Args:
        metavar: the placeholder for the value, e.g. ``DIR``; default: its type.
        default: what happens without the option, where the field's own default (None, or nothing) does not say it.
        name: the option's name, where it differs from the field's.
        short: a short form such as ``-o``.
    """
    import tyro

    return tyro.conf.arg(
        metavar=metavar,
        help_behavior_hint=None if default is None else f"(default: {default})",
        name=name,
        aliases=None if short is None else (short,),
    )


def choice(choices: Choices, *, several: bool = False) -> Any:
    """Restricts a field to the names of a registry, or to a tuple of them; the help lists them."""
    from tyro.constructors import PrimitiveConstructorSpec

    shown = "{" + ",".join(choices.names()) + "}"
    return PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=f"[{shown} ...]" if several else shown,
        instance_from_str=lambda words: tuple(map(choices.check, words)) if several else choices.check(words[0]),
        is_instance=lambda value: True,  # the default may be None
        str_from_instance=lambda value: list(value) if several else [str(value)],
    )


def parse(kind: type[T], words: Sequence[str], program: str) -> T:
    """Returns ``kind``, a dataclass, filled from ``words``; prints help and exits if that is asked for.

    Words of an option may be joined by ``-`` or ``_``. For a flag of a research script, the error names its equivalent.
    """
    import tyro

    for option, word in itertools.pairwise(["", *words]):
        if word == "" or re.fullmatch(r"--[a-z-]+=", word):
            raise UsageError(f"{program}: {(word or option).rstrip('=') or 'an argument'} has an empty value; give one")
    hints = {f"--{name.rstrip('_').replace('_', '-')}": hint for name, hint in option_fields(kind).items()}
    known = list(hints)
    said = script_flags.answer(words, program, known)
    if said is not None:
        raise UsageError(said)
    errors = io.StringIO()
    try:
        with unguarded_output(), fitting_output(), contextlib.redirect_stderr(errors):
            filled, unknown = tyro.cli(
                kind,
                prog=program,
                args=list(words),
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        raise UsageError(_not_a_number(hints, words) or _sentence(errors.getvalue(), program)) from None
    if unknown:
        option = unknown[0].split("=")[0]
        raise UsageError(f"{program} has no option {option!r}{did_you_mean(option, known)}")
    return filled


def parse_with_settings(kind: type[T], config_type: type, words: Sequence[str], program: str) -> tuple[T, dict]:
    """Returns ``kind`` filled from ``words``, and the study's settings that they give, not yet checked.

    Settings that are invalid with the defaults may be valid with an arm's, so they are checked together with the arm's.
    """
    import tyro

    clash = sorted(set(_field_names(kind)) & set(_field_names(config_type)))
    if clash:
        raise KymographError(f"{program}: the setting {clash[0]!r} has the name of an option; rename the setting")
    unchecked = {"__post_init__": lambda _: None, "__doc__": config_type.__doc__}
    settings = type("Settings", (config_type,), unchecked)
    both = dataclasses.make_dataclass(
        "Run",
        [
            ("sweep", Annotated[kind, tyro.conf.arg(name="")], dataclasses.field(default=kind())),
            ("study", settings, dataclasses.field(default=settings())),  # its name is the heading in the help
        ],
        frozen=True,
    )
    parsed: Any = parse(both, words, program)
    return parsed.sweep, {name: getattr(parsed.study, name) for name in given(config_type, words)}


def given(kind: type, words: Sequence[str]) -> set[str]:
    """Returns the names of the fields of ``kind`` that ``words`` set, as opposed to those left at default."""
    options = {word.split("=")[0].replace("_", "-") for word in words if word.startswith("--")}
    return {
        name
        for name in _field_names(kind)
        if f"--{name.replace('_', '-')}" in options or f"--no-{name.replace('_', '-')}" in options
    }


def settings_from(conditions: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that ``--where`` asks for.

    >>> settings_from(["lr=0.1", "task=identity", "clip=True"])
    {'lr': 0.1, 'task': 'identity', 'clip': True}
    """
    fields = {}
    for condition in conditions:
        name, equals, text = condition.partition("=")
        if not equals:
            raise UsageError(f"--where takes FIELD=VALUE, not {condition!r}")
        fields[name] = _value(text)
    return fields


def grid_from(conditions: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the settings that ``--grid`` varies, with their values.

    >>> grid_from(["lr=0.1,0.03", "task=identity,orthogonal"])
    {'lr': [0.1, 0.03], 'task': ['identity', 'orthogonal']}
    """
    fields = {}
    for condition in conditions:
        name, equals, texts = condition.partition("=")
        if not equals or not texts:
            raise UsageError(f"--grid takes FIELD=VALUE,VALUE,..., not {condition!r}")
        fields[name] = [_value(text) for text in texts.split(",")]
    return fields


def seeds_from(words: Sequence[str]) -> list[int]:
    """Returns seeds as numbers; names the first word that is not a whole number."""
    for word in words:
        if not word.isdecimal():
            raise UsageError(f"a seed must be a whole number, not {word!r}")
    return [int(word) for word in words]


def at_least(option: str, value: int, least: int) -> None:
    """Raises unless the option's value is ``least`` or more."""
    if value < least:
        raise UsageError(f"--{option} must be at least {least}, not {value}")


def _value(text: str) -> Any:
    """Parses a text as a number, a Boolean or None; anything else stays a string."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except ValueError:
        return text


def option_fields(kind: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass that are options, with their types, including those of nested dataclasses."""
    found: dict[str, Any] = {}
    plain, hints = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        inner = plain[field.name]
        if dataclasses.is_dataclass(inner):
            found |= option_fields(inner)
        elif positional() not in typing.get_args(hints[field.name]):
            found[field.name] = inner
    return found


def _field_names(kind: Any) -> list[str]:
    """Returns the names of a dataclass's fields, including those of nested dataclasses."""
    names: list[str] = []
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        inner = hints[field.name]
        names += _field_names(inner) if dataclasses.is_dataclass(inner) else [field.name.rstrip("_")]
    return names


def _not_a_number(hints: Mapping[str, Any], words: Sequence[str]) -> str | None:
    """Returns, in one sentence, the first option that takes a number and was given something else; None if none was."""
    option, left = "", 0
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for word in parts:
        if word.startswith("--"):
            option = word.replace("_", "-")
            hint = hints.get(option)
            several = any(typing.get_origin(kind) is tuple for kind in (hint, *typing.get_args(hint)))
            left = len(parts) if several else 1
            continue
        kinds = {kind for kind in _scalars(hints.get(option)) if kind is not type(None)}
        if left > 0 and kinds and kinds <= {int, float}:
            try:
                float(word) if float in kinds else int(word)
            except ValueError:
                if word.lower() != "none":
                    return f"{option} must be a {'' if float in kinds else 'whole '}number, not {word!r}"
        left -= 1
    return None


def _scalars(hint: Any) -> set[Any]:
    """Returns the types that a union or a tuple is made of."""
    inner = typing.get_args(hint)
    return set().union(*map(_scalars, inner)) if inner else {hint} - {Ellipsis, None}


def _sentence(text: str, program: str) -> str:
    """Returns the message inside tyro's framed error text as one line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # colours, which a variable such as FORCE_COLOR asks for
    lines = [re.sub(r"[│╭╮╰╯─]", " ", line).strip() for line in plain.splitlines()]
    body: list[str] = []
    for line in lines[1:]:
        if re.fullmatch(r"-{5,}", line) or not line:
            if body:
                break
            continue
        body.append(line)
    message = " ".join(body) or " ".join(filter(None, lines)) or "the arguments could not be read"
    return f"{message.rstrip('.')} (see `{program} --help`)"
