"""Figures from stored runs, without torch: on paper, on a page, and live.

[figures] Figures from stored runs, without torch: each function returns a matplotlib figure that carries its own data.

A figure for any study is one module here, with ``draw(store, declaration)``. With ``"of": "series"`` in its ``PART`` it
is drawn for every series that has a value per site, ``draw(store, declaration, series)``; with ``"of": "claims"``, from
the verdicts, ``draw(store, declaration, verdicts)``; with ``"of": "tuning"``, from the tuning runs,
``draw(store, declaration, rules)``. A study's own figures are in its ``figures.py``.
"""

from __future__ import annotations

from kymograph.registry import Registry

FIGURES = Registry("kymograph.figures", "kymograph.pictures", "draw")
