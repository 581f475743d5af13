"""The settings of a study: from what a user gave, and with their defaults and texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from kymograph._errors import KymographError
from kymograph._studies.settings import SettingDoc, build_config, setting_docs


@dataclass(frozen=True)
class Settings:
    """Settings of a study that somebody wrote."""

    lr: float = 0.1
    clip: float | None = None
    rates: tuple[float, ...] = (0.1, 0.2)


@pytest.mark.parametrize(
    ("name", "value"), [("lr", float("nan")), ("clip", float("inf")), ("rates", [0.1, -float("inf")])]
)
def test_a_number_that_no_record_can_hold_is_one_sentence(name: str, value: object) -> None:
    """``run study.py --lr nan`` used to end in an apology."""
    with pytest.raises(KymographError, match=f"{name} must be a finite number, not .*; use None for none"):
        build_config(Settings, {name: value}, "mine")
    assert build_config(Settings, {"lr": 1, "clip": None}, "mine") == Settings(1.0)


@dataclass(frozen=True)
class Free:
    """Settings whose types allow values that no record can hold."""

    n: int = 1
    name: str = "a"
    pairs: tuple[tuple[int, ...], ...] = ()


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        (Free, "n", 10**400, "the setting n is an integer of 401 digits, and at most 300 are stored"),
        (Free, "name", "a\udc80", "the setting name is 'a.udc80', whose lone surrogate cannot be stored"),
        (Free, "pairs", ((1, -(10**300)),), "the setting pairs is an integer of 301 digits"),
        (Settings, "lr", 10**400, "lr must be of type float, and no float is an integer of 401 digits"),
        (Settings, "lr", 2**53 + 1, "lr must be of type float, and no float is 9007199254740993"),
    ],
)
def test_a_setting_that_could_not_be_read_back_is_one_sentence(
    kind: type, name: str, value: object, words: str
) -> None:
    with pytest.raises(KymographError, match=words):
        build_config(kind, {name: value}, "mine")


@dataclass(frozen=True)
class Base:
    lr: float = 0.1
    """The rate of
    the optimizer."""
    steps: int = 10


@dataclass(frozen=True)
class Derived(Base):
    steps: int = 20
    """How long."""
    layers: tuple[int, ...] = field(default_factory=lambda: (1, 2))
    hidden: int = field(default=0, init=False)


def test_texts_and_defaults_come_from_the_class_that_declares_them_last() -> None:
    assert setting_docs(Derived) == [
        SettingDoc("lr", 0.1, "The rate of the optimizer."),
        SettingDoc("steps", 20, "How long."),
        SettingDoc("layers", (1, 2), ""),
    ]


def test_a_class_without_source_has_settings_without_texts() -> None:
    made = dataclasses.make_dataclass("Made", [("lr", float, field(default=0.5))])
    assert setting_docs(made) == [SettingDoc("lr", 0.5, "")]
