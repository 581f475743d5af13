from __future__ import annotations

from dataclasses import dataclass

from kymograph.runs.spec import RunSpec
from kymograph.runs.summaries import by_arm_and_settings


@dataclass(frozen=True)
class Run:
    arm: str
    spec: RunSpec | None


def run(arm: str, seed: int, source: str | None = None, **settings: float) -> Run:
    return Run(arm, RunSpec("s", arm, seed, settings, 1, source))


def test_settings_in_which_an_arm_s_runs_differ_make_groups_and_name_them() -> None:
    runs = [run(arm, seed, lr=lr, width=8) for lr in (0.1, 0.03) for arm in ("a", "b") for seed in (1, 2)]
    groups = by_arm_and_settings(runs)
    assert list(groups) == ["a (lr=0.1)", "b (lr=0.1)", "a (lr=0.03)", "b (lr=0.03)"]
    assert all(len(members) == 2 for members in groups.values())


def test_settings_in_which_only_the_arms_differ_are_not_named() -> None:
    assert list(by_arm_and_settings([run("a", 1, lr=0.1), run("b", 1, lr=0.2)])) == ["a", "b"]


def test_code_is_part_of_the_settings_and_an_unreadable_run_has_none() -> None:
    assert list(by_arm_and_settings([run("a", 1, "x"), run("a", 1, "y")])) == ["a (source=x)", "a (source=y)"]
    assert list(by_arm_and_settings([Run("a", None), Run("a", None)])) == ["a"]
