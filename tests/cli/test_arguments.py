from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest

from kymograph._cli import arguments
from kymograph._cli.arguments import (
    ENGINES,
    FORMATS,
    SPREADS,
    STYLES,
    Choices,
    Formerly,
    NamedStudy,
    SelectOptions,
    at_least,
    choice,
    given,
    named_study,
    parse,
    parse_with_settings,
    positional,
    seeds_from,
    settings_from,
    shown,
    with_engine_options,
)
from kymograph._cli.verbs.experiment import RunOptions
from kymograph._errors import KymographError
from kymograph._registry import Registry
from kymograph._runs.store import Store
from tests.cli.command import write_coin

COLOURS = Choices("colour", lambda: ["red", "green"], also=("any",))


@dataclass(frozen=True)
class Inner:
    """A group."""

    depth: int = 1
    """How deep."""


@dataclass(frozen=True)
class Options:
    """A verb."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Where."""
    from_: Annotated[tuple[str, ...], shown("PATH ...", name="from"), Formerly("--source-files")] = ("here",)
    """From where."""
    output: Annotated[str | None, shown("FILE", short="-o", default="nowhere")] = None
    """To where."""
    colour: Annotated[str, choice(COLOURS)] = "any"
    """Which one."""
    colours: Annotated[tuple[str, ...], choice(COLOURS, several=True), shown(default="all")] = ()
    """Which ones."""
    inner: Inner = field(default_factory=Inner)
    width: tuple[float, ...] | None = None
    """How wide."""


def parsed(*words: str) -> Options:
    return parse(Options, words, "prog")


