"""Which settings a verdict must name, and whether its runs are set up as the research script was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kymograph.claims.claim import Claim, Quantity
from kymograph.claims.estimands import Run
from kymograph.claims.world import World, differing, distinct, quantities

TRANSFER, ALTERED = "transfer", "altered"
"""The set-up of a script's claim on other data than the script's, and with other settings."""
DATA = "data"
"""The setting that names a study's data."""


def named_settings(claim: Claim, world: World) -> dict[str, Any]:
    """Returns the settings that a reader must know: the qualifying ones, and all that are not the study's defaults.

    A setting with several values, because the claim compares them, lists all of them.
    """
    names = dict.fromkeys(world.qualifying)
    runs = _runs(claim, world)
    for run, _ in runs:
        names |= dict.fromkeys(differing(run.config, world.defaults.of(run.arm)))
        if not world.defaults:  # a recorded loop has none: name what its arms differ in
            names |= dict.fromkeys(differing(run.config, runs[0][0].config))
    found: dict[str, Any] = {}
    for name in names:
        values = {repr(run.config[name]): run.config[name] for run, _ in runs if name in run.config}
        if values:
            found[name] = next(iter(values.values())) if len(values) == 1 else _listed(values.values())
    return found


def _listed(values: Iterable[Any]) -> str:
    """Returns the values of a setting as "8 or 64", numbers in ascending order."""
    found = list(values)
    if all(isinstance(value, int | float) for value in found):
        found.sort()
    return " or ".join(map(str, found))


def setup_label(claim: Claim, world: World) -> str:
    """Returns the claim's set-up, ``script`` only if its runs have the script's data and settings.

    With other data it is a ``transfer``, with other settings ``altered``, and where there is no script ``own``.
    """
    if claim.setup != "script":
        return claim.setup
    if not world.script:
        return "own"
    names: set[str] = set()
    for run, quantity in _runs(claim, world):
        names |= set(differing(run.config, {**world.script.of(run.arm), **quantity.where}))
    names -= set(world.bookkeeping)
    return "script" if not names else TRANSFER if DATA in names else ALTERED


def _runs(claim: Claim, world: World) -> list[tuple[Run, Quantity]]:
    """Returns one run per configuration, which all seeds share, with the quantity that it is used for."""
    return [(run, quantity) for quantity in quantities(claim) for run in distinct(world.selected(quantity).runs)]
