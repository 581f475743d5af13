"""Checks the annotated shapes of arguments and results while the tests run, by jaxtyping's import hook and beartype."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

CHECKED = (
    "kymograph_studies.rules",
    "kymograph_studies.analysis.metrics",
    "kymograph._probes.norms",
    "kymograph._statistics",
)
# An int passes for a float, as mypy has it.
TYPE_CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"


def check_shapes() -> bool:
    """Installs the hook for the packages in `CHECKED`; returns False, and does nothing, without jaxtyping or beartype.

    Only what is imported afterwards is checked, so that a module that is there already would go unchecked in silence.
    """
    early = [name for name in sys.modules if name.startswith(CHECKED)]
    assert not early, f"imported before the hook that checks their shapes: {early}"
    try:
        import beartype  # noqa: F401
        from jaxtyping import install_import_hook
    except ImportError:
        return False
    install_import_hook(CHECKED, TYPE_CHECKER)
    return True


@contextmanager
def without_checks() -> Iterator[None]:
    """Runs a block without the checks, which cost some 50 microseconds a call."""
    try:
        from jaxtyping import config
    except ImportError:
        yield
        return
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
