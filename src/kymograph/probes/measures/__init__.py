"""Measures: pure functions from tensors to tensors, in float64, without absolute epsilons; undefined is NaN.

A measure is one module here, with a ``PART`` (``about`` and ``unit``) and a function of the same name as the module; no
other registration is needed. A user's package adds its own through entry points of the group
``kymograph.probes.measures``.

    >>> MEASURES.load("cosine").__name__
    'cosine'
"""

from __future__ import annotations

from kymograph.registry import Registry

MEASURES = Registry("kymograph.probes.measures", attribute="", noun="measure")
