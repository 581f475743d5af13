"""What a run is called, and settings that a study was given later."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from kymograph._runs.spec import ADDED_LATER, RunSpec, settings_of
from tests.studies.walks import Walks, WalksConfig


@dataclass(frozen=True)
class Before:
    """Settings as they were."""

    lr: float = 0.1
    task: str = "a"


@dataclass(frozen=True)
class After(Before):
    """The same with one that was added."""

    vary: str = dataclasses.field(default="all", metadata=ADDED_LATER)


def test_a_later_setting_at_its_default_changes_no_run() -> None:
    assert settings_of(After()) == settings_of(Before()) == {"lr": 0.1, "task": "a"}
    old, new = (RunSpec("s", "arm", 1, config, 1) for config in (Before(), After()))
    assert old.id == new.id and old.directory == new.directory


def test_a_later_setting_with_another_value_makes_another_run() -> None:
    assert settings_of(After(vary="order")) == {"lr": 0.1, "task": "a", "vary": "order"}
    ids = {RunSpec("s", "arm", 1, After(vary=source), 1).id for source in ("all", "order", "feedback")}
    assert len(ids) == 3


def test_other_settings_are_kept_at_their_defaults() -> None:
    """Only what is marked as later may be left out: a default that is edited must make other runs."""
    assert "lr" in settings_of(After()) and "lr" in settings_of(After(lr=0.1))


def test_a_spec_read_from_disk_is_the_same_run_as_the_studys_own() -> None:
    for vary in ("all", "feedback"):
        (spec,) = Walks().specs([7], ["extreme/clip"], {"vary": vary})
        stored = RunSpec.from_identity(spec.identity)
        assert stored.id == spec.id and stored.settings == spec.settings
        typed = Walks().typed(stored)
        assert isinstance(typed.config, WalksConfig) and typed.config.vary == vary and typed.id == spec.id


@pytest.mark.parametrize("vary", ["all", "order"])
def test_settings_are_a_copy(vary: str) -> None:
    config = After(vary=vary)
    settings_of(config)["lr"] = 9.0
    assert config.lr == 0.1
