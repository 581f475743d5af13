"""A Slurm job array whose files somebody else wrote: only numbers reach Slurm, and only records count as runs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kymograph._errors import KymographError
from kymograph._runs.record import is_finished
from kymograph._runs.spec import slug
from kymograph._studies.loading import load_with_reference
from kymograph._sweep.engines import slurm
from kymograph._sweep.engines.slurm import SLURM, Batch
from kymograph._sweep.orders import Stack, orders_for
from kymograph._sweep.progress import Progress
from tests.fuzz.budget import EXAMPLES, SEED
from tests.fuzz.mutations import BYTES, dump, replace_value
from tests.studies.tossing import REFERENCE

ANSWER = {"outcomes": [{"run": "RUN", "status": "finished", "reason": None}, {"run": "b", "status": "failed"}]}
NAMES = ("job", "0.answers", "0.runs", "0.log", "followed")
hostile = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"--user=root", b"7 8", b"7\n--full", b"", b"\xff\xfe", b"[" * 5_000, b'{"outcomes": [1]}',
                     b'{"outcomes": {"run": 1}}', b'{"error": ["a", {}]}', b'{"outcomes": [{"run": []}]}',
                     b'{"outcomes": [{"run": "RUN", "status": "finished", "extra": 1}]}', b"9" * 5_000]),
    st.integers(0, 10**6).map(lambda number: dump(replace_value(ANSWER, random.Random(number)))),
    st.integers(0, 10**6).map(
        lambda number: random.Random(number).choice(BYTES)(json.dumps(ANSWER).encode(), random.Random(number))
    ),
)  # fmt: skip


def follow(out: Path, contents: dict[str, bytes]) -> tuple[list[str], list[Sequence[str]]]:
    """Runs a sweep where somebody put the files of a job array; returns how its runs ended, and Slurm's calls."""
    study, code = load_with_reference(REFERENCE)
    (spec,) = study.specs([1], ["heads"])
    (order,) = orders_for(code, [Stack((spec,), (True,), 1)], out, (), "cpu", None)
    batch = Batch(out / slug(study.name) / SLURM / "kymograph-00")
    batch.directory.mkdir(parents=True)
    for name, content in contents.items():
        (batch.directory / name).write_bytes(content.replace(b"RUN", spec.id.encode()))
    calls: list[Sequence[str]] = []
    tasks = ["kymograph-00|0"]

    def answer(*command: str) -> str:
        calls.append(command)
        if command[0] == "squeue":
            return tasks.pop() if tasks else ""
        return {"sbatch": "12\n", "scontrol": "JobState=FAILED ExitCode=1:0"}.get(command[0], "")

    engine = slurm.Engine(1, slurm.Options(retries=0))
    patches = (
        mock.patch.object(slurm, "_slurm", answer),
        mock.patch.object(slurm, "_wait", lambda seconds, progress: None),
        mock.patch.object(slurm, "GRACE", 0.0),
    )
    with patches[0], patches[1], patches[2]:
        try:
            ends = [one.status for many in engine.run([order], Progress("", 1, 1, quiet=True)) for one in many]
        except KymographError as error:
            ends = [str(error)]
    assert not is_finished(out, spec)
    return ends, calls


@pytest.mark.slow
def test_hostile_files_of_a_job_array(tmp_path_factory: pytest.TempPathFactory) -> None:
    @hypothesis.seed(SEED)
    @settings(max_examples=max(10, EXAMPLES // 20), database=None, deadline=None,
              suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
    @given(st.dictionaries(st.sampled_from(NAMES), hostile), st.booleans())
    def tried(contents: dict[str, bytes], known: bool) -> None:
        files = {"0.runs": b"RUN", **contents} if known else contents
        ends, calls = follow(tmp_path_factory.mktemp("slurm"), files)
        assert ends and "finished" not in ends, "no record is there, whatever an answer says"
        for command in calls:
            numbers = {"scancel": command[1:], "scontrol": [word.split("_")[0] for word in command[4:]]}.get(
                command[0], []
            )
            assert all(word == "" or word.isdecimal() for word in numbers), command

    tried()


def test_an_answer_is_no_record(tmp_path: Path) -> None:
    """A run used to count as finished because a file said so."""
    ends, _ = follow(tmp_path, {"0.runs": b"RUN", "job": b"7", "0.answers": json.dumps(ANSWER).encode()})
    assert ends == ["failed"]


def test_a_forged_job_number_reaches_no_command(tmp_path: Path) -> None:
    for index, text in enumerate((b"--user=root", b"7 8", b"-1", b"7;8", b"9" * 50)):
        directory = tmp_path / str(index)
        directory.mkdir()
        (directory / "job").write_bytes(text)
        assert Batch(directory).job is None
    (directory / "job").write_bytes(b"71\n")
    assert Batch(directory).job == "71"