def test_words_fill_the_dataclass() -> None:
    assert parsed("runs") == Options("runs")
    found = parsed(
        "runs", "--from", "a", "b", "-o", "x", "--colour", "red", "--colours", "green", "red", "--depth", "3"
    )
    assert found == Options("runs", ("a", "b"), "x", "red", ("green", "red"), Inner(3))
    assert parsed("--output", "x", "runs").output == "x"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "DIR"),
        (("runs", "--colour", "rde"), "^there is no colour 'rde'; did you mean 'red'?"),
        (("runs", "--colours", "red", "blue"), "^there is no colour 'blue'; known: any, green, red"),
        (("runs", "--dept", "3"), "prog has no option '--dept'; did you mean '--depth'?"),
        (("runs", "--form", "a"), "did you mean '--from'?"),
        (("runs", "--depth", "deep"), "^--depth must be a whole number, not 'deep'$"),
        (("runs", "--depth=deep"), "^--depth must be a whole number, not 'deep'$"),
        (("runs", "--width", "1", "wide"), "^--width must be a number, not 'wide'$"),
        (("runs", "--qqqq", "3"), "known: --colour, --colours, --depth, --from, --output, --width$"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(KymographError, match=message.replace("?", r"\?")) as error:
        parsed(*words)
    assert "\n" not in str(error.value)


def test_a_mistake_has_no_colours_in_it_where_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook `!kymograph` used to answer with escape sequences between the words."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(KymographError) as error:
        parsed()
    assert str(error.value).isprintable()


def test_the_help_shows_the_names_and_the_defaults_that_the_dataclass_declares(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as exit_:
        parsed("--help")
    text = capsys.readouterr().out
    assert not exit_.value.code
    for words in ("[OPTIONS] DIR", "-o FILE, --output FILE", "(default: nowhere)", "--colour {red,green,any}",
                  "[{red,green,any} ...]", "(default: all)", "--from PATH ...", "inner options"):  # fmt: skip
        assert words in text


@dataclass(frozen=True)
class Sweep:
    """What to run."""

    dir: Annotated[str, shown("DIR"), Formerly("--out")] = "runs"
    """Where."""


@dataclass(frozen=True)
class Config:
    """Settings of a study."""

    lr: float = 0.1
    """The learning rate."""
    clip: bool = False
    """Whether gradients are clipped."""

    def __post_init__(self) -> None:
        if self.lr > 1:
            raise KymographError("lr is too large")


def test_settings_of_a_study_are_only_those_given_and_are_not_checked_yet() -> None:
    assert parse_with_settings(Sweep, Config, [], "prog") == (Sweep(), {})
    found = parse_with_settings(Sweep, Config, ["--lr", "5", "--no-clip", "--dir", "x"], "prog")
    assert found == (Sweep("x"), {"lr": 5.0, "clip": False})
    assert given(Config, ["--lr=0.3"]) == {"lr"}


def test_an_option_of_an_earlier_version_still_works_and_says_its_new_name(capsys: pytest.CaptureFixture) -> None:
    for words in (["--out", "x", "--lr", "5"], ["--out=x", "--lr=5"]):
        assert parse_with_settings(Sweep, Config, words, "prog") == (Sweep("x"), {"lr": 5.0})
        assert capsys.readouterr().err == "note: --out is now --dir\n"
    assert parsed("runs", "--source_files", "a", "b").from_ == ("a", "b")
    assert capsys.readouterr().err == "note: --source-files is now --from\n"
    assert parse_with_settings(Sweep, Config, ["--dir", "x"], "prog") == (Sweep("x"), {})
    assert capsys.readouterr().err == ""


@dataclass(frozen=True)
class Shipping:
    """Settings of a study that has the earlier name of an option."""

    out: int = 0
    """How many are out."""


def test_a_studys_own_setting_goes_before_the_earlier_name_of_an_option(capsys: pytest.CaptureFixture) -> None:
    assert parse_with_settings(Sweep, Shipping, ["--out", "3"], "prog") == (Sweep("runs"), {"out": 3})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "words", [("--dir", "there"), ("--dir=there",), ("--from", "a", "b", "--dir", "there"), ("there",)], ids=" ".join
)
def test_the_directory_may_be_named_by_its_option_where_it_is_the_only_word(words: tuple[str, ...]) -> None:
    assert parsed(*words).directory == "there"
    with pytest.raises(KymographError, match="prog cannot use the word 'elsewhere'"):
        parsed("elsewhere", "--dir", "there")


def test_where_takes_settings_as_numbers_truth_values_and_words() -> None:
    words = ["lr=0.1", "epochs=60", "task=identity", "clip=True", "limit=None", "note=a=b"]
    assert settings_from(words) == {
        "lr": 0.1, "epochs": 60, "task": "identity", "clip": True, "limit": None, "note": "a=b"
    }  # fmt: skip
    with pytest.raises(KymographError, match="--where takes FIELD=VALUE, not 'lr'"):
        settings_from(["lr"])


def test_seeds_are_whole_numbers() -> None:
    assert seeds_from(["42", "0"]) == [42, 0]
    with pytest.raises(KymographError, match=r"a seed must be a whole number, not '1\.5'"):
        seeds_from(["42", "1.5"])


def test_a_number_below_the_least_is_named_with_its_option() -> None:
    at_least("draws", 19, 19)
    with pytest.raises(KymographError, match="--draws must be at least 19, not 18"):
        at_least("draws", 18, 19)


def test_the_names_are_those_of_the_registries() -> None:
    assert ENGINES.names() == [*Registry("kymograph.engines", "kymograph._sweep.engines").names(), "auto"]
    assert {"serial", "processes"} <= set(ENGINES.names())
    assert FORMATS.names() == Registry("kymograph.formats", "kymograph._runs.formats").names()
    assert {"json", "csv", "parquet", "tensorboard", "mlflow"} <= set(FORMATS.names())
    assert STYLES.names() == ["notebook", "paper", "slides"]
    assert SPREADS.names()


def test_a_name_that_is_not_there_gets_the_nearest() -> None:
    assert ENGINES.check("auto") == "auto"
    with pytest.raises(KymographError, match=r"there is no engine 'autto'; did you mean 'auto'\?"):
        ENGINES.check("autto")


def test_a_study_is_named_by_its_stored_name_or_by_its_code(tmp_path: Path) -> None:
    path = str(write_coin(tmp_path))
    assert named_study(None) == NamedStudy(None) and named_study("absent") == NamedStudy("absent")
    for reference in (path, f"{path}:Coin"):
        study = named_study(reference)
        assert study.name == "coin" and [code.name for code in study.code] == ["coin"]


def test_selected_runs_are_of_the_study_arms_and_settings_asked_for(depth_store: Store) -> None:
    root = str(depth_store.root)
    whole, study = SelectOptions().open(root)
    assert study == NamedStudy(None)
    assert {run.id for run in whole} == {run.id for run in depth_store}
    part, _ = SelectOptions("depth", ("res*",), ("width=8", "task=identity")).open(root)
    assert part.arms and all(arm.startswith("res") for arm in part.arms) and len(part) < len(whole)
    for options, message in (
        (SelectOptions("dept"), "has no runs of 'dept'; did you mean 'depth'"),
        (SelectOptions(arms=("resi",)), "has no arm 'resi'"),
        (SelectOptions(where=("width=9",)), "no run has width=9"),
    ):
        with pytest.raises(KymographError, match=message):
            options.open(root)


def test_an_engine_brings_its_own_options(capsys: pytest.CaptureFixture) -> None:
    def with_options(*words: str) -> RunOptions:
        return parse(with_engine_options(RunOptions, words), words, "kymograph run coin.py")

    partition = ("--partition", "gpu")
    options = with_options("--engine", "slurm", *partition, "--sbatch", "mem=4G", "account=x", "--detach")
    made = options.compute.compute_options("runs", options)
    assert made.engine == "slurm" and made.engine_options["partition"] == "gpu" and made.engine_options["detach"]
    assert made.engine_options["sbatch"] == ("mem=4G", "account=x")
    assert with_options().compute.compute_options("runs", with_options()).engine_options == {}
    with pytest.raises(KymographError, match="no option '--partition'"):
        with_options(*partition)
    with pytest.raises(SystemExit):
        with_options("--engine=dask", "--help")
    shown = capsys.readouterr().out
    assert "dask options" in shown and "--scheduler ADDRESS" in shown


def test_hints_are_asked_only_about_options_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from other packages, which a command that is spelt right need not load."""
    asked = []

    def hint(words: Sequence[str], program: str, known: Sequence[str]) -> str | None:
        asked.append((words, program, known))
        return "--wdith is --width here" if "--wdith" in words else None

    monkeypatch.setattr(arguments.HINTS, "names", lambda: ["mine"])
    monkeypatch.setattr(arguments.HINTS, "load", lambda name: hint)
    parsed("runs", "--depth=3", "-o", "x", "--width", "2")
    assert parse_with_settings(Sweep, Config, ["--no-clip", "--dir", "x"], "prog") and asked == []
    with pytest.raises(KymographError, match=r"^--wdith is --width here$"):
        parsed("runs", "--wdith", "2")
    with pytest.raises(KymographError, match="has no option '--heigth'"):
        parsed("runs", "--heigth", "2")
    assert [program for _, program, _ in asked] == ["prog", "prog"] and "--width" in asked[0][2]
