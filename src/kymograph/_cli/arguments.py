"""Turns command lines into dataclasses with tyro, every mistake into one sentence; options that verbs share.

A verb declares its options as a frozen dataclass whose docstrings are the help texts. `positional`, `shown`,
`choice` and `Formerly` go into ``Annotated``:

    @dataclass(frozen=True)
    class Options:
        directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
        output: Annotated[str, shown("FILE", short="-o"), Formerly("--out")] = "report.html"
        engine: Annotated[str, choice(ENGINES)] = "auto"

The directory of runs is ``directory`` if it is a verb's only positional word, and else the option ``dir``; what else is
written is ``output``.

Annotations are evaluated when a command line is parsed (``from __future__ import annotations``), so that a verb which
parses nothing does not import tyro.
"""

from __future__ import annotations

import atexit
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

from kymograph._cli.output import fitting_output, note, unguarded_output
from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._io.files import is_file, opened
from kymograph._registry import Registry

if TYPE_CHECKING:
    from kymograph._experiments.stages import ComputeOptions
    from kymograph._runs.conditions import Condition
    from kymograph._runs.store import Store
    from kymograph._studies.study import Study

T = TypeVar("T")
HINTS = Registry("kymograph.hints", noun="hint")
"""Functions of installed packages that know what a user may have meant by options which do not exist here.

Each is called with the command line, the program and the options that it has, and returns a sentence or None."""


# Names that an option may take.


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


def parts_of(module: str, table: str) -> Callable[[], Iterable[str]]:
    """Returns a function that lists a registry's parts, or a table's keys; it imports their module when called."""

    def names() -> Iterable[str]:
        parts: Registry | Iterable[str] = getattr(importlib.import_module(module), table)
        return parts.names() if isinstance(parts, Registry) else parts

    return names


ENGINES = Choices("engine", parts_of("kymograph._sweep.engines.base", "ENGINES"), also=("auto",))
FORMATS = Choices("format", parts_of("kymograph._runs.formats", "FORMATS"))
SPREADS = Choices("spread", parts_of("kymograph._pictures.scales", "SPREADS"))
STYLES = Choices("style", parts_of("kymograph._pictures.styles", "STYLES"))


# How the fields of an options dataclass are given and shown.


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

    names = "{" + ",".join(choices.names()) + "}"
    return PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=f"[{names} ...]" if several else names,
        instance_from_str=lambda words: tuple(map(choices.check, words)) if several else choices.check(words[0]),
        is_instance=lambda value: True,  # the default may be None
        str_from_instance=lambda value: list(value) if several else [str(value)],
    )


@dataclass(frozen=True)
class Formerly:
    """A name that an option had in earlier versions; it still works, with a note that says the new one."""

    name: str


def option_fields(kind: Any) -> dict[str, Any]:
    """Returns the types of a dataclass's options by name, including those of nested dataclasses; no positionals."""
    options: dict[str, Any] = {}
    plain, annotated = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = plain[field.name]
        if dataclasses.is_dataclass(hint):
            options |= option_fields(hint)
        elif positional() not in typing.get_args(annotated[field.name]):
            options[field.name.rstrip("_")] = hint
    return options


def option_words(kind: Any) -> list[str]:
    """Returns the options of a dataclass as they are typed; Booleans also have a ``--no-`` form."""
    words = ["--help"]
    for name, hint in option_fields(kind).items():
        words += [_typed(name), _typed(f"no_{name}")] if hint is bool else [_typed(name)]
    return words


def _typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def former_names(kind: Any) -> dict[str, str]:
    """Returns the options of a dataclass, as they are typed, by the names that they had in earlier versions."""
    names: dict[str, str] = {}
    plain, annotated = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(plain[field.name]):
            names |= former_names(plain[field.name])
        for mark in typing.get_args(annotated[field.name]):
            if isinstance(mark, Formerly):
                names[mark.name] = _typed(field.name.rstrip("_"))
    return names


# Parsing.


def parse(kind: type[T], words: Sequence[str], program: str) -> T:
    """Returns ``kind``, a dataclass, filled from ``words``; prints help and exits if that is asked for.

    Words of an option may be joined by ``-`` or ``_``. An option that does not exist may get an answer from `HINTS`.
    """
    import tyro

    words = _with_current_names(kind, words)
    for option, word in itertools.pairwise(["", *words]):
        if word == "" or re.fullmatch(r"--[a-z-]+=", word):
            raise UsageError(f"{program}: {(word or option).rstrip('=') or 'an argument'} has an empty value; give one")
    options = {_typed(name): hint for name, hint in option_fields(kind).items()}
    if {word.split("=")[0] for word in words if word.startswith("--")} - set(option_words(kind)):
        hints = (HINTS.load(name)(words, program, list(options)) for name in HINTS.names())
        if answer := "; ".join(filter(None, hints)):
            raise UsageError(answer)
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
        raise UsageError(_not_a_number(options, words) or _sentence(errors.getvalue(), program)) from None
    if unknown:
        option = unknown[0].split("=")[0]
        if not option.startswith("-"):
            hint = f"did you mean `--dir {unknown[0]}`?" if "--dir" in options else f"see `{program} --help`"
            raise UsageError(f"{program} cannot use the word {unknown[0]!r}; {hint}")
        raise UsageError(f"{program} has no option {option!r}{did_you_mean(option, options)}")
    return filled


