from __future__ import annotations

from pathlib import Path

import pytest

from kymograph.cli.arguments import NamedStudy, SelectOptions, named_study
from kymograph.errors import KymographError
from kymograph.runs.store import Store
from tests.cli.command import write_coin


def test_a_study_is_named_by_its_stored_name_or_by_its_code(tmp_path: Path) -> None:
    path = str(write_coin(tmp_path))
    assert named_study(None) == NamedStudy(None) and named_study("absent") == NamedStudy("absent")
    for reference in (path, f"{path}:Coin"):
        study = named_study(reference)
        assert study.name == "coin" and [code.name for code in study.code] == ["coin"]


def test_selected_runs_are_of_the_study_arms_and_settings_asked_for(depth_store: Store) -> None:
    root = str(depth_store.root)
    whole, study = SelectOptions().open(root)
    assert study == NamedStudy(None)
    assert {run.id for run in whole} == {run.id for run in depth_store}
    part, _ = SelectOptions("depth", ("res*",), ("width=8", "task=identity")).open(root)
    assert part.arms and all(arm.startswith("res") for arm in part.arms) and len(part) < len(whole)
    for options, message in (
        (SelectOptions("dept"), "has no runs of 'dept'; did you mean 'depth'"),
        (SelectOptions(arms=("resi",)), "has no arm 'resi'"),
        (SelectOptions(where=("width=9",)), "no run has width=9"),
    ):
        with pytest.raises(KymographError, match=message):
            options.open(root)


def test_an_engine_brings_its_own_options(capsys: pytest.CaptureFixture) -> None:
    from kymograph.cli.arguments import parse, with_engine_options
    from kymograph_studies.verbs import ReproduceOptions

    words = ["--engine", "slurm", "--partition", "gpu", "--sbatch", "mem=4G", "account=x", "--detach"]
    options = parse(with_engine_options(ReproduceOptions, words), words, "kymograph reproduce")
    made = options.compute.sweep_options("runs", options)
    assert made.engine == "slurm" and made.engine_options["partition"] == "gpu" and made.engine_options["detach"]
    assert made.engine_options["sbatch"] == ("mem=4G", "account=x")
    plain = parse(with_engine_options(ReproduceOptions, []), [], "kymograph reproduce")
    assert plain.compute.sweep_options("runs", plain).engine_options == {}
    with pytest.raises(KymographError, match="no option '--partition'"):
        parse(with_engine_options(ReproduceOptions, words[2:4]), words[2:4], "kymograph reproduce")
    with pytest.raises(SystemExit):
        parse(
            with_engine_options(ReproduceOptions, ["--engine=dask"]), ["--engine=dask", "--help"], "kymograph reproduce"
        )
    shown = capsys.readouterr().out
    assert "dask options" in shown and "--scheduler ADDRESS" in shown
