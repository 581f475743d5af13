"""What to run, from a TOML file: settings, a grid, arms and seeds.

lr = 0.05
steps = 300
arms = ["constant", "warmup"]
n_seeds = 10                    # or seeds = [42, 123]

[grid]
width = [16, 64]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.foreign.documents import read_toml
from kymograph.foreign.files import is_file
from kymograph.studies.base import Study
from kymograph.studies.settings import fit_settings


@dataclass(frozen=True)
class SweepChoice:
    """The runs to compute; what is empty or None is left to the study."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Settings."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings that are varied."""
    seeds: tuple[int, ...] | None = None
    n_seeds: int | None = None
    arms: tuple[str, ...] = ()

    def over(self, other: SweepChoice) -> SweepChoice:
        """Returns this choice, with gaps filled from another one; where both have a setting, this one wins."""
        has_seeds = self.seeds is not None or self.n_seeds is not None
        chosen = self if has_seeds else other
        return SweepChoice(
            {name: value for name, value in other.fields.items() if name not in self.grid} | dict(self.fields),
            {name: values for name, values in other.grid.items() if name not in self.fields} | dict(self.grid),
            chosen.seeds,
            chosen.n_seeds,
            self.arms or other.arms,
        )


def read_settings(path: str | Path, study: Study) -> SweepChoice:
    """Returns the runs of ``study`` that a TOML file asks for; every name and type in it is checked."""
    file = Path(path)
    if not is_file(file):
        raise KymographError(f"there is no settings file {file}")
    content = read_toml(file)
    try:
        return _choice(content, study)
    except KymographError as error:
        raise KymographError(f"{file}: {error}") from None


def _choice(content: Mapping[str, Any], study: Study) -> SweepChoice:
    settings = [one.name for one in fields(study.config_type) if one.init]
    for name in content:
        if name not in (*settings, *_CHECKS):
            raise KymographError(f"{study.name} has no setting {name!r}{did_you_mean(name, [*settings, *_CHECKS])}")
    for name, (is_right, kind) in _CHECKS.items():
        if name in content and not is_right(content[name]):
            raise KymographError(f"{name} must be {kind}, not {content[name]!r}")
    given = {name: value for name, value in content.items() if name not in _CHECKS}
    grid: dict[str, list[Any]] = {}
    for name, values in content.get("grid", {}).items():
        if not isinstance(values, list):
            raise KymographError(
                f"the grid takes a list of values of {name}, e.g. {name} = [0.1, 0.03], not {values!r}"
            )
        grid[name] = [fit_settings(study.config_type, {name: value}, study.name)[name] for value in values]
    seeds = content.get("seeds")
    return SweepChoice(
        fit_settings(study.config_type, given, study.name),
        grid,
        None if seeds is None else tuple(seeds),
        content.get("n_seeds"),
        tuple(content.get("arms", ())),
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: Mapping[str, tuple[Any, str]] = {
    "arms": (lambda found: isinstance(found, list) and all(isinstance(one, str) for one in found), "a list of strings"),
    "grid": (lambda found: isinstance(found, dict), "a table, [grid]"),
    "n_seeds": (_is_whole, "a whole number"),
    "seeds": (lambda found: isinstance(found, list) and all(map(_is_whole, found)), "a list of whole numbers"),
}
"""What a file may hold besides settings: a check of each, and its type in words."""
