"""A user's claims, from a TOML or Python file, or those of a study.

[[claim]]
name = "clipping calms the loss"
study = "clipping"
arm = "extreme/clip"
against = "extreme/no_clip"     # an arm, or a number
series = "loss"                 # or summary = "final_loss"
reduce = "last"
direction = "less"              # greater, less, not less, not greater, equal
scale = "ratio"                 # or "difference", the default
margin = 1.1
equivalence_margin = 1.05       # optional: EQUIVALENT within this instead of the margin

A difference of differences names the other pair of arms, with its own measures if they differ:

[claim.interaction]
arm = "moderate/clip"
against = "moderate/no_clip"
"""

from __future__ import annotations

import ast
import math
import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph._claims.claim import Check, Claim, Measure, Scale, Side, named_scale
from kymograph._errors import KymographError, did_you_mean, first_line
from kymograph._io.documents import read_toml
from kymograph._io.files import MAX_SOURCE, is_file, read_bytes
from kymograph._studies.loading import STUDIES, load_study
from kymograph._studies.study import Study

OWN_STUDY = "own"
"""The study of a claim that names none: it is about every study of the directory that is judged."""
_MEASURE = {"series", "summary", "reduce", "site"}
_OTHER_MEASURE = {"against_series", "against_summary"}
_PAIR = _MEASURE | _OTHER_MEASURE | {"arm", "against", "where"}
_CLAIM = _PAIR | {
    "name", "study", "setup", "text", "origin", "direction", "scale", "margin", "equivalence_margin", "alpha",
    "diverged", "check", "interaction",
}  # fmt: skip
_CHECK = _MEASURE | {"text", "arm", "least", "most", "strict"}


def read_claims(path: str | Path) -> list[Claim]:
    """Returns the claims of a TOML file (``[[claim]]`` tables) or of a Python file (a list ``CLAIMS``)."""
    file = Path(path)
    if not is_file(file):
        raise KymographError(f"there is no claims file {file}")
    claims = _python_claims(file) if file.suffix == ".py" else _toml_claims(file)
    counts = Counter((claim.study, claim.setup, claim.name) for claim in claims)
    for (_, _, name), count in counts.items():
        if count > 1:
            raise KymographError(f"{file} has two claims named {name!r}; give each its own name")
    return claims


def _toml_claims(file: Path) -> list[Claim]:
    tables = read_toml(file).get("claim")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise KymographError(f"{file} contains no [[claim]]")
    return [_claim(table, file) for table in tables]


def _python_claims(file: Path) -> list[Claim]:
    try:
        claims = runpy.run_path(str(file)).get("CLAIMS")
    except Exception as error:  # a user's file can fail in any way
        raise KymographError(f"{file} does not run: {first_line(error)}") from None
    if not isinstance(claims, Sequence) or not claims or not all(isinstance(claim, Claim) for claim in claims):
        raise KymographError(f"{file} must set CLAIMS to a list of kymograph.Claim")
    return list(claims)


def _claim(table: Mapping[str, Any], file: Path) -> Claim:
    label = f"{file}, claim {table.get('name', '?')!r}"
    _check_keys(table, _CLAIM, label)
    for name in ("name", "arm", "against", "direction", "margin"):
        if name not in table:
            raise KymographError(f"{label} lacks {name!r}")
    left, right = _pair(table, label)
    checks = table.get("check", [])
    if not isinstance(checks, list):
        raise KymographError(f"{label}: write checks as [[claim.check]]")
    within = table.get("equivalence_margin")
    return Claim(
        name=str(table["name"]),
        study=str(table.get("study", OWN_STUDY)),
        setup=str(table.get("setup", "own")),
        text=str(table.get("text", table["name"])),
        origin=str(table.get("origin", file.name)),
        left=left,
        right=right,
        direction=table["direction"],
        margin=_number(table["margin"], f"{label}: margin"),
        scale=_scale(table.get("scale", "difference"), label),
        alpha=_number(table.get("alpha", 0.05), f"{label}: alpha"),
        checks=tuple(_check(check, left.arm, left.where, label) for check in checks),
        diverged=table.get("diverged", "invalid"),
        equivalence_margin=None if within is None else _number(within, f"{label}: equivalence_margin"),
        interaction=_interaction(table, label),
    )


