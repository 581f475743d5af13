"""``python -m tests.fuzz``: one case again, by KYMOGRAPH_FUZZ_SEED and KYMOGRAPH_FUZZ_CASE, with what it does."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.fuzz.cases import Case, Workspace


def main() -> None:
    """Runs the case, prints everything, and leaves the damaged file where it is."""
    seed, number = (int(os.environ.get(f"KYMOGRAPH_FUZZ_{name}", "0")) for name in ("SEED", "CASE"))
    workspace = Workspace(Path(os.environ.get("KYMOGRAPH_FUZZ_DESK") or tempfile.mkdtemp(prefix="kymograph-fuzz-")))
    case = Case.numbered(number, seed)
    watched, damage, faults = workspace.run(case)
    print(f"{case}\n    in {workspace.work}: {damage}\n    exit code {watched.code}, {watched.peak / 2**20:.0f} MB")
    print(watched.out + watched.err)
    print("\n".join(faults) or "no rule was broken")


main()
