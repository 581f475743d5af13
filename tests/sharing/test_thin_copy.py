"""Thin bundles: verdicts as from the whole runs, and nothing invented about what was left out."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph
from kymograph import Claim, Measure, RunResult, RunSeries, Side
from kymograph._claims.judge import judge
from kymograph._claims.registration import REGISTRATION
from kymograph._errors import KymographError
from kymograph._runs.directory import Directory
from kymograph._runs.log import Log
from kymograph._runs.thin_run import MOST_MEASUREMENTS, ThinRun
from kymograph._sharing.bundle import opened_runs, write_bundle
from kymograph._sharing.verify import all_hold, verify_bundle
from kymograph._studies.loading import load_with_reference
from tests.studies.tossing import Tossing, TossingConfig

REFERENCE = "tests.sharing.test_thin_copy:Walking"


class Walking(Tossing):
    """A random walk per run, measured at every step, and its end, measured rarely."""

    name = "walking"

    def toss(self, spec: kymograph.RunSpec[TossingConfig]) -> RunResult:
        """One walk."""
        config = spec.config
        draw = np.random.default_rng([spec.seed, config.coin == "tails", config.faces])
        walk = draw.standard_normal(MOST_MEASUREMENTS + 1).cumsum() + (50.0 if config.coin == "tails" else 0.0)
        sites = np.stack([walk, -walk], 1)
        every = 40
        return RunResult(
            {
                "walk": RunSeries(np.arange(len(walk)), walk),
                "sides": RunSeries(np.arange(len(walk)), sites, sites=("up", "down")),
                "rarely": RunSeries(np.arange(len(walk))[::every], walk[::every]),
            },
            {"x": float(walk[-1])},
        )

    def claims(self) -> Sequence[Claim]:
        """Claims about a per-step series, one of its sites, a short series and a summary."""
        measures = [
            Measure("walk", "mean"),
            Measure("sides", "last", site="up"),
            Measure("rarely", "max"),
            Measure("x"),
        ]
        return [
            Claim(f"tails: {what}", self.name, "tails exceeds heads", Side("tails", what),
                  Side("heads", what), "greater", margin=1.0, scale="difference", origin="a test")
            for what in measures
        ]  # fmt: skip


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seeds of both arms."""
    out = tmp_path_factory.mktemp("walks") / "runs"
    kymograph.run(REFERENCE, n_seeds=10, out=out, quiet=True, engine="serial")
    return out


@pytest.fixture(scope="module")
def thin(walks: Path) -> Path:
    """The thin bundle of the walks."""
    path = walks.parent / "thin.zip"
    write_bundle(walks, path, {"walking": load_with_reference(REFERENCE)[1]}, thin=True)
    return path


def test_verdicts_of_a_thin_bundle_are_those_of_the_whole_runs(walks: Path, thin: Path) -> None:
    with opened_runs(thin) as directory:
        judged, whole = judge(directory), judge(walks)
        assert len(judged) == 4 and judged.rows() == whole.rows()


def test_what_is_kept_is_bit_identical_and_what_is_left_out_is_named(walks: Path, thin: Path) -> None:
    whole = {run.id: run for run in Directory(walks).store}
    with opened_runs(thin) as directory:
        archive = Directory(directory).checked()
        assert len(archive.store) == 20 and not archive.damaged
        for run in archive.store:
            assert isinstance(run, ThinRun) and run.left_out == ("sides", "walk")
            assert set(run.series) == {"rarely"}
            assert run.series["rarely"].value.tobytes() == whole[run.id].series["rarely"].value.tobytes()
            assert run.reductions == {
                ("walk", "mean", None): float(whole[run.id].series["walk"].value.mean()),
                ("sides", "last", "up"): float(whole[run.id].series["sides"].value[-1, 0]),
            }
            assert run.series_digest == whole[run.id].series_digest and run.summary == whole[run.id].summary


def test_a_number_that_no_claim_read_is_missing_and_not_invented(thin: Path) -> None:
    other = Claim("largest", "walking", "tails exceeds heads", Side("tails", Measure("walk", "max")),
                  Side("heads", Measure("walk", "max")), "greater", margin=1.0, scale="difference",
                  origin="a test")  # fmt: skip
    with opened_runs(thin) as directory:
        (verdict,) = judge(directory, [other])
    assert verdict.outcome.name == "INVALID" and "walk" in verdict.reason


def test_verify_says_what_it_cannot_check_and_compares_recomputed_runs_by_digest(thin: Path) -> None:
    results = verify_bundle(thin, rerun=2, seed=0)
    texts = [str(result) for result in results]
    assert all_hold(results)
    assert any(text.startswith("note   20 runs are thin: not checked are trained networks and the series sides, walk")
               for text in texts)  # fmt: skip
    assert sum("the same bits, by the digest of its series" in text for text in texts) == 2


def test_a_thin_bundle_of_a_thin_bundle_is_the_same(thin: Path, tmp_path: Path) -> None:
    with opened_runs(thin) as directory:
        copy = shutil.copytree(directory, tmp_path / "runs")
    write_bundle(copy, tmp_path / "again.zip", {"walking": load_with_reference(REFERENCE)[1]}, thin=True)
    with opened_runs(tmp_path / "again.zip") as directory:
        again = {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert again == {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "change",
    [{"study": None}, {"claims": {"walking/own/mine": {"left": 5}}}, {"claims": 5}],
    ids=["no study", "no claim", "no claims"],
)
def test_a_forged_registration_ends_in_a_bundle_or_a_sentence(
    walks: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    """It used to end in a traceback."""
    runs, written = Path(shutil.copytree(walks, tmp_path / "runs")), tmp_path / "thin.zip"
    content = {**Log.read(runs).of_kind(REGISTRATION)[0].content, **change}
    Log.read(runs).append(REGISTRATION, {name: value for name, value in content.items() if value is not None})
    if content["claims"] == 5:
        with pytest.raises(KymographError, match=r"the registration \w+ cannot be read: its claims must be objects"):
            write_bundle(runs, written, thin=True)
    else:
        write_bundle(runs, written, thin=True)
        assert written.exists()
