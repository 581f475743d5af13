"""Turns command lines into dataclasses with tyro, and every mistake into one sentence; options that verbs share.

[cli.arguments] Turns command lines into dataclasses with tyro, and every mistake into one sentence.

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
import importlib
import io
import itertools
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from kymograph.cli.output import fitting_output, unguarded_output
from kymograph.errors import KymographError, UsageError, did_you_mean
from kymograph.registry import Registry

if TYPE_CHECKING:
    from kymograph.experiments.stages import SweepOptions
    from kymograph.runs.store import Store
    from kymograph.studies.study import Study


HINTS = Registry("kymograph.hints", noun="hint")
"""Functions of installed packages that know what a user may have meant by options which do not exist here."""


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


def parts_of(module: str, registry: str) -> Callable[[], Iterable[str]]:
    """Returns a function that lists a registry's parts; the module is imported only when it is called."""
    return lambda: getattr(importlib.import_module(module), registry).names()


def _styles() -> Iterable[str]:
    from kymograph.pictures.styles import LOOKS

    return LOOKS


def _spreads() -> Iterable[str]:
    from kymograph.pictures.scales import SPREADS as known

    return known


def _shells() -> Iterable[str]:
    from kymograph.cli.verbs.maintenance import SCRIPTS

    return SCRIPTS


ENGINES = Choices("engine", parts_of("kymograph.sweep.engines.base", "ENGINES"), also=("auto",))
FORMATS = Choices("format", parts_of("kymograph.runs.formats", "FORMATS"))
SHELLS = Choices("completion for the shell", _shells)
SPREADS = Choices("spread", _spreads)
STYLES = Choices("style", _styles)


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
    said = "; ".join(filter(None, (HINTS.load(name)(words, program, known) for name in HINTS.names())))
    if said:
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
        from kymograph.runs.listing import select

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
        from kymograph.experiments.stages import SweepOptions

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
