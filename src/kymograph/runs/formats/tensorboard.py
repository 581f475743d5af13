"""Stored runs as TensorBoard event files, written with TensorBoard's own protocol buffers and without torch."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.formats.scalars import scalars, summary_numbers, written_at
from kymograph.runs.run_table import setting_cells, setting_columns
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun

# One file with a fixed name per run, unlike EventFileWriter's name of time, host and process: exporting again replaces
# it, whereas a second file next to the first would show every point twice.
EVENTS = "events.out.tfevents.0.kymograph"

PART = {"about": "TensorBoard event files, a directory", "order": 4}


def write(store: Store, directory: Path) -> None:
    """Writes ``directory``/STUDY/ARM-sSEED-ID/ for every run: its scalars, hyperparameters and texts.

    Scalars are float32, as TensorBoard keeps them. Summary numbers are scalars ``summary/KEY``.
    """
    _require()
    contents = {directory / run.spec.directory / EVENTS: _events(run) for run in store}
    for path, content in contents.items():
        make_directory(path.parent, directory)
        write_atomically(path, content)


def _require() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise KymographError(
            "event files need tensorboard; install it with `pip install 'kymograph[tensorboard]'`"
        ) from None


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
    for facts in (
        hparams_pb(_hyperparameters(run), trial_id=run.id, start_time_secs=began),
        _session_end(run, at),
        text_pb("config", _markdown({**run.spec.identity, "id": run.id, "provenance": run.provenance})),
        text_pb("summary", _markdown(run.summary if run.reason is None else {"failed": run.reason})),
    ):
        writer.write(Event(wall_time=at, summary=facts).SerializeToString())
    for step, values in [*sorted(steps.items()), (max(steps, default=0), final)]:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values])
        writer.write(Event(wall_time=at, step=step, summary=summary).SerializeToString())
    return buffer.getvalue()


def _hyperparameters(run: StoredRun) -> dict[str, Any]:
    """Returns the configuration with study, arm and seed, for the hyperparameter table."""
    columns = setting_columns([run])
    facts = {"study": run.study, "arm": run.arm, "seed": run.seed, **setting_cells(run, columns)}
    return {name: "none" if value is None else value for name, value in facts.items()}


def _session_end(run: StoredRun, at: float) -> Any:
    """Returns the message that ends a session; TensorBoard's own function for it needs TensorFlow."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    status = STATUS_SUCCESS if run.status == "finished" else STATUS_FAILURE
    data = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=at))
    value = Summary.Value(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return Summary(value=[value])


def _markdown(facts: Mapping[str, Any]) -> str:
    return "```\n" + json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False) + "\n```"
