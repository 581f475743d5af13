"""The claims that a user names on the command line: those of a file, or of a study."""

from __future__ import annotations

import ast
from pathlib import Path

from kymograph.claims.claim import Claim
from kymograph.claims.files import read_claims
from kymograph.errors import KymographError, did_you_mean
from kymograph.foreign.files import MAX_SOURCE, is_file, read_bytes
from kymograph.studies.base import Study
from kymograph.studies.loading import STUDIES, load_study


def named_claims(name: str) -> tuple[list[Claim], list[Study]]:
    """Returns the claims of a TOML or Python file or of a study, and the study itself if one is named."""
    path = Path(name)
    if name in STUDIES.parts() or ":" in name or (path.suffix == ".py" and is_file(path) and not _lists_claims(path)):
        study = load_study(name)
        return list(study.claims()), [study]
    if not is_file(path):
        raise KymographError(f"there is neither a file nor a study {name!r}{did_you_mean(name, STUDIES.parts())}")
    return read_claims(name), []


def _lists_claims(path: Path) -> bool:
    """Returns whether a Python file assigns ``CLAIMS``, without running it; True if it cannot be parsed."""
    try:
        tree = ast.parse(read_bytes(path, MAX_SOURCE))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == "CLAIMS" for target in targets)
