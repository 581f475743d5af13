"""The settings of every arm of a study, stored as shared values and each arm's deviations from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kymograph.runs.files import plain


@dataclass(frozen=True)
class ArmSettings:
    """Resolved settings by arm; values that most arms share are stored once."""

    shared: Mapping[str, Any] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def pack(by_arm: Mapping[str, Mapping[str, Any]]) -> ArmSettings:
        """Packs settings by arm, taking the most common value of each setting as the shared one."""
        if not by_arm:
            return ArmSettings()
        configs = {arm: plain(dict(settings)) for arm, settings in by_arm.items()}
        shared = {}
        for name in next(iter(configs.values())):
            values = [settings.get(name) for settings in configs.values()]
            shared[name] = max(values, key=values.count)
        own = {
            arm: {name: value for name, value in settings.items() if name not in shared or shared[name] != value}
            for arm, settings in configs.items()
        }
        return ArmSettings(shared, own)

    def of(self, arm: str) -> dict[str, Any]:
        """Returns an arm's settings; empty for an unknown arm."""
        return {**self.shared, **self.arms[arm]} if arm in self.arms else {}

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON-compatible dictionary."""
        return {"shared": dict(self.shared), "arms": {arm: dict(own) for arm, own in self.arms.items()}}

    @staticmethod
    def from_json(content: Any) -> ArmSettings:
        """Rebuilds the settings from the output of `to_json`; raises ValueError if it is invalid."""
        try:
            shared, arms = content["shared"], content["arms"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"settings by arm lack {error}") from None
        if not isinstance(shared, dict) or not isinstance(arms, dict):
            raise ValueError("settings by arm must be objects")
        if not all(isinstance(own, dict) for own in arms.values()):
            raise ValueError("an arm's settings must be an object")
        return ArmSettings(shared, arms)

    def __bool__(self) -> bool:
        return bool(self.arms)
