"""Runs grouped by arm and settings: numbers of runs with different settings are never averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from kymograph.runs.spec import RunSpec


class _Run(Protocol):
    @property
    def arm(self) -> str: ...

    @property
    def spec(self) -> RunSpec | None: ...


R = TypeVar("R", bound=_Run)


def by_arm_and_settings(runs: Iterable[R]) -> dict[str, list[R]]:
    """Returns the runs by arm and by the settings in which an arm's runs differ, e.g. ``adam (lr=0.1)``, in order.

    A run without a spec, i.e. a record that cannot be read, has no settings.
    """
    members: dict[tuple[str, str, str | None], list[R]] = {}
    for run in runs:  # seeds of one arm share their settings
        text, source = ("", None) if run.spec is None else (run.spec.settings_text, run.spec.source)
        members.setdefault((run.arm, text, source), []).append(run)
    values: dict[tuple[str, str], set[str]] = {}
    for (arm, *_), group in members.items():
        for name, value in _settings(group[0]).items():
            values.setdefault((arm, name), set()).add(str(value))
    groups: dict[str, list[R]] = {}
    for (arm, *_), group in members.items():
        differing = [f"{name}={value}" for name, value in _settings(group[0]).items() if len(values[arm, name]) > 1]
        groups.setdefault(f"{arm} ({', '.join(differing)})" if differing else arm, []).extend(group)
    return groups


def _settings(run: _Run) -> Mapping[str, Any]:
    """Returns every setting, and the source of a user-defined study."""
    if run.spec is None:
        return {}
    return run.spec.settings if run.spec.source is None else {**run.spec.settings, "source": run.spec.source}
