"""Drawing from stored runs, without torch: each function returns a matplotlib figure that carries its own data.

A figure that any study can have is one module here, with ``draw(store, declaration)``. A study's own figures are in
its ``figures.py``.
"""

from __future__ import annotations

from kymograph.registry import Registry

FIGURES = Registry("kymograph.figures", "draw", noun="figure")
