"""A probe that returns its readings as series of a run."""

from __future__ import annotations

from kymograph.probes.probe import ModuleProbe
from kymograph.runs.record import RunSeries


class Probe(ModuleProbe):
    """Reads quantities of a network's layers while an ordinary loop trains it; the weights come out bit-identical.

        with Probe(model, optimizer, level="standard", every=10) as probe:
            for step, (x, y) in enumerate(batches):
                with probe.step(step):
                    optimizer.zero_grad()
                    loss_of(model(x), y).backward()
                    optimizer.step()
        probe.series()["output_norm"].value  # (steps, layers)

    The arguments and the other methods are those of `ModuleProbe`.
    """

    def series(self) -> dict[str, RunSeries]:
        """Returns each quantity that some layer has, over the measured steps, with the layers as its sites."""
        return {
            name: RunSeries(one.step, one.value, one.sites) for name, one in self.columns().items() if one.sites != ()
        }

    def __enter__(self) -> Probe:
        self.attach()
        return self
