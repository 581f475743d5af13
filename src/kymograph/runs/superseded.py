"""Which runs belong to a study's current code, and which were superseded by an edit or a new version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kymograph.runs.declaration import Declaration
from kymograph.runs.spec import RunSpec


@dataclass(frozen=True)
class CurrentCode:
    """The version of a study, and the sources of a user-defined one, whose runs count."""

    version: int
    sources: frozenset[str | None] | None
    """None: runs of every source count, because no current source is declared."""

    def made(self, spec: RunSpec) -> bool:
        """Returns whether this code, not an earlier one, made the run."""
        return spec.version == self.version and (self.sources is None or spec.source in self.sources)


def current_code(specs: Iterable[RunSpec], declarations: Mapping[str, Declaration]) -> dict[str, CurrentCode]:
    """Returns the current code of every study among ``specs``, as declared by its last sweep.

    Without a stored declaration, as in directories that predate declarations, it is the newest version.
    """
    versions: dict[str, int] = {}
    for spec in specs:
        versions[spec.study] = max(spec.version, versions.get(spec.study, spec.version))
    found = {}
    for study, newest in versions.items():
        declared = declarations.get(study)
        if declared is not None and declared.stored:
            found[study] = CurrentCode(declared.version, frozenset({declared.source, *declared.part_sources}))
        else:
            found[study] = CurrentCode(newest, None)
    return found


def code_text(spec: RunSpec) -> str:
    """Returns the code that made a run, in words."""
    return f"version {spec.version}" if spec.source is None else f"source {spec.source}"