def _with_current_names(kind: Any, words: Sequence[str]) -> list[str]:
    """Returns a command line with the current names of its options; a note says what was called something else.

    ``--dir DIR`` is understood as well where the directory is the verb's only positional word.
    """
    options, former = option_words(kind), former_names(kind)
    renamed: dict[str, str] = {}
    current: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        typed = name.replace("_", "-")
        if typed in former and typed not in options:  # a study's own setting may have the name by now
            renamed[typed] = former[typed]
            word = f"{former[typed]}{equals}{value}"
        current.append(word)
    for name, now in renamed.items():
        note(f"{name} is now {now}")
    if "--dir" in options or not {"directory", "directories"} & {field.name for field in dataclasses.fields(kind)}:
        return current
    for index, word in enumerate(current):
        if word.startswith("--dir="):
            return [word.removeprefix("--dir="), *current[:index], *current[index + 1 :]]
        if word == "--dir":
            if index + 1 == len(current):
                raise UsageError("--dir needs a value: the directory of runs")
            return [current[index + 1], *current[:index], *current[index + 2 :]]
    return current


def _not_a_number(options: Mapping[str, Any], words: Sequence[str]) -> str | None:
    """Returns, in one sentence, the first option that takes a number and was given something else; None if none was."""
    option = ""
    for word in itertools.chain(*(word.split("=", 1) if word.startswith("--") else [word] for word in words)):
        if word.startswith("--"):
            option = word.replace("_", "-")
            continue
        hint = options.get(option)
        kinds = _scalars(hint)
        if kinds and kinds <= {int, float} and word.lower() != "none":
            try:
                float(word) if float in kinds else int(word)
            except ValueError:
                return f"{option} must be a {'' if float in kinds else 'whole '}number, not {word!r}"
        if not any(typing.get_origin(part) is tuple for part in (hint, *typing.get_args(hint))):
            option = ""  # it takes one value
    return None


def _scalars(hint: Any) -> set[Any]:
    """Returns the types that a union or a tuple is made of, without None."""
    inner = typing.get_args(hint)
    return set().union(*map(_scalars, inner)) if inner else {hint} - {..., None, type(None)}


def _sentence(box: str, program: str) -> str:
    """Returns as one line the message in tyro's framed error text: what is between its title and the next rule.

    Of what is missing, the line has the names alone.
    """
    text = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯]", "", box)  # colours too, which e.g. FORCE_COLOR asks for
    framed = re.sub(r"^ *-{5,} *\n", "", text.partition("\n")[2])  # without a frame in ASCII, a rule follows the title
    message = re.split(r"\n *(?:[─-]{5,}|\n)", framed)[0]
    said = " ".join(message.split()).rstrip(".") or "the arguments could not be read"
    if value := re.match(r"Missing value for argument '(\S+)'", said):
        said = f"{value[1]} needs a value"
    elif said.startswith("Missing from "):
        lines = [line for line in message.splitlines()[1:] if line.strip()]
        margin = min(len(line) - len(line.lstrip()) for line in lines)
        names = [line.strip().split(", -")[0] for line in lines if line[margin] != " "]
        said = f"{program} needs {' and '.join(names)}"
    return f"{said} (see `{program} --help`)"


def parse_with_settings(
    kind: type[T], config_type: type[Any], words: Sequence[str], program: str
) -> tuple[T, dict[str, Any]]:
    """Returns ``kind`` filled from ``words``, and the study's settings that they give, not yet checked.

    Settings that are invalid with the defaults may be valid with an arm's, so they are checked together with the arm's.
    """
    import tyro

    clash = sorted(set(option_fields(kind)) & set(option_fields(config_type)))
    if clash:
        raise KymographError(f"{program}: the setting {clash[0]!r} has the name of an option; rename the setting")
    settings = type("Settings", (config_type,), {"__post_init__": lambda _: None, "__doc__": config_type.__doc__})
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


def given(kind: type[Any], words: Sequence[str]) -> set[str]:
    """Returns the names of the options of ``kind`` that ``words`` set, as opposed to those left at default."""
    typed = {word.split("=")[0].replace("_", "-") for word in words if word.startswith("--")}
    return {name for name in option_fields(kind) if typed & {_typed(name), _typed(f"no_{name}")}}


# Values of options.


