"""How an arm is tuned: a setting, its declared values, and the number by which the best is chosen on separate seeds.

The tuning runs are stored as a separate study, ``STUDY.tuning``, so that none of them can enter a verdict, a figure or
a table of the study itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.writing import plain
from kymograph._streams import MAX_SEED, fixed_tuning_seeds

SUFFIX = ".tuning"
LOWEST, HIGHEST = "lowest", "highest"


@dataclass(frozen=True)
class Tuned:
    """The rule by which the value of a setting is chosen before an arm is evaluated.

    >>> rule = ky.Tuned("lr", (0.3, 0.1, 0.03, 0.01), by="accuracy", best="highest", seeds=2)
    >>> rule.edge(0.3), rule.edge(0.03)
    ('largest', '')
    """

    setting: str
    """The setting that is chosen, e.g. ``lr``."""
    grid: Sequence[Any]
    """Its values; at least three if they are numbers, since the best must not lie at an edge."""
    by: str
    """The summary number by whose mean over the tuning seeds the value is chosen."""
    best: str
    """``lowest`` or ``highest``."""
    seeds: int | Sequence[int] = 3
    """How many seeds of the fixed tuning list, or a list of seeds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", tuple(self.grid))
        if self.best not in (LOWEST, HIGHEST):
            raise KymographError(
                f"{self.setting} must be tuned for the {LOWEST} or the {HIGHEST} {self.by}, not {self.best!r}"
            )
        if len({repr(plain(value)) for value in self.grid}) < max(len(self.grid), 2):
            raise KymographError(f"{self.setting} must be tuned over distinct values, e.g. (0.3, 0.1, 0.03)")
        if self.numeric and len(self.grid) < 3:
            raise KymographError(
                f"{self.setting} needs a grid of at least three numbers, since a best value at an edge decides nothing"
            )
        if isinstance(self.seeds, int):
            if self.seeds < 1:
                raise KymographError(f"{self.setting} must be tuned on at least one seed, not {self.seeds}")
            return
        object.__setattr__(self, "seeds", tuple(self.seeds))
        wrong = [seed for seed in self.seeds if type(seed) is not int or not 0 <= seed <= MAX_SEED]
        if wrong or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise KymographError(f"{self.setting} needs distinct whole numbers from 0 to {MAX_SEED} as tuning seeds")

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, so that the grid has edges."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.grid)

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """The seeds on which the value is chosen."""
        return fixed_tuning_seeds(self.seeds) if isinstance(self.seeds, int) else tuple(self.seeds)

    def edge(self, value: Any) -> str:
        """Returns ``smallest`` or ``largest`` if the value is at an edge of a grid of numbers, else an empty string."""
        if not self.numeric:
            return ""
        return "smallest" if value == min(self.grid) else "largest" if value == max(self.grid) else ""

    def __str__(self) -> str:
        values = ", ".join(str(value) for value in self.grid)
        count = len(self.tuning_seeds)
        return (
            f"{self.setting} among {values} by the {self.best} mean {self.by} over "
            f"{count} tuning {'seed' if count == 1 else 'seeds'}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the rule as stored in declarations and registrations."""
        return {"setting": self.setting, "grid": plain(self.grid), "by": self.by, "best": self.best,
                "seeds": list(self.tuning_seeds)}  # fmt: skip

    @staticmethod
    def from_json(content: Any) -> Tuned:
        """Rebuilds the rule from the output of `to_json`; raises ValueError if it is invalid."""
        try:
            return Tuned(str(content["setting"]), tuple(content["grid"]), str(content["by"]), content["best"],
                         tuple(content["seeds"]))  # fmt: skip
        except (KeyError, TypeError, KymographError) as error:
            raise ValueError(f"a tuning rule cannot be read: {error}") from None


def rules_from_json(content: Any) -> dict[str, Tuned]:
    """Returns the rule of every tuned arm; raises ValueError if one is invalid."""
    if not isinstance(content, Mapping):
        raise ValueError("tuning rules must be an object")
    return {str(arm): Tuned.from_json(rule) for arm, rule in content.items()}


def tuning_study(study: str) -> str:
    """Returns the name under which the tuning runs of a study are stored."""
    return f"{study}{SUFFIX}"


def tuned_study(name: str) -> str | None:
    """Returns the study whose tuning runs are stored under ``name``; None if that is not a name for tuning runs."""
    return name.removesuffix(SUFFIX) if name.endswith(SUFFIX) and name != SUFFIX else None
