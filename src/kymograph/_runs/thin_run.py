"""Thin runs: everything that verdicts rest on, without the series measured at every step.

A thin directory is small enough to be kept beside a published table. Each of its runs has the files of a full record
except ``arrays.safetensors`` and the trained network; ``status.json`` still holds their digests, so a run that is
computed again can be compared with what was published. In their place are

- ``thin.safetensors``: the series of at most `MOST_MEASUREMENTS` measurements, bit for bit;
- ``thin.json``: the names of the series that were left out, and their reductions that claims read.

`Directory` reads such runs like any others. What cannot be known about them is missing, never invented.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_TENSORS, is_file, read_bytes
from kymograph._io.writing import read_versioned_json
from kymograph._runs import record
from kymograph._runs.divergence import Divergence, declared_diverged, is_loss
from kymograph._runs.record import RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun

ARRAYS, DOCUMENT = "thin.safetensors", "thin.json"
MOST_MEASUREMENTS = 120
"""A series with more measurements than this was taken at every step, and is left out."""
Reduction = tuple[str, str, str | None]
"""The name of a series, how it becomes one number, and at which site."""


class ThinRun(StoredRun):
    """A run without its per-step series, whose reductions are kept."""

    @functools.cached_property
    def _document(self) -> Mapping[str, Any]:
        path = f"{self.directory}/{DOCUMENT}"
        content = read_versioned_json(path)
        names, reductions = content.get("left_out"), content.get("reductions")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise KymographError(f"{path} does not name the series that were left out; make the bundle again")
        if not isinstance(reductions, list) or not all(map(_is_reduction, reductions)):
            raise KymographError(f"{path} has no valid list of reductions; make the bundle again")
        return content

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of the series that are not here."""
        return tuple(self._document["left_out"])

    @functools.cached_property
    def reductions(self) -> Mapping[Reduction, float]:
        """The numbers that claims read from the series that were left out."""
        return {(name, how, site): float(value) for name, how, site, value in self._document["reductions"]}

    @functools.cached_property
    def series(self) -> Mapping[str, RunSeries]:
        """The series that were kept, by name."""
        if not self.has_results:
            return {}
        path = f"{self.directory}/{ARRAYS}"
        return record.unpack_arrays(read_bytes(path, MAX_TENSORS, follow=False), path)

    @functools.cached_property
    def divergence(self) -> Divergence | None:
        """Where the run diverged; the step is unknown if neither the record nor a loss that was kept shows it."""
        known = not self.has_results or self.states_divergence or not any(map(is_loss, self.left_out))
        return super().divergence if known else Divergence(None) if declared_diverged(self.summary) else None

    def read_series(self) -> Mapping[str, RunSeries]:
        """Returns the series that were kept."""
        return self.series

    def check(self, keep: bool = True, series: bool = True) -> None:
        """Reads everything that is here; configuration and summary must match their checksums."""
        super().check(series=False)
        if self.has_results:
            _ = self.reductions
            if series:
                _ = self.series

    def check_network(self) -> None:
        """Does nothing: the trained network was left out."""

    def check_network_size(self) -> None:
        """Does nothing, for the same reason."""


def stored_run(directory: Path, planned: RunSpec | None = None) -> StoredRun:
    """Returns the run in ``directory``, thin or whole; ``planned`` is its identity, if it is known from the log."""
    return ThinRun(directory, planned) if is_file(f"{directory}/{DOCUMENT}") else StoredRun(directory, planned)


def left_out_of(runs: Iterable[StoredRun]) -> list[str]:
    """Returns the names of the series that were left out of any of these runs."""
    return sorted({name for run in runs if isinstance(run, ThinRun) for name in run.left_out})


def _is_reduction(row: Any) -> bool:
    if not isinstance(row, list) or len(row) != 4:
        return False
    name, how, site, value = row
    number = (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("nan", "inf", "-inf")
    return isinstance(name, str) and isinstance(how, str) and isinstance(site, str | None) and number
