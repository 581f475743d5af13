"""Stored runs for experiment trackers: MLflow databases and TensorBoard event files."""

from __future__ import annotations

import calendar
import contextlib
import io
import json
import logging
import os
import re
import shutil
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._errors import KymographError, first_line
from kymograph._io.files import check_replaceable, real_path
from kymograph._io.processes import remove_abandoned_files_once, temporary_name
from kymograph._io.writing import make_directory, plain, write_atomically
from kymograph._runs.storable import is_exact
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tables import as_float64, column_names, setting_cells, setting_columns

PARTS = {
    "mlflow": {"attribute": "export_mlflow", "about": "an MLflow database, an SQLite file", "order": 5},
    "tensorboard": {"attribute": "export_tensorboard", "about": "TensorBoard event files, a directory", "order": 4},
}
EVENTS = "events.out.tfevents.0.kymograph"
"""The event file of a run. Its name is fixed, unlike EventFileWriter's of time, host and process: exporting again
replaces it, whereas a second file next to the first would show every point twice."""
_MOST_METRICS, _MOST_TAGS = 1000, 100  # that MLflow takes in one call; there are as many parameters as tags
_MLFLOW_STATUS = {"finished": "FINISHED", "diverged": "FINISHED", "failed": "FAILED"}


@dataclass(frozen=True)
class Scalar:
    """One measured quantity at one site, without its missing values."""

    tag: str
    """The series' name, or ``series/site`` where it was measured at several sites."""
    step: np.ndarray  # (steps,), integers
    value: np.ndarray  # (steps,), no NaN


def tags(name: str, sites: tuple[str, ...] | None) -> list[str]:
    """Returns the names of the scalars of a series: its name, or ``NAME/SITE`` for each of its sites."""
    return [name] if sites is None else [f"{name}/{site}" for site in sites]


def scalars(run: StoredRun) -> Iterator[Scalar]:
    """Yields every series of ``run``, one scalar per site; NaN is missing and is left out, infinities stay.

    Raises if two scalars have the same tag, or if a step is a fraction: trackers count whole steps.
    """
    found: set[str] = set()
    for name, entry in run.series.items():
        step = _whole_steps(name, entry.step)
        columns = np.atleast_2d(as_float64(name, entry).reshape(entry.value.shape).T)  # even if there are no steps
        for tag, values in zip(tags(name, entry.sites), columns, strict=True):
            if tag in found:
                raise KymographError(f"two quantities of a run are called {tag!r} here; export to csv, json or parquet")
            found.add(tag)
            here = ~np.isnan(values)
            yield Scalar(tag, step[here], values[here])


def _whole_steps(name: str, steps: np.ndarray) -> np.ndarray:
    """Returns steps as integers; raises if some are not."""
    if steps.dtype.kind == "i":
        return steps
    whole = (steps == np.floor(steps)) & (np.abs(steps) < 2.0**63)
    if not whole.all():
        raise KymographError(
            f"the series {name!r} has the step {steps[~whole][0]}, but trackers count whole steps; export to csv, json "
            "or parquet"
        )
    return steps.astype(np.int64)


def summary_numbers(run: StoredRun) -> dict[str, float]:
    """Returns the summary's numbers by key; missing ones are left out, Booleans are 0 and 1."""
    return {
        key: float(value)
        for key, value in run.summary.items()
        if isinstance(value, float) or (isinstance(value, int) and is_exact(value))
    }


def summary_words(run: StoredRun) -> dict[str, str]:
    """Returns the summary's texts by key, and the integers that are not exactly a float64."""
    numbers = summary_numbers(run)
    return {key: str(value) for key, value in run.summary.items() if key not in numbers and value is not None}


