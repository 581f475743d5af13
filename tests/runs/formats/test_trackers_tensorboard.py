from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph._errors import KymographError
from kymograph._runs.formats import export
from kymograph._runs.formats.trackers import scalars
from kymograph._runs.store import Store
from tests.runs.formats.awkward import awkward_store, expected


def read(directory: Path):
    """Reads a run's event file as TensorBoard does."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def points(events, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events.Scalars(tag)]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_tensorboard_reads_what_the_store_holds(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    out = export(store, "tensorboard", tmp_path / "tb")
    assert len(files(out)) == len(store)
    for run in store.finished:
        events = read(out / run.spec.directory)
        wanted = expected(run.seed)
        assert set(events.Tags()["scalars"]) == set(wanted), "a series without values has no tag"
        for tag, pairs in wanted.items():
            np.testing.assert_allclose(points(events, tag), pairs, rtol=1e-7, err_msg=tag)


def test_numbers_of_a_real_study_come_back_as_float32(walk_store: Store, tmp_path: Path) -> None:
    store = walk_store.select(arms=["extreme/clip"], seeds=[42])
    export(store, "tensorboard", tmp_path / "tb")
    run = store.runs[0]
    events = read(tmp_path / "tb" / run.spec.directory)
    for scalar in scalars(run):
        if not len(scalar.step):
            assert scalar.tag not in events.Tags()["scalars"]
            continue
        steps, values = zip(*points(events, scalar.tag), strict=True)
        assert list(steps) == scalar.step.tolist()
        np.testing.assert_array_equal(np.array(values, np.float32), scalar.value.astype(np.float32))


def test_hyperparameters_and_texts_say_what_the_run_was(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS

    store = awkward_store(tmp_path / "runs")
    export(store, "tensorboard", tmp_path / "tb")
    for run in store:
        events = read(tmp_path / "tb" / run.spec.directory)

        def content(tag: str, events=events) -> bytes:
            return events.SummaryMetadata(tag).plugin_data.content

        start = metadata.parse_session_start_info_plugin_data(content(metadata.SESSION_START_INFO_TAG))
        values = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
        assert values == {"study": run.study, "arm": run.arm, "seed": run.seed, "lr": 0.1, "epochs": 3,
                          "clip": "norm", "skip": True, "limit": "none"}  # fmt: skip
        end = metadata.parse_session_end_info_plugin_data(content(metadata.SESSION_END_INFO_TAG))
        assert end.status == (STATUS_SUCCESS if run.status == "diverged" else STATUS_FAILURE)
        config, summary = (events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in ("config", "summary"))
        assert run.id in config and ("loss is NaN at step 3" in summary) == (run.status == "failed")


def test_exporting_again_changes_nothing(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    export(store, "tensorboard", tmp_path / "tb")
    before = files(tmp_path / "tb")
    export(store, "tensorboard", tmp_path / "tb")
    assert files(tmp_path / "tb") == before


def test_it_needs_neither_torch_nor_tensorflow(tmp_path: Path) -> None:
    awkward_store(tmp_path / "runs")
    code = f"""
import sys
sys.modules["torch"] = sys.modules["tensorflow"] = None
import kymograph
kymograph.export(kymograph.Store.open({str(tmp_path / "runs")!r}), "tensorboard", {str(tmp_path / "tb")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(files(tmp_path / "tb")) == 4


def test_without_tensorboard_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = awkward_store(tmp_path / "runs")
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(KymographError, match=r"kymograph\[tensorboard\]"):
        export(store, "tensorboard", tmp_path / "tb")
    assert not (tmp_path / "tb").exists()


def test_a_link_in_the_output_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tb").mkdir()
    study = tmp_path / "tb" / store.runs[0].spec.directory.split("/")[0]
    study.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KymographError, match=f"{study} is a link that leads outside of {tmp_path / 'tb'}, which"):
        export(store, "tensorboard", tmp_path / "tb")
    assert not any((tmp_path / "elsewhere").iterdir())
