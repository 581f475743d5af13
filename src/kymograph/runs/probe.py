"""A probe whose readings are series, as records hold them."""

from __future__ import annotations

from kymograph.probes.probe import ModuleProbe
from kymograph.runs.record import RunSeries


class Probe(ModuleProbe):
    """Reads quantities of a network's layers while an ordinary loop trains it; see `ModuleProbe`."""

    def series(self) -> dict[str, RunSeries]:
        """Returns each quantity over the measured steps, with the layers as its sites; none that no layer has."""
        return {
            name: RunSeries(one.step, one.value, one.sites) for name, one in self.columns().items() if one.sites != ()
        }

    def __enter__(self) -> Probe:
        self.attach()
        return self