def written_at(run: StoredRun) -> float:
    """Returns when the run was stored, in seconds since 1970, so that exporting twice gives the same bytes."""
    try:
        return float(calendar.timegm(time.strptime(run.written, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return 0.0


def export_mlflow(store: Store, path: Path) -> None:
    """Writes every run of ``store`` into the database at ``path``, an experiment per study.

    A run that is already there, by its id, is left as it is; one that was cut off, or that failed then and is finished
    now, is written again. Infinities become the largest double, as MLflow stores them. A new database is moved into
    place when it is complete, because MLflow cannot continue with half-written tables.
    """
    _check_database(path)
    remove_abandoned_files_once(path.parent)
    if path.exists():
        _write_all(store, path, path)
        return
    scratch = temporary_name(path.parent, path.name[:100], "new")
    try:
        try:
            scratch.mkdir()  # a directory, because a database may have files next to it
            database = scratch / os.urandom(8).hex()  # a new name, because MLflow caches databases by name
            _write_all(store, database, path)
            os.replace(database, path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise KymographError(f"cannot write {path}: {error.strerror}; choose another path") from None


def _write_all(store: Store, database: Path, path: Path) -> None:
    """Writes every run into ``database``, whose final path is ``path``."""
    with _quiet():
        client_type, errors = _import_mlflow()
        try:
            with _own_connections():
                client = client_type(tracking_uri=f"sqlite:///{real_path(database)}")
                for study in store.studies:
                    experiment = _experiment(client, study, path)
                    exported = _exported_runs(client, experiment)
                    for run in store.select(study):
                        _write_run(client, experiment, run, exported)
        except errors as error:
            raise KymographError(f"MLflow could not write {path}: {first_line(error)}") from None


def _import_mlflow() -> tuple[Any, tuple[type[Exception], ...]]:
    """Returns MLflow's client and the errors it raises; its telemetry is disabled first."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        import alembic  # noqa: F401
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise KymographError(
            "an MLflow database needs mlflow-skinny; install it with `pip install 'kymograph[mlflow]'`"
        ) from None
    return MlflowClient, (MlflowException, SQLAlchemyError)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences MLflow's messages about its tables, and its libraries' warnings."""
    logger = logging.getLogger("mlflow.store.db.utils")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextlib.contextmanager
def _own_connections() -> Iterator[None]:
    """Skips the wait for the disk after each of many small writes, and closes every connection at the end.

    The wait is not needed, because a run that was cut off is written again in any case. MLflow would cache its
    connections by name: after deleting a database, an export would write to the deleted one.
    """
    from sqlalchemy import Connection, Engine, event

    engines: set[Engine] = set()

    def used(connection: Connection) -> None:
        engines.add(connection.engine)

    def connected(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("pragma synchronous = off")

    event.listen(Engine, "connect", connected)
    event.listen(Engine, "engine_connect", used)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)
        event.remove(Engine, "engine_connect", used)
        for engine in engines:
            engine.dispose()


def _check_database(path: Path) -> None:
    """Raises, before anything is written, if ``path`` exists and is not an MLflow database."""
    check_replaceable(path)
    if not path.exists():
        return
    try:
        # Not read-only: a killed writer leaves a journal, which is replayed when the database is next opened.
        with contextlib.closing(sqlite3.connect(f"{real_path(path).as_uri()}?mode=rw", uri=True)) as connection:
            tables = {row[0] for row in connection.execute("select name from sqlite_master")}
    except sqlite3.Error:
        tables = set()
    if "experiments" not in tables:
        raise KymographError(f"{path} exists and is not an MLflow database; choose another file")


def _experiment(client: Any, study: str, path: Path) -> str:
    """Returns the id of the study's experiment, created if necessary; its artifacts would go next to the database."""
    experiment = client.get_experiment_by_name(study)
    if experiment is not None:
        return str(experiment.experiment_id)
    return str(client.create_experiment(study, artifact_location=real_path(path).with_suffix(".artifacts").as_uri()))


def _exported_runs(client: Any, experiment: str) -> dict[str, tuple[str, str]]:
    """Returns MLflow's id and status of every run in the experiment, by our id."""
    exported: dict[str, tuple[str, str]] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        for entry in page:
            if "run" in entry.data.tags:
                exported[entry.data.tags["run"]] = (entry.info.run_id, entry.info.status)
        token = page.token
        if not token:
            return exported


def _write_run(client: Any, experiment: str, run: StoredRun, exported: Mapping[str, tuple[str, str]]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    if run.id in exported:
        other, status = exported[run.id]
        if status == _MLFLOW_STATUS[run.status]:
            return
        client.delete_run(other)
    at = int(1000 * written_at(run))
    began = at - int(1000 * (run.seconds or 0.0))
    tags = {"study": run.study, "arm": run.arm, "seed": str(run.seed), "run": run.id}
    if run.reason is not None:
        tags["reason"] = run.reason[:5000]
    words = summary_words(run)
    tags |= {column: words[key] for key, column in column_names(words, "summary", tags).items()}
    new = client.create_run(experiment, start_time=began, run_name=f"{run.arm} s{run.seed}").info.run_id
    params = [Param(name, str(value)) for name, value in run.config.items()]
    labels = [RunTag(name, value) for name, value in tags.items()]
    for start in range(0, max(len(params), len(labels)), _MOST_TAGS):
        end = start + _MOST_TAGS
        client.log_batch(new, params=params[start:end], tags=labels[start:end])
    last = max((int(scalar.step.max()) for scalar in scalars(run) if len(scalar.step)), default=0)

    def metrics() -> Iterator[Any]:
        for scalar in scalars(run):
            key = _key(scalar.tag)
            logged: Counter[int] = Counter()  # MLflow keeps equal values at one step only if their times differ
            for step, value in zip(scalar.step.tolist(), scalar.value.tolist(), strict=True):
                yield Metric(key, value, at + logged[step], step)
                logged[step] += 1
        for name, value in summary_numbers(run).items():
            yield Metric(_key(f"summary/{name}"), value, at, last)

    everything = metrics()
    while batch := list(islice(everything, _MOST_METRICS)):
        client.log_batch(new, metrics=batch)
    client.set_terminated(new, _MLFLOW_STATUS[run.status], end_time=at)  # last: a run without it was cut off


def _key(tag: str) -> str:
    """Returns ``tag`` with characters that MLflow does not allow written as codes, so that names stay distinct."""
    return re.sub(r"[^/\w.\- ]", lambda character: f"-{ord(character[0]):x}-", tag)


def export_tensorboard(store: Store, directory: Path) -> None:
    """Writes ``directory``/STUDY/ARM-sSEED-ID/ for every run: its scalars, hyperparameters and texts.

    Scalars are float32, as TensorBoard keeps them. Summary numbers are scalars ``summary/KEY``.
    """
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise KymographError(
            "event files need tensorboard; install it with `pip install 'kymograph[tensorboard]'`"
        ) from None
    contents = {directory / run.spec.directory / EVENTS: _events(run) for run in store}
    for path, content in contents.items():
        make_directory(path.parent, directory)
        write_atomically(path, content)


def _events(run: StoredRun) -> bytes:
    """Returns the event file of one run: an event per step, with every scalar measured at it."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    at = written_at(run)
    steps: dict[int, list[tuple[str, float]]] = {}
    for scalar in scalars(run):
        for step, value in zip(scalar.step.tolist(), scalar.value.tolist(), strict=True):
            steps.setdefault(step, []).append((scalar.tag, value))
    final = [(f"summary/{key}", value) for key, value in summary_numbers(run).items()]

    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    writer.write(Event(wall_time=at, file_version="brain.Event:2").SerializeToString())
    began = at - (run.seconds or 0.0)
    for message in (
        hparams_pb(_hyperparameters(run), trial_id=run.id, start_time_secs=began),
        _session_end(run, at),
        text_pb("config", _markdown({**run.spec.identity, "id": run.id, "provenance": run.provenance})),
        text_pb("summary", _markdown(plain(run.summary) if run.reason is None else {"failed": run.reason})),
    ):
        writer.write(Event(wall_time=at, summary=message).SerializeToString())
    for step, values in [*sorted(steps.items()), (max(steps, default=0), final)]:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values])
        writer.write(Event(wall_time=at, step=step, summary=summary).SerializeToString())
    return buffer.getvalue()


def _hyperparameters(run: StoredRun) -> dict[str, Any]:
    """Returns the configuration with study, arm and seed, for the hyperparameter table."""
    settings = setting_cells(run, setting_columns([run]))
    parameters = {"study": run.study, "arm": run.arm, "seed": run.seed, **settings}
    return {name: "none" if value is None else value for name, value in parameters.items()}


def _session_end(run: StoredRun, at: float) -> Any:
    """Returns the message that ends a session; TensorBoard's own function for it needs TensorFlow."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    status = STATUS_SUCCESS if run.has_results else STATUS_FAILURE
    data = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=at))
    value = Summary.Value(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return Summary(value=[value])


def _markdown(content: Mapping[str, Any]) -> str:
    return "```\n" + json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n```"
