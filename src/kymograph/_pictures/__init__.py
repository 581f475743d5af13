"""Figures from stored runs, without torch: on paper, on a page, and live.

A figure for any study is a function ``draw(store, declaration)`` that returns a matplotlib figure. With ``"of":
"series"`` among its properties it is drawn for every series that has a value per site, ``draw(store, declaration,
series)``; with ``"of": "claims"``, from the verdicts, ``draw(store, declaration, verdicts)``; with ``"of": "tuning"``,
from the tuning runs, ``draw(store, declaration, rules)``. A study's own figures are those that its `figures` returns.
"""

from __future__ import annotations

from kymograph._registry import Registry

FIGURES = Registry("kymograph.figures", "kymograph._pictures", "draw")
