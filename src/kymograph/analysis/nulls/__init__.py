"""Nulls of a credit cosine: what the cosine is when there is nothing to find. A null is one module here.

Each defines ``draw(pairs, matrices, serving, draws, seed)``: the mean cosine at every point of the stream and draw,
shape (points, draws). Point i pairs errors with gradients (``pairs[i]``) and is served by ``matrices[serving[i]]``.
"""

from __future__ import annotations

from kymograph.registry import Registry

NULLS = Registry("kymograph.analysis.nulls", "draw", noun="null")
REFERENCE = "fresh"
"""The null of the corrected p-values and of the tables: matrices of the law that the training matrices came from."""


def null_label(name: str) -> str:
    """Returns what a figure calls a null: its label, or its name if it declares none."""
    return str(NULLS.part(name).facts.get("label", name))
