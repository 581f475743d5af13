"""A study in one function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph as ky
from kymograph._claims.claim import Claim
from kymograph._cli.arguments import option_fields, with_engine_options
from kymograph._cli.verbs.experiment import RunOptions
from kymograph._errors import KymographError
from kymograph._experiments import active_run
from kymograph._experiments.function_study import FunctionStudy, reserved_names
from kymograph._runs.storable import stored_summary
from kymograph._sweep.engines.base import ENGINES
from tests.cli.command import call
from tests.studies import warmup_example
from tests.studies.warmup_example import warmup_study

FILE = Path(warmup_example.__file__)


def test_it_is_a_study_with_arms_that_differ_in_what_they_set() -> None:
    assert isinstance(warmup_study, ky.Study) and warmup_study.name == "warmup"
    constant, warmup = warmup_study.arms()
    assert constant.treatment == {"warmup_steps": 0} and warmup.treatment == {"warmup_steps": 10}
    (claim,) = warmup_study.claims()
    assert claim.study == "warmup" and claim.direction == "less" and claim.scale == "log ratio"
    with pytest.raises(KymographError, match="warmup_steps cannot be set"):
        warmup_study.specs([1], fields={"warmup_steps": 3})


def test_it_runs_is_judged_and_is_found_again(tmp_path: Path) -> None:
    store = warmup_study.run(n_seeds=6, out=tmp_path, quiet=True, lr=0.1)
    assert len(store.finished) == 12 and list(store.arms) == ["constant", "warmup"]
    (verdict,) = warmup_study.judge(tmp_path)
    assert verdict.n == 6 and verdict.settings == {"lr": 0.1} and verdict.registration.startswith("registered")
    run = next(iter(store.finished))
    assert run.series["weight"].sites == ("0.weight", "0.bias", "3.weight", "3.bias")
    assert run.series["loss"].value.shape == (30,) and np.isfinite(run.series["loss"].value).all()
    assert run.provenance["notes"] == [
        "random numbers came from the global generators, which were set by the run's seed"
    ]


def test_arms_of_a_seed_start_alike_and_seeds_differ(tmp_path: Path) -> None:
    store = warmup_study.run([1, 2], out=tmp_path, quiet=True)
    first = {(run.arm, run.seed): run.series["loss"].value[0] for run in store.finished}
    assert first["constant", 1] == first["warmup", 1] != first["constant", 2]


def test_what_ran_before_does_not_matter(tmp_path: Path) -> None:
    torch.manual_seed(7)
    one = warmup_study.run([1], arms=["warmup"], out=tmp_path / "a", quiet=True)
    state = torch.get_rng_state()
    torch.rand(10)
    two = warmup_study.run([1], arms=["warmup"], out=tmp_path / "b", quiet=True)
    (a,), (b,) = one.finished, two.finished
    assert np.array_equal(a.series["loss"].value, b.series["loss"].value)
    torch.manual_seed(7)
    assert torch.equal(torch.get_rng_state(), state), "the global generators are given back as they were"


@pytest.mark.slow
def test_every_way_to_run_it_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmup_study.run([3], out=tmp_path / "here", quiet=True)
    assert call("run", str(FILE), "--seeds", "3", "--dir", str(tmp_path / "file")) == 0
    assert call("run", f"{FILE}:warmup_study", "--seeds", "3", "--engine", "processes", "--workers", "2", "--dir",
                str(tmp_path / "workers")) == 0  # fmt: skip
    found = [ky.Store.open(tmp_path / name) for name in ("here", "file", "workers")]
    for store in found[1:]:
        for mine, other in zip(found[0], store, strict=True):
            assert mine.id == other.id
            assert all(np.array_equal(mine.series[name].value, other.series[name].value) for name in mine.series)


@pytest.mark.slow
def test_a_program_that_runs_its_own_study_needs_no_main_guard(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    text = (
        FILE.read_text() + f"\n\nstore = warmup_study.run([1, 2], out={str(tmp_path / 'runs')!r}, engine='processes', "
    )
    program.write_text(text + "quiet=True)\nprint(len(store.finished), 'finished')\n")
    done = subprocess.run([sys.executable, str(program)], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "4 finished", done.stderr


def test_an_interrupted_run_goes_on_where_it_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = warmup_study.run([5], arms=["warmup"], out=tmp_path / "whole", quiet=True)
    steps: list[int] = []
    plain = active_run.ActiveRun.log

    def counted(self: active_run.ActiveRun, step: int | None = None, **values: object) -> None:
        steps.append(self.step)
        plain(self, step, **values)

    monkeypatch.setattr(active_run.ActiveRun, "log", counted)
    monkeypatch.setattr(active_run.ActiveRun, "stop_at", 17, raising=False)
    with pytest.raises(KeyboardInterrupt):
        warmup_study.run([5], arms=["warmup"], out=tmp_path / "killed", quiet=True)
    assert steps == list(range(18))
    monkeypatch.setattr(active_run.ActiveRun, "stop_at", None)
    steps.clear()
    again = warmup_study.run([5], arms=["warmup"], out=tmp_path / "killed", quiet=True)
    assert steps == list(range(14, 30)), "it was saved after step 13"
    (one,), (other,) = whole.finished, again.finished
    assert one.summary == other.summary
    for name in one.series:
        assert np.array_equal(one.series[name].value, other.series[name].value)
        assert np.array_equal(one.series[name].step, other.series[name].step)
    assert not list((tmp_path / "killed").rglob("*.part"))


def _study(**facts: object) -> FunctionStudy:
    def body(run: ky.ActiveRun, *, lr: float = 0.1) -> object:
        run.log(x=1.0)
        return facts.get("returned")

    arms = facts.get("arms", {"one": {}})
    return ky.study(question="?", arms=arms, name="plain")(body)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([1, 2], "returned a list; return a dictionary of numbers"),
        ({"a": [1]}, r"f\(\)\['a'\] is \[1\] \(list\), which cannot be stored"),
        ({1: 2.0}, r"f\(\) has 1 as the name of a number"),
    ],
)
def test_a_wrong_return_is_one_sentence(returned: object, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        stored_summary(returned, "f()")


def test_tensors_and_missing_numbers_are_summaries() -> None:
    found = stored_summary({"a": torch.tensor(1.5), "b": np.float32(2), "c": None, "d": "text", "e": True}, "f")
    assert found == {"a": 1.5, "b": 2.0, "c": None, "d": "text", "e": True}
    assert stored_summary(None, "f") == {}


@pytest.mark.parametrize("name", sorted(reserved_names()))
def test_a_setting_cannot_have_the_name_of_an_option(name: str) -> None:
    namespace: dict = {}
    exec(f"def body(run, *, {name}=1): pass", namespace)
    with pytest.raises(KymographError, match=f"cannot be called '{name}'"):
        ky.study(question="?", arms={"one": {}})(namespace["body"])


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def body(run, lr=0.1): pass", "lr must come after a"),
        ("def body(run, *, lr): pass", "the setting lr has no default"),
        ("def body(*, lr=0.1): pass", "the function's first argument must be the run"),
        ("def body(run, *, lr: dict = None): pass", "lr"),
    ],
)
def test_a_function_that_is_no_study_is_refused(code: str, words: str) -> None:
    namespace: dict = {}
    exec(code, namespace)
    with pytest.raises(KymographError, match=words):
        ky.study(question="?", arms={"one": {}})(namespace["body"])


def test_arms_and_claims_are_checked_at_once() -> None:
    with pytest.raises(KymographError, match="has no setting 'rl'"):
        _study(arms={"one": {"rl": 1.0}})
    with pytest.raises(KymographError, match="has no arms"):
        _study(arms={})

    def body(run: ky.ActiveRun, *, lr: float = 0.1) -> None: ...

    with pytest.raises(KymographError, match="about the arm 'two'"):
        ky.study(question="?", arms={"one": {}}, claims=[Claim.compare("x", "one", "<", "two")])(body)


@pytest.mark.parametrize(
    ("sign", "direction"), [("<", "less"), (">", "greater"), (">=", "not less"), ("<=", "not greater"), ("==", "equal")]
)
def test_signs_are_directions(sign: str, direction: str) -> None:
    claim = Claim.compare("loss", "a", sign, "b", margin=1.2)
    assert claim.direction == direction and claim.margin == 1.2 and "loss" in claim.text
    number = Claim.compare("accuracy", "a", sign, 0.5, margin=0.1, scale="difference")
    assert number.right == 0.5 and number.scale == "difference"


def test_a_margin_below_one_is_no_ratio() -> None:
    with pytest.raises(KymographError, match="scale='difference'"):
        Claim.compare("accuracy", "a", ">", "b", margin=0.02)
    with pytest.raises(KymographError, match="sign of a claim must be one of"):
        Claim.compare("accuracy", "a", "!=", "b")


def test_bounds_and_p_values_are_declared_like_those_of_a_class() -> None:
    def body(run: ky.ActiveRun, *, lr: float = 0.1) -> None: ...

    made = ky.study(question="?", arms={"one": {}}, bounds={"error": (0, 100)}, p_values=["p"])(body)
    assert made.declaration().bounds == {"error": (0, 100)} and made.declaration().p_values == ("p",)
    for limits in ((1, 0), (0,), "01", 3.0, (0, None)):
        with pytest.raises(KymographError, match=r"gives error the bounds .*; give \(lowest, highest\)"):
            ky.study(question="?", arms={"one": {}}, bounds={"error": limits})(body)  # type: ignore[dict-item]


@pytest.mark.parametrize("engine", ["auto", *ENGINES.names()])
def test_every_option_of_the_command_line_is_reserved(engine: str) -> None:
    options = set(option_fields(with_engine_options(RunOptions, ["--engine", engine])))
    assert options <= set(reserved_names())
    assert {"seeds", "dir", "grid", "config", "device"} <= options and "out" in reserved_names()


def test_what_names_a_run_is_reserved() -> None:
    assert {"study", "arm", "seed", "debug", "help"} <= set(reserved_names())
    assert not {"lr", "steps", "width", "fields", "name"} & set(reserved_names())


def test_what_a_name_is_an_option_of_is_said() -> None:
    names = reserved_names()
    assert names["device"] == "an option of every study" and names["scheduler"] == "an option of the engine dask"
