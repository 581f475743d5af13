"""How every arm is labelled and drawn: one label, colour and dash, on the whole page and in all figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kymograph.runs.declaration import COLOURS as COLOUR_NAMES
from kymograph.runs.declaration import DASHES as DASH_NAMES
from kymograph.runs.declaration import Arm, Declaration

# Okabe and Ito (2008): distinguishable with every common colour vision deficiency; yellow, too pale, is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Lengths on and off, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2.5), (10, 3, 2, 3), (4, 2), (14, 3))
_USUAL = (0, 0, 1, 2, 3, 4, 0)
"""The dash of the first arm in each colour; the three solid colours differ in lightness."""


@dataclass(frozen=True)
class ArmLook:
    """An arm's label, and its colour and dash as indices into `COLOURS` and `DASHES`."""

    label: str
    colour: int
    dash: int

    @property
    def hex(self) -> str:
        """The colour, in matplotlib's notation."""
        return COLOURS[self.colour]

    @property
    def dashes(self) -> tuple[float, ...]:
        """The lengths on and off; empty for a solid line."""
        return DASHES[self.dash]


def arm_looks(declaration: Declaration, arms: Iterable[str] = ()) -> dict[str, ArmLook]:
    """Returns the look of every declared arm, and of further ``arms``, in that order.

    A look depends on the declaration alone, not on which arms were run, so that an arm looks the same everywhere.
    Declared colours and dashes are assigned first; the other arms take what is free.

    >>> looks = arm_looks(Declaration("s", arms=(Arm("a"), Arm("b", colour="blue"), Arm("c"))))
    >>> [(look.colour, look.dash) for look in looks.values()]
    [(1, 0), (0, 0), (2, 1)]
    """
    declared = {arm.name: arm for arm in declaration.arms}
    for name in arms:
        declared.setdefault(name, Arm(name))
    taken: dict[str, tuple[int, int]] = {}
    for arm in (one for one in declared.values() if one.colour):
        colour = COLOUR_NAMES.index(arm.colour)
        used = {dash for other, dash in taken.values() if other == colour}
        free = [DASH_NAMES.index(arm.dash)] if arm.dash else [n for n in range(len(DASHES)) if n not in used]
        if free:
            taken[arm.name] = colour, free[0]
    used_pairs = set(taken.values())
    rest = (pair for pair in _pairs() if pair not in used_pairs)
    for name in declared:
        if name not in taken:
            taken[name] = next(rest, (len(taken) % len(COLOURS), 0))
    return {name: ArmLook(arm.label or name, *taken[name]) for name, arm in declared.items()}


def _pairs() -> Iterator[tuple[int, int]]:
    """Yields every pair of colour and dash, colours first, so that successive arms differ as much as possible."""
    for turn in range(len(DASHES)):
        for colour, first in enumerate(_USUAL):
            yield colour, (first + turn) % len(DASHES)
