"""A study's settings with their defaults and texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from kymograph.studies.loading import built_in_studies
from kymograph.studies.settings import SettingDoc, setting_docs


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


def test_every_setting_of_every_built_in_study_is_described() -> None:
    undescribed = [
        f"{study.name}.{one.name}" for study in built_in_studies() for one in setting_docs(study.config_type)
        if not one.about
    ]  # fmt: skip
    assert not undescribed
