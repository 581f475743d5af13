"""Quantiles and tests come from `kymograph._statistics`: nothing else in the tree computes an interval of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import kymograph

PACKAGE = Path(kymograph.__file__).parent
PACKAGES = (PACKAGE, PACKAGE.with_name("kymograph_studies"))
LAWS = {
    "stdtr",
    "stdtrit",
    "ndtr",
    "ndtri",
    "nct",
    "bootstrap",
    "ttest_1samp",
    "ttest_rel",
    "mannwhitneyu",
    "binomtest",
    "betaincinv",
    "gammaincinv",
    "ttest_ind",
}


def private_statistics(source: str) -> set[str]:
    """Returns the names of laws and the normal quantiles that a module's source uses."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names} & LAWS
        elif isinstance(node, ast.Attribute) and node.attr in LAWS:
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and int(100 * node.value) in (195, 196):
            found.add(str(node.value))
    return found


def test_no_module_outside_statistics_computes_an_interval_of_its_own() -> None:
    private = {
        str(path.relative_to(package.parent)): private_statistics(path.read_text())
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.parent != PACKAGE / "_statistics"
    }
    assert {path: names for path, names in private.items() if names} == {}


def test_the_search_finds_what_it_looks_for() -> None:
    assert private_statistics("from scipy.special import stdtrit") == {"stdtrit"}
    assert private_statistics("half = 1.96 * stats.nct.sf(x)") == {"1.96", "nct"}
    assert private_statistics("z: float = 1.959963984540054") == {"1.959963984540054"}
    assert private_statistics("x = 1.97 + 0.196") == set()
