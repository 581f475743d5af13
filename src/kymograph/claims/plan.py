"""How registered claims are to be decided: over which seeds, at which looks, with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kymograph.claims.design import Design
from kymograph.claims.grid import Grid
from kymograph.runs.arm_settings import ArmSettings
from kymograph.runs.files import plain
from kymograph.runs.tuned import Tuned, rules_from_json


@dataclass(frozen=True)
class Plan:
    """The seeds, the looks and the settings of a registration."""

    seeds: tuple[int, ...]
    design: Design
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The settings that the user chose at registration."""
    settings: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings, these included; empty if the study's code was not available."""
    grid: Grid = field(default_factory=dict)
    """The settings that are varied, with their values: every claim is made at every point."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    """The rule that chooses a setting of each tuned arm, by arm: the rule is registered, not the value."""

    def settings_given(self, defaults: ArmSettings) -> ArmSettings:
        """Returns every arm's registered settings; if there are none, the defaults with the chosen fields."""
        if self.settings or not defaults:
            return self.settings
        return ArmSettings.pack({arm: defaults.of(arm) | dict(self.fields) for arm in defaults.arms})

    def rules_given(self, declared: Mapping[str, Tuned]) -> Mapping[str, Tuned]:
        """Returns the registered tuning rules; if no settings were registered, also those that the study declares."""
        return self.tuned if self.settings else {**declared, **self.tuned}

    def to_json(self) -> dict[str, Any]:
        """Returns the plan as stored in the log."""
        settings = {"settings": self.settings.to_json()} if self.settings else {}
        return {
            "seeds": list(self.seeds),
            "design": self.design.to_json(),
            "fields": plain(dict(self.fields)),
            **settings,
            **({"tuned": {arm: rule.to_json() for arm, rule in self.tuned.items()}} if self.tuned else {}),
            # A list, because the log sorts the keys of objects, and claims are named after the settings in their order.
            **({"grid": [[name, list(values)] for name, values in self.grid.items()]} if self.grid else {}),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Plan:
        """Returns the plan of a registration; raises ValueError if it cannot be read."""
        seeds, fields = content.get("seeds"), content.get("fields", {})
        if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds) or not seeds:
            raise ValueError("a registration states no seeds")
        if not isinstance(fields, dict):
            raise ValueError("a registration's settings must be an object")
        design = Design.from_json(content.get("design", {}), seeds)
        settings = ArmSettings.from_json(content["settings"]) if "settings" in content else ArmSettings()
        tuned = rules_from_json(content.get("tuned", {}))
        return Plan(tuple(seeds), design, fields, settings, _grid(content.get("grid", {})), tuned)


def _grid(content: Any) -> dict[str, list[Any]]:
    """Returns the grid of a log entry: pairs of a setting and its values, or an object of lists."""
    try:
        grid = dict(content)
    except (TypeError, ValueError):
        grid = None
    if grid is None or not all(isinstance(values, list) and values for values in grid.values()):
        raise ValueError("a registration's grid must be a list of settings and their values")
    return grid
