"""Which runs are asked for: by arguments, and by a TOML file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

import kymograph as ky
from kymograph._cli.main import run_verb
from kymograph._errors import KymographError
from kymograph._experiments.running import SweepRequest, read_settings
from kymograph._runs.declaration import Declaration
from kymograph._runs.log import Log
from kymograph._sweep.code_loading import CodeReference
from tests.studies.warmup_example import warmup_study

WHOLE = """
lr = 1                 # a whole number where a float is asked for
steps = 5
arms = ["warmup"]
seeds = [1, 2]
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "settings.toml"
    path.write_text(text)
    return path


def test_a_file_says_which_runs(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, WHOLE), warmup_study)
    assert found == SweepRequest({"lr": 1.0, "steps": 5}, {}, (1, 2), None, ("warmup",))
    assert isinstance(found.fields["lr"], float)
    grid = read_settings(written(tmp_path, "n_seeds = 3\n[grid]\nlr = [0.1, 1]\n"), warmup_study)
    assert grid == SweepRequest({}, {"lr": [0.1, 1.0]}, None, 3, ())


def test_python_runs_from_a_file_and_arguments_win(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    store = ky.run(warmup_study, out=tmp_path / "a", quiet=True, config=path)
    assert store.seeds == (1, 2) and store.arms == ("warmup",) and {run.config["lr"] for run in store} == {1.0}
    store = warmup_study.run([3], out=tmp_path / "b", quiet=True, config=path, lr=0.2)
    assert store.seeds == (3,) and {(run.config["lr"], run.config["steps"]) for run in store} == {(0.2, 5)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lrr = 0.1", r"settings.toml: warmup has no setting 'lrr'; did you mean 'lr'\?"),
        ("n_seed = 3", r"did you mean 'n_seeds'\?"),
        (
            "device = 'cpu'",
            "warmup has no setting 'device'; known: arms, grid, lr, n_seeds, seeds, steps, warmup_steps",
        ),
        ("lr = 'high'", "settings.toml: lr must be of type float, not 'high'"),
        ("steps = 1.5", "steps must be of type int, not 1.5"),
        ("steps = true", "steps must be of type int, not True"),
        ("seeds = 3", "seeds must be a list of whole numbers, not 3"),
        ("seeds = [true]", "seeds must be a list of whole numbers"),
        ("n_seeds = 'ten'", "n_seeds must be a whole number, not 'ten'"),
        ("arms = 'warmup'", "arms must be a list of strings, not 'warmup'"),
        ("grid = 3", r"grid must be a table, \[grid\], not 3"),
        ("[grid]\nlr = 0.1", r"the grid takes a list of values of lr, e.g. lr = \[0.1, 0.03\], not 0.1"),
        ("[grid]\nlr = ['high']", "lr must be of type float, not 'high'"),
        ("[grid]\nlearning = [1.0]", "warmup has no setting 'learning'"),
        ("lr = ", "settings.toml is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(KymographError, match=words) as error:
        read_settings(written(tmp_path, text), warmup_study)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match=r"no settings file .*absent\.toml"):
        read_settings(tmp_path / "absent.toml", warmup_study)


@ky.study(question="Which task?", arms={"only": {}})
def picky_study(run: ky.ActiveRun, *, task: Literal["identity", "orthogonal"] = "identity") -> None:
    """Trains nothing."""


def test_a_literal_setting_names_its_choices(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="task cannot be 'identiy'; did you mean 'identity'"):
        read_settings(written(tmp_path, 'task = "identiy"'), picky_study)


def test_whatever_is_given_besides_the_file_wins() -> None:
    file = SweepRequest({"lr": 0.1, "steps": 5}, {"width": [1, 2]}, (1, 2), None, ("a",))
    assert SweepRequest().over(file) == file
    assert SweepRequest({"lr": 0.5}, n_seeds=3, arms=("b",)).over(file) == SweepRequest(
        {"lr": 0.5, "steps": 5}, {"width": [1, 2]}, None, 3, ("b",)
    )
    varied = SweepRequest({"width": 4}, {"lr": [0.1, 0.2]}).over(file)
    assert varied.fields == {"steps": 5, "width": 4} and varied.grid == {"lr": [0.1, 0.2]}


def test_a_first_run_reads_the_log_once_and_loads_the_study_to_plan_and_to_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to read the log nine times, its declaration four times, and to load the study three times."""
    counts = Counter[str]()

    def counted(owner: type, name: str) -> None:
        plain = getattr(owner, name)

        def call(*args: object, **named: object) -> object:
            counts[f"{owner.__name__}.{name}"] += 1
            return plain(*args, **named)

        monkeypatch.setattr(owner, name, staticmethod(call) if isinstance(vars(owner)[name], staticmethod) else call)

    counted(Log, "read")
    counted(CodeReference, "load")
    counted(Declaration, "from_json")
    study = Path(__file__).parents[1] / "studies" / "warmup_example.py"
    words = ["run", f"{study}:warmup_study", "--seeds", "1", "2", "--steps", "5", "--engine", "serial", "--quiet"]
    assert run_verb([*words, "--dir", str(tmp_path)], debug=False) == 0
    assert counts["Log.read"] == 1 and counts["Declaration.from_json"] <= 1
    stacks = 4
    assert counts["CodeReference.load"] == 1 + stacks, "to plan, and once for every stack that is computed"
    counts.clear()
    assert run_verb([*words, "--dir", str(tmp_path)], debug=False) == 0
    assert counts == {"Log.read": 1, "CodeReference.load": 1, "Declaration.from_json": 1}
