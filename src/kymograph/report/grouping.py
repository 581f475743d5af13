"""What is shown together: series in the declared order, arms that share a panel, runs that share their settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kymograph.runs.declaration import Declaration
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.runs.superseded import current_code

ARMS_PER_PANEL = 6
"""The number of colours that every reader can tell apart on white and on black."""
_CODE = ("study version", "study source")


@dataclass(frozen=True)
class ArmGroup:
    """Arms that share a panel, and the panel's title."""

    title: str
    arms: tuple[str, ...]


@dataclass(frozen=True)
class SettingGroup:
    """Runs of one study that share every setting but those that distinguish their arms."""

    title: str
    """The settings that distinguish these runs from the study's others; empty if there are no others."""
    store: Store
    superseded: bool = False
    """Whether the runs were computed by an earlier version or source of the study."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The same settings, by name."""


def group_arms(arms: Sequence[str], declared: Mapping[str, str] | None = None) -> list[ArmGroup]:
    """Returns the arms of each panel: those with a declared panel together, the others in order, evenly divided.

    >>> group_arms(["a/1", "b/1", "a/2"], {"a/1": "a", "a/2": "a", "b/1": "b"})
    [ArmGroup(title='a', arms=('a/1', 'a/2')), ArmGroup(title='b', arms=('b/1',))]
    """
    named: dict[str, list[str]] = {}
    for arm in arms:
        named.setdefault((declared or {}).get(arm, ""), []).append(arm)
    others = named.pop("", [])
    groups = [
        ArmGroup(title, tuple(members[first : first + ARMS_PER_PANEL]))
        for title, members in named.items()
        for first in range(0, len(members), ARMS_PER_PANEL)
    ]
    count = -(-len(others) // ARMS_PER_PANEL)
    size = -(-len(others) // count) if count else 1
    for first in range(0, len(others), size):
        last = min(first + size, len(others))
        title = f"arms {first + 1} to {last} of {len(others)}" if count > 1 else "other arms" if groups else ""
        groups.append(ArmGroup(title, tuple(others[first:last])))
    return groups


def group_settings(store: Store, declarations: Mapping[str, Declaration]) -> list[SettingGroup]:
    """Returns a study's runs, grouped by the settings that vary within some arm, e.g. two tasks.

    Runs superseded by a newer version or source of the study follow in separate groups.
    """
    code = current_code((run.spec for run in store), declarations)
    parts = ([run for run in store if code[run.study].made(run.spec) is current] for current in (True, False))
    return [
        SettingGroup(
            ", ".join([*(("superseded",) if superseded else ()), *_texts(settings)]),
            Store(runs, store.root),
            bool(superseded),
            settings,
        )
        for superseded, part in enumerate(parts)
        for settings, runs in _by_settings(part, _CODE if superseded else ())
    ]


def _texts(settings: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {value}" for name, value in settings.items() if name not in _CODE or value is not None]


def _by_settings(runs: Sequence[StoredRun], always: Collection[str]) -> list[tuple[dict[str, Any], list[StoredRun]]]:
    """Returns groups of runs, each with the settings that vary within some arm and those in ``always``."""
    by_arm: dict[str, dict[Any, dict[str, Any]]] = {}
    for run in runs:  # seeds share their settings, so one run of each configuration is enough
        code = (run.spec.settings_text, run.spec.version, run.spec.source)
        if code not in by_arm.setdefault(run.arm, {}):
            by_arm[run.arm][code] = _settings(run)
    varied = set(always)
    for members in (list(found.values()) for found in by_arm.values()):
        names = {name for settings in members for name in settings}
        varied |= {name for name in names if len({repr(settings.get(name)) for settings in members}) > 1}
    groups: dict[tuple[str, ...], tuple[dict[str, Any], list[StoredRun]]] = {}
    own: dict[Any, tuple[tuple[str, ...], dict[str, Any]]] = {}
    for run in runs:
        code = (run.spec.settings_text, run.spec.version, run.spec.source)
        if code not in own:
            settings = _settings(run)
            # A setting missing from a record had its default; such runs come first.
            chosen = {name: settings.get(name, "its default") for name in sorted(varied)}
            own[code] = tuple(repr(settings[name]) if name in settings else "" for name in chosen), chosen
        key, chosen = own[code]
        groups.setdefault(key, (chosen, []))[1].append(run)
    return [groups[key] for key in sorted(groups)]


def _settings(run: StoredRun) -> dict[str, Any]:
    return {**run.config, "study version": run.spec.version, "study source": run.spec.source}
