"""Accelerators: rules written out by hand for one kind of network, each tested against its plain twin.

A module declares its accelerators in ``PARTS`` (or one, called ``accelerate``, in ``PART``); ``rules`` names the rules
that it can replace. An accelerator is a function that returns the fast twin of a plain rule, or None if it does not
support that rule's network, loss or device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kymograph.parts import Registry

if TYPE_CHECKING:
    from kymograph_studies.rules.base import Rule


ACCELERATORS = Registry("kymograph.accelerators", "kymograph_studies.rules.fast", "accelerate")


def accelerated(rule: Rule, name: str) -> Rule:
    """Returns the fast twin of a plain rule called ``name``, or the rule itself if there is none for its network."""
    for accelerator, part in ACCELERATORS.parts().items():
        if name in part.properties.get("rules", ()):
            fast: Rule | None = ACCELERATORS.load(accelerator)(rule)
            if fast is not None:
                return fast
    return rule