def _scale(word: Any, label: str) -> Scale:
    try:
        return named_scale(word if isinstance(word, str) else repr(word))
    except KymographError as error:
        raise KymographError(f"{label}: {error}") from None


def _pair(table: Mapping[str, Any], label: str) -> tuple[Side, Side | float]:
    """Returns the two sides of a comparison: two arms, or an arm and a number."""
    where = table.get("where", {})
    if not isinstance(where, dict):
        raise KymographError(f"{label}: where must be a table such as {{ lr = 0.1 }}")
    left = Side(str(table["arm"]), _measure(table, label), where)
    others = {name.removeprefix("against_"): table[name] for name in sorted(_OTHER_MEASURE & set(table))}
    if isinstance(table["against"], str):
        other = left.measure
        if others:
            other = _measure({**{name: table[name] for name in ("reduce", "site") if name in table}, **others}, label)
        return left, Side(table["against"], other, where)
    for name in others:
        raise KymographError(f"{label}: against_{name} goes with an arm, but against is a number")
    return left, _number(table["against"], f"{label}: against")


def _interaction(table: Mapping[str, Any], label: str) -> tuple[Side, Side] | None:
    """Returns the other pair of a difference of differences; keys that it leaves out are taken from the claim."""
    if "interaction" not in table:
        return None
    inner, label = table["interaction"], f"{label}, interaction"
    if not isinstance(inner, dict):
        raise KymographError(f"{label}: write it as [claim.interaction]")
    _check_keys(inner, _PAIR, label)
    for name in ("arm", "against"):
        if not isinstance(inner.get(name), str):
            raise KymographError(f"{label} needs {name!r}, the name of an arm")
    inherited = {"where"} if _MEASURE & set(inner) else _PAIR
    third, fourth = _pair({**{name: table[name] for name in inherited & set(table)}, **inner}, label)
    assert isinstance(fourth, Side)
    return third, fourth


def _check(table: Any, arm: str, where: Mapping[str, Any], label: str) -> Check:
    if not isinstance(table, dict):
        raise KymographError(f"{label}: write checks as [[claim.check]]")
    _check_keys(table, _CHECK, f"{label}, check")
    side = Side(str(table.get("arm", arm)), _measure(table, f"{label}, check"), where)
    least = _number(table.get("least", -math.inf), f"{label}, check: least")
    most = _number(table.get("most", math.inf), f"{label}, check: most")
    return Check(str(table.get("text", side)), side, least, most, table.get("strict") is True)


def _measure(table: Mapping[str, Any], label: str) -> Measure:
    if ("series" in table) == ("summary" in table):
        raise KymographError(f"{label} needs either a series or a summary")
    if "summary" in table:
        for name in ("reduce", "site"):
            if name in table:
                raise KymographError(f"{label}: {name} goes with a series; a summary is one number already")
        return Measure(str(table["summary"]))
    site = table.get("site")
    return Measure(str(table["series"]), str(table.get("reduce", "last")), None if site is None else str(site))


def _check_keys(table: Mapping[str, Any], allowed: set[str], label: str) -> None:
    for name in table:
        if name not in allowed:
            raise KymographError(f"{label} has an unknown key {name!r}{did_you_mean(name, allowed)}")


def _number(value: Any, label: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise KymographError(f"{label} must be a number, not {value!r}")
    return float(value)


def named_claims(name: str) -> tuple[list[Claim], list[Study[Any]]]:
    """Returns the claims of a TOML or Python file or of a study, and the study itself if one is named."""
    path = Path(name)
    if name in STUDIES.parts() or ":" in name or (path.suffix == ".py" and is_file(path) and not _lists_claims(path)):
        study = load_study(name)
        return list(study.claims()), [study]
    if not is_file(path):
        raise KymographError(f"there is neither a file nor a study {name!r}{did_you_mean(name, STUDIES.parts())}")
    return read_claims(name), []


def _lists_claims(path: Path) -> bool:
    """Returns whether a Python file assigns ``CLAIMS``, without running it; True if it cannot be parsed."""
    try:
        tree = ast.parse(read_bytes(path, MAX_SOURCE))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == "CLAIMS" for target in targets)
