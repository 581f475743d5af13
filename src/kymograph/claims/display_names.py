"""Display names of a claim's numbers, arms and sides, from the labels that the study declares."""

from __future__ import annotations

import re

from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.rounding import number_text
from kymograph.runs.declaration import Declaration

_REDUCED = {
    "last": "final",
    "first": "initial",
    "min": "smallest",
    "max": "largest",
    "std": "standard deviation of",
    "rises": "share of rises of",
    "least ratio": "smallest ratio of successive values of",
    "depth slope": "slope over depth of log",
}
"""How a reduction reads before the name of its series; all others read as "mean of"."""


def measure_name(measure: Measure, declaration: Declaration) -> str:
    """Returns a measure's display name, from the study's headline numbers, tables or series."""
    plain = measure.name.replace("_", " ")
    if measure.reduce is None:
        named = [declaration.headlines, *declaration.tables.values()]
        return next((names[measure.name] for names in named if measure.name in names), plain)
    series = next((one.unit for one in declaration.series if one.series == measure.name), plain)
    site = {None: "", "last": " at the last site"}.get(measure.site, f" at {measure.site}")
    return f"{_REDUCED.get(measure.reduce, f'{measure.reduce} of')} {series}{site}"


def quantity_text(quantity: Quantity, declaration: Declaration) -> str:
    """Returns what is measured, in which arm, and the settings that its runs must have."""
    settings = "".join(f", {name} {value}" for name, value in quantity.where.items())
    return f"{measure_name(quantity.measure, declaration)} ({declaration.label(quantity.arm)}{settings})"


def with_labels(text: str, declaration: Declaration) -> str:
    """Returns a text with the names of arms replaced by their labels.

    Only names with a slash are replaced, because they cannot be ordinary words.
    """
    labels = {arm: label for arm, label in declaration.labels.items() if "/" in arm}
    if not labels:
        return text
    names = "|".join(re.escape(arm) for arm in sorted(labels, key=len, reverse=True))
    return re.sub(rf"(?<![\w/])(?:{names})(?![\w/])", lambda found: labels[found.group()], text)


def side_names(claim: Claim, declaration: Declaration) -> tuple[str, ...]:
    """Returns names that tell the compared sides apart: arms, measures, or both; four for an interaction."""
    sides = claim.sides
    arms = [declaration.label(side.arm) for side in sides]
    measures = [measure_name(side.measure, declaration) for side in sides]
    if len({side.arm for side in sides}) > 1 and len(set(arms)) == len(sides):
        names = arms
    elif len(set(measures)) == len(sides):
        names = measures
    else:
        names = [quantity_text(side, declaration) for side in sides]
    if isinstance(claim.right, Quantity):
        return tuple(names)
    return names[0] if len(arms) > 1 else arms[0], number_text(claim.right, 4)
