"""One run read back from its directory."""

from __future__ import annotations

import functools
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT
from kymograph._runs import record
from kymograph._runs.divergence import Divergence, find_divergence
from kymograph._runs.record import RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._wording import html_table


class StoredRun:
    """One run read from its directory; series and summary are read, and their checksums checked, on first access.

    >>> run = ky.Store.open("runs")[0]
    >>> run.arm, run.seed, run.config["lr"], run.status
    ('constant', 42, 0.1, 'finished')
    >>> sorted(run.summary), run.series["loss"].value.shape
    (['sharpness'], (3,))
    """

    def __init__(self, directory: Path, planned: RunSpec | None = None) -> None:
        """Reads the run's status and identity; ``planned`` is its identity, if it is already known from the log."""
        self.directory = directory
        self._path = path = str(directory)
        self._arrays: bytes | None = None  # verified, not yet unpacked
        self._status = record.read_status(path)
        self.spec = record.read_identity(path, self._config) if planned is None else planned
        if not path.endswith(self.spec.id):
            raise KymographError(f"{directory} contains a configuration that does not match its id; it was edited")

    @functools.cached_property
    def _config(self) -> Mapping[str, Any]:
        return record.read_config(self._path, self._status)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where and with what the run was computed."""
        provenance: Mapping[str, Any] = self._config["provenance"]
        return provenance

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the run should know, e.g. where its random numbers came from."""
        return tuple(self.provenance.get("notes", ()))

    @property
    def id(self) -> str:
        """The hash that names the run."""
        return self.spec.id

    @property
    def study(self) -> str:
        """The study's name."""
        return self.spec.study

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.spec.arm

    @property
    def seed(self) -> int:
        """The seed."""
        return self.spec.seed

    @property
    def config(self) -> Mapping[str, Any]:
        """Every field of the resolved configuration."""
        return self.spec.config

    @property
    def has_results(self) -> bool:
        """Whether the run was computed to its end, with series and summary, even if it diverged."""
        return self._status.status == "finished"

    @property
    def status(self) -> str:
        """``finished``, ``diverged`` or ``failed``."""
        return self._status.status if self.divergence is None else "diverged"

    @property
    def ending(self) -> str:
        """How the run ended, in words, e.g. ``diverged at step 212``."""
        return self._status.status if self.divergence is None else str(self.divergence)

    @functools.cached_property
    def divergence(self) -> Divergence | None:
        """Where the run's numbers stopped being finite; None if they did not, or if the run failed."""
        if not self.has_results:
            return None
        if self.states_divergence:
            return self._summary.divergence
        return find_divergence(self.summary, self.read_series)

    @property
    def states_divergence(self) -> bool:
        """Whether the record itself says if the run diverged, as those of earlier versions do not."""
        return self.has_results and self._summary.states_divergence

    def read_series(self) -> Mapping[str, RunSeries]:
        """Returns the series without keeping them, unless they are kept already."""
        if "series" in self.__dict__:
            return self.series
        content = self._arrays or record.read_file(self._path, record.ARRAYS, self._status)
        return record.unpack_arrays(content, f"{self._path}/{record.ARRAYS}")

    @property
    def reason(self) -> str | None:
        """Why the run failed, if it did."""
        return self._status.reason

    @property
    def log_heads(self) -> tuple[str, ...] | None:
        """The heads of the log when the run started; None if they were not stored."""
        heads = self.provenance.get("log")
        return None if heads is None else tuple(heads)

    @property
    def failure(self) -> str:
        """Why the run does not count, as worded in a verdict."""
        return f"it failed: {self.reason}"

    @property
    def traceback(self) -> str | None:
        """The traceback of a failed run; None if the run finished, or if its process died without one."""
        if record.TRACEBACK not in self._status.files:
            return None
        content = record.read_file(self._path, record.TRACEBACK, self._status, MAX_DOCUMENT)
        return content.decode("utf-8", "replace")

    @property
    def seconds(self) -> float | None:
        """The wall time of the run: its share of the stack it was trained in."""
        return self._status.seconds

    @functools.cached_property
    def series(self) -> Mapping[str, RunSeries]:
        """Every series of the run by name; empty for a failed run."""
        if not self.has_results:
            return {}
        self.check()
        content, self._arrays = self._arrays, None
        assert content is not None
        return record.unpack_arrays(content, f"{self._path}/{record.ARRAYS}")

    @property
    def series_digest(self) -> str | None:
        """The hash of all series, equal for runs with the same numbers; None for a failed run."""
        return self._status.files.get(record.ARRAYS, {}).get("sha256")

    def check(self, keep: bool = True, series: bool = True) -> None:
        """Reads configuration, summary and series in full; raises unless they match their checksums.

        For a failed run, reads the configuration and the traceback.

        ``keep``: whether to keep the bytes of the series, which may be megabytes, until the series are accessed.
        ``series``: whether to read the series at all.
        """
        _ = self._config
        if self.has_results:
            _ = self.summary
            read_now = series and self._arrays is None and "series" not in self.__dict__
            if read_now:
                content = record.read_file(self._path, record.ARRAYS, self._status)
                record.check_arrays(content, f"{self._path}/{record.ARRAYS}")
                self._arrays = content
            _ = self.divergence  # earlier versions did not store it: a damaged series is then found here
            if read_now and not keep:
                self._arrays = None
        else:
            _ = self.traceback

    def check_network(self) -> None:
        """Reads the run's stored network, if any; raises unless it matches its checksum."""
        if record.CHECKPOINT in self._status.files:
            record.read_file(self._path, record.CHECKPOINT, self._status)

    @property
    def written(self) -> str:
        """When the run was stored, in UTC."""
        return self._status.written

    def check_network_size(self) -> None:
        """Raises unless the run's stored network, if any, has the size that the status states."""
        record.check_sizes(self._path, self._status, self._status.files.keys() & {record.CHECKPOINT})

    @functools.cached_property
    def _summary(self) -> record.StoredSummary:
        return record.read_summary(self._path, self._status)

    @property
    def summary(self) -> Mapping[str, Any]:
        """One number, or None for missing, per key; empty for a failed run."""
        return self._summary.numbers if self.has_results else {}

    def __repr__(self) -> str:
        try:
            ending = self.ending
        except KymographError:
            ending = "damaged"
        return f"<run {self.study} {self.arm} seed {self.seed}: {ending}>"

    def _repr_html_(self) -> str:
        def short(value: Any) -> str:
            return f"{value:.6g}" if isinstance(value, float) else "missing" if value is None else str(value)

        rows = [("run", name, str(getattr(self, name))) for name in ("study", "arm", "seed")]
        rows += [("run", "status", self.ending)]
        rows += [] if self.reason is None else [("run", "reason", self.reason)]
        rows += [("setting", key, short(value)) for key, value in self.config.items()]
        rows += [("summary", key, short(value)) for key, value in self.summary.items()]
        rows += [("note", "", note) for note in self.notes]
        trace = self.traceback
        return html_table(("", "", ""), rows) + ("" if trace is None else f"<pre>{html.escape(trace)}</pre>")