def settings_from(conditions: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that ``--where`` asks for.

    >>> settings_from(["lr=0.1", "task=identity", "clip=True"])
    {'lr': 0.1, 'task': 'identity', 'clip': True}
    """
    fields = {}
    for condition in conditions_from(conditions, "FIELD=VALUE"):
        if condition.sign != "=":
            raise UsageError(f"--where takes FIELD=VALUE, not {str(condition)!r}; only `kymograph show` compares")
        fields[condition.name] = condition.value
    return fields


def conditions_from(texts: Sequence[str], form: str = "NAME=VALUE, NAME<VALUE and the like") -> list[Condition]:
    """Returns the conditions that ``--where`` asks for; ``form`` says in an error how they are written.

    >>> conditions_from(["lr<=0.1"])
    [Condition(name='lr', sign='<=', value=0.1, text='0.1')]
    """
    from kymograph._runs.conditions import Condition, split_condition

    conditions = []
    for text in texts:
        parts = split_condition(text)
        if parts is None:
            raise UsageError(f"--where takes {form}, not {text!r}")
        name, sign, value = parts
        conditions.append(Condition(name, sign, _value(value), value))
    return conditions


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


def _value(text: str) -> Any:
    """Parses a text as a number, a Boolean or None; anything else stays a string."""
    if re.fullmatch(r"[+-]?\.\d+(e[+-]?\d+)?", text, re.IGNORECASE):
        return float(text)  # .5 is a number, though not in JSON
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except ValueError:
        return text


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


# Options that several verbs share.


@dataclass(frozen=True)
class NamedStudy:
    """The study that ``--study`` names: the name of its stored runs, and its code if the user names that."""

    name: str | None
    code: tuple[Study[Any], ...] = ()


def named_study(study: str | None) -> NamedStudy:
    """Returns the study that a user names: by its stored name, or by its code, which is then loaded.

    named_study("depth")                          a stored name: nothing is imported
    named_study("warmup.py"), "warmup.py:Warmup"  a file
    named_study("my.package:Warmup")              a module
    """
    if study is None or not (":" in study or study.endswith(".py")):
        return NamedStudy(study)
    from kymograph._studies.loading import load_study

    code = load_study(study)
    return NamedStudy(code.name, (code,))


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
        from kymograph._runs.directory import select

        study = named_study(self.study)
        return select(directory_of_runs(directory), study.name, self.arms, settings_from(self.where)), study


_unpacked = contextlib.ExitStack()
"""The bundles that a command reads, each in a temporary directory until the process ends."""
atexit.register(_unpacked.close)


def directory_of_runs(path: str) -> str:
    """Returns ``path``, or, if it is a bundle, the directory that its runs are unpacked into while the command runs."""
    if not is_bundle(path):
        return path
    from kymograph._sharing.bundle import opened_runs

    return str(_unpacked.enter_context(opened_runs(path)))


def is_bundle(path: str) -> bool:
    """Returns whether ``path`` is a file that begins like a bundle; `opened_runs` checks the rest."""
    if not is_file(path):
        return False
    with opened(path, 2**36) as file:  # bundles can be large
        return file.read(2) == b"PK"


@dataclass(frozen=True)
class DeviceOptions:
    """The device, and the directory of data files."""

    device: Annotated[str, shown("DEVICE")] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    data_dir: Annotated[str | None, shown("DIR", default="the environment variable KYMOGRAPH_DATA")] = None
    """Directory of data files that a study reads."""


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

    def compute_options(self, directory: str, options: Any, quiet: bool = False) -> ComputeOptions:
        """Returns how the runs in a directory are computed; ``options`` are the verb's."""
        from kymograph._experiments.stages import ComputeOptions

        engine = getattr(options, _field(self.engine), None)
        fields = () if engine is None else dataclasses.fields(engine)
        engine_options = {field.name: getattr(engine, field.name) for field in fields}
        return ComputeOptions(
            directory, self.engine, self.workers, self.device, self.data_dir, quiet, engine_options, self.debug
        )


def _field(engine: str) -> str:
    """Returns the name of the field with an engine's own options, which is also their heading in the help."""
    return engine.replace("-", "_")


def with_engine_options(kind: type[T], words: Sequence[str]) -> type[T]:
    """Returns ``kind``, a verb's options, with a further field for the options of the engine that ``words`` name."""
    from kymograph._sweep.engines.base import options_type

    text = [part for word in words for part in (word.split("=", 1) if word.startswith("--engine=") else [word])]
    names = [after for word, after in itertools.pairwise(text) if word == "--engine"]
    engine_type = options_type(names[-1]) if names and names[-1] in ENGINES.names() else None
    if engine_type is None:
        return kind
    hints = typing.get_type_hints(engine_type)
    # Subclasses, because tyro finds the help texts in the source of the classes below.
    fields = [
        (
            field.name,
            Annotated[hints[field.name], shown(field.metadata.get("metavar"), default=field.metadata.get("default"))],
            dataclasses.field(default=field.default),
        )
        for field in dataclasses.fields(engine_type)
    ]
    engine_options = dataclasses.make_dataclass(names[-1], fields, bases=(engine_type,), frozen=True)
    extra: list[Any] = [(_field(names[-1]), engine_options, dataclasses.field(default_factory=engine_options))]
    made = dataclasses.make_dataclass(kind.__name__, extra, bases=(kind,), frozen=True)
    made.__doc__ = kind.__doc__
    return made
