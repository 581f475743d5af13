"""Which runs belong to a study's current code, and which were superseded by an edit or a new version of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kymograph.runs.declaration import Declaration
from kymograph.runs.spec import RunSpec


@dataclass(frozen=True)
class CurrentCode:
    """The version of a study, and the source of a user-defined one, whose runs count."""

    version: int
    sources: frozenset[str | None] | None
    """None: the runs of every source count, for nobody declared which is the current one."""

    def made(self, spec: RunSpec) -> bool:
        """Says whether this code, and no earlier one, made the run."""
        return spec.version == self.version and (self.sources is None or spec.source in self.sources)


def current_code(specs: Iterable[RunSpec], declarations: Mapping[str, Declaration]) -> dict[str, CurrentCode]:
    """Returns the current code of every study among ``specs``: its newest version, and the source it last declared."""
    versions: dict[str, int] = {}
    for spec in specs:
        versions[spec.study] = max(spec.version, versions.get(spec.study, spec.version))
    found = {}
    for study, version in versions.items():
        declared = declarations.get(study)
        known = declared is not None and declared.version >= version
        sources = frozenset({declared.source}) if known and declared is not None else None
        found[study] = CurrentCode(declared.version if known and declared is not None else version, sources)
    return found
