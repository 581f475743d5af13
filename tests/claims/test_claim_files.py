"""Claims from files: TOML, Python and CSV, and files that are not what they seem."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kymograph._claims.claim import Measure, Side
from kymograph._claims.claim_files import read_claims
from kymograph._claims.judge_csv import read_csv_arm
from kymograph._errors import KymographError

GOOD = """
[[claim]]
name = "clipping calms the loss"
study = "clipping"
arm = "extreme/clip"
against = "extreme/no_clip"
series = "loss"
reduce = "mean"
direction = "less"
scale = "log ratio"
margin = 1.1
where = { lr = 0.1 }
[[claim.check]]
text = "clipping fired"
summary = "clip_fraction"
least = 0.001

[[claim]]
name = "rare above common"
arm = "extreme/no_clip"
against = "extreme/no_clip"
summary = "rare_grad_norm"
against_summary = "common_grad_norm"
direction = "greater"
margin = 0
"""


def write(tmp_path: Path, text: str, name: str = "claims.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_toml_file_becomes_claims(tmp_path: Path) -> None:
    first, second = read_claims(write(tmp_path, GOOD))
    assert first.left == Side("extreme/clip", Measure("loss", "mean"), {"lr": 0.1})
    assert first.right == Side("extreme/no_clip", Measure("loss", "mean"), {"lr": 0.1})
    assert first.checks[0].least == 0.001 and first.checks[0].quantity.arm == "extreme/clip"
    assert second.study == "own" and second.right.measure == Measure("common_grad_norm")  # type: ignore[union-attr]
    assert first.origin == "claims.toml"


def test_a_python_file_becomes_claims(tmp_path: Path) -> None:
    text = """
