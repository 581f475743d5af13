"""``kymograph audit``: scale, reference and depth of a trained network, PASS or FAIL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from kymograph.cli.arguments import at_least, parse, positional, shown
from kymograph.cli.options import TestDataOptions
from kymograph.lab.audit import IMAGES

PART = {
    "about": "scale, reference and depth of a trained network: PASS or FAIL, with the numbers",
    "usage": "audit NETWORK",
    "order": 60,
}


@dataclass(frozen=True)
class Options:
    """Audit the scale, reference and depth of a trained network: PASS or FAIL, with numbers and thresholds."""

    network: Annotated[str, positional(), shown("NETWORK")]
    """A run's directory, its checkpoint.safetensors, or a .pt file of the calibration script."""
    images: int = IMAGES
    """Number of test images; all of them if there are fewer."""
    ladder: bool = True
    """Train the frozen baseline and the ladder of last-k blocks where they are missing."""
    ladder_out: Annotated[str | None, shown("DIR", default="that of the audited run")] = None
    """Directory for these runs."""
    seed: int = 0
    """Seed of the random perturbations and steps."""
    output: Annotated[str | None, shown("FILE", short="-o", default="none")] = None
    """Also write everything to this JSON file."""
    strict: bool = False
    """Exit with 1 unless all three answers are PASS."""
    quiet: bool = False
    """Show no progress."""
    test_data: TestDataOptions = field(default_factory=TestDataOptions)


def main(words: list[str]) -> int:
    """Audits a trained network; returns 0 whatever the answers are, unless --strict is given."""
    options = parse(Options, words, "kymograph audit")
    at_least("images", options.images, 2)
    from kymograph.lab.audit import audit_command

    chosen = {
        "data": options.test_data.data,
        "data_dir": options.test_data.data_dir,
        "device": options.test_data.device,
        **{name: getattr(options, name) for name in ("images", "ladder", "ladder_out", "seed", "quiet")},
    }
    text, passed = audit_command(options.network, chosen, options.output)
    print(text)
    return 1 if options.strict and not passed else 0