from kymograph import Claim, Measure, Side
side = Side("a", Measure("x"))
CLAIMS = [Claim("c", "s", "t", side, 1.0, "less", 0.0, origin="o")]
"""
    assert read_claims(write(tmp_path, text, "claims.py"))[0].name == "c"
    with pytest.raises(KymographError, match="must set CLAIMS"):
        read_claims(write(tmp_path, "x = 1", "empty.py"))
    with pytest.raises(KymographError, match="does not run: division"):
        read_claims(write(tmp_path, "1 / 0", "broken.py"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[[claim]]", "[[claim"), "is not TOML"),
        (("[[claim]]", "[[clam]]"), r"contains no \[\[claim\]\]"),
        (('direction = "less"', ""), "lacks 'direction'"),
        (('direction = "less"', 'direction = "down"'), "direction must be one of"),
        (('series = "loss"', ""), "either a series or a summary"),
        (('series = "loss"', 'serie = "loss"'), "unknown key 'serie'; did you mean 'series'"),
        (("margin = 1.1", 'margin = "big"'), "margin must be a number"),
        (('reduce = "mean"', 'reduce = "sum"'), "cannot be reduced by 'sum'"),
        (('summary = "rare_grad_norm"', 'summary = "rare_grad_norm"\nreduce = "last"'), "goes with a series"),
        (('against = "extreme/no_clip"\nsummary', "against = 1.0\nsummary"), "against is a number"),
        (("margin = 0", 'margin = 0\ndiverged = "dropp"'), "diverged must be invalid or drop"),
        (("margin = 0", 'margin = 0\nsetup = ""'), "setup must be a label"),
        (("rare above common", "clipping calms the loss"), None),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path: Path, change: tuple[str, str], words: str | None) -> None:
    text = GOOD.replace(*change)
    if words is None:  # the same name in two studies is no mistake
        assert len(read_claims(write(tmp_path, text))) == 2
        return
    with pytest.raises(KymographError, match=words):
        read_claims(write(tmp_path, text))


INTERACTION = """
[[claim]]
name = "clipping matters more where classes are rarer"
study = "clipping"
arm = "extreme/clip"
against = "extreme/no_clip"
summary = "final_loss"
direction = "less"
margin = 0
equivalence_margin = 0.1
[claim.interaction]
arm = "moderate/clip"
against = "moderate/no_clip"
"""


def test_an_interaction_names_the_other_pair(tmp_path: Path) -> None:
    (claim,) = read_claims(write(tmp_path, INTERACTION))
    assert [side.arm for side in claim.sides] == [
        "extreme/clip", "extreme/no_clip", "moderate/clip", "moderate/no_clip",
    ]  # fmt: skip
    assert {side.measure for side in claim.sides} == {Measure("final_loss")} and claim.equivalence_margin == 0.1
    own = 'where = { lr = 0.2 }\nseries = "loss"\nreduce = "mean"\n'
    (claim,) = read_claims(write(tmp_path, INTERACTION + own))
    assert claim.interaction == tuple(
        Side(arm, Measure("loss", "mean"), {"lr": 0.2}) for arm in ("moderate/clip", "moderate/no_clip")
    )
    assert claim.left.where == {}
    setting = INTERACTION.replace("moderate", "extreme") + "where = { lr = 0.2 }\n"
    (claim,) = read_claims(write(tmp_path, setting))
    assert claim.sides[2] == replace(claim.left, where={"lr": 0.2}), "the same arms under another setting"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('against = "moderate/no_clip"', "against = 1.0"), "interaction needs 'against', the name of an arm"),
        (('against = "moderate/no_clip"', ""), "interaction needs 'against'"),
        (('arm = "moderate/clip"', 'arm = "moderate/clip"\nmargin = 1'), "unknown key 'margin'"),
        (("equivalence_margin = 0.1", "interaction = 1"), "is not TOML"),
        (("[claim.interaction]", "interaction = 1\n[[claim.check]]\nsummary = 'x'\n[ignored]"), "write it as"),
        (('against = "extreme/no_clip"', "against = 0.5"), "compares four quantities"),
        (("equivalence_margin = 0.1", "equivalence_margin = true"), "equivalence_margin must be a number"),
        (('direction = "less"', 'direction = "equal"'), "nothing can be shown equal"),
    ],
)
def test_a_mistake_in_an_interaction_is_one_sentence(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    with pytest.raises(KymographError, match=words):
        read_claims(write(tmp_path, INTERACTION.replace(*change)))


def test_a_file_can_claim_equality(tmp_path: Path) -> None:
    text = GOOD.replace('direction = "less"', 'direction = "equal"')
    first, _ = read_claims(write(tmp_path, text))
    assert first.direction == "equal" and first.margin == 1.1


def test_two_claims_of_one_name_are_refused(tmp_path: Path) -> None:
    one = GOOD.split("[[claim]]")[2]
    with pytest.raises(KymographError, match="two claims named"):
        read_claims(write(tmp_path, f"[[claim]]{one}[[claim]]{one}"))


def test_csv_files_become_runs(tmp_path: Path) -> None:
    (tmp_path / "loss.csv").write_text("seed,step,value\n1,2,0.5\n1,1,0.9\n2,1,\n")
    (tmp_path / "acc.csv").write_text("step,seed,value,note\n1,1,0.1,x\n")
    one, two = read_csv_arm(tmp_path)
    assert one.arm == tmp_path.name and one.series["loss"].value.tolist() == [0.9, 0.5]
    assert two.seed == 2 and two.series["loss"].value[0] != two.series["loss"].value[0], "an empty cell is missing"


@pytest.mark.parametrize(
    ("text", "words"),
    [("seed,value\n1,2\n", "no column 'step'"), ("seed,step,value\n1,a,2\n", "line 2"),
     ("seed,step,value\n1,1,2\n1,1,3\n", "two values at one step"), ("", "no column 'seed'"),
     ("seed,step,value\n", "contain no values")],
)  # fmt: skip
def test_a_csv_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "loss.csv").write_text(text)
    with pytest.raises(KymographError, match=words):
        read_csv_arm(tmp_path)
    with pytest.raises(KymographError, match="contains no CSV"):
        read_csv_arm(tmp_path / "absent")


CLAIM = """
[[claim]]
name = "claim {}"
study = "lab"
arm = "arm"
against = 1.0
summary = "final"
direction = "less"
margin = 0.0
"""


def test_many_claims_take_time_in_proportion(tmp_path: Path) -> None:
    """Names were compared each with each: 20,000 claims took a minute."""
    costs = []
    for count in (500, 4000):
        (tmp_path / "c.toml").write_text("".join(CLAIM.format(number) for number in range(count)))
        tries = []
        for _ in range(3):  # the best of them: one may meet a collection of garbage
            started = time.process_time()
            assert len(read_claims(tmp_path / "c.toml")) == count
            tries.append(time.process_time() - started)
        costs.append(min(tries) / count)
    assert costs[1] < 4 * costs[0], "eight times as many took 64 times as long"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CLAIM.format(1) + "alpha = 2024-01-01", "a date or a time"),
        (CLAIM.format(1) + f"alpha = {'9' * 5000}", "300 digits"),
        (CLAIM.format(1) + CLAIM.format(1), "two claims named"),
        ("[" * 10_000, "not TOML|nested"),
    ],
)
def test_a_hostile_file_of_claims_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(KymographError, match=why) as error:
        read_claims(tmp_path / "c.toml")
    assert "\n" not in str(error.value)
