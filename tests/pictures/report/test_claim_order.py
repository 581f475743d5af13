from __future__ import annotations

from dataclasses import replace

from kymograph.claims.verdict import Outcome, Verdict
from kymograph.pictures.report.verdicts import ordered
from tests.pictures.report.pages import claim


def verdict(name: str, setup: str, outcome: Outcome, origin: str = "", kind: str | None = None) -> Verdict:
    stated = replace(claim(name, setup), origin=origin or name, kind=kind)  # type: ignore[arg-type]
    return Verdict(stated, outcome, "why", "registered")


def names(verdicts: list[Verdict]) -> list[list[tuple[str, str]]]:
    return [[(one.claim.name, one.claim.setup) for one in group] for group in ordered(verdicts)]


def test_refuted_claims_come_first_and_twins_are_neighbours() -> None:
    found = names([
        verdict("calm", "script", Outcome.SUPPORTED),
        verdict("steady", "script", Outcome.SUPPORTED),
        verdict("check", "script", Outcome.REFUTED, kind="manipulation check"),
        verdict("steady", "repaired", Outcome.REFUTED),
        verdict("of the stack", "script", Outcome.INVALID, "line 4"),
        verdict("on the stream", "repaired", Outcome.EQUIVALENT, "line 4"),
    ])  # fmt: skip
    assert found == [
        [("steady", "repaired"), ("steady", "script")],
        [("calm", "script")],
        [("on the stream", "repaired"), ("of the stack", "script")],
        [("check", "script")],
    ]


def test_claims_of_ones_own_are_no_twins_though_they_share_their_origin() -> None:
    found = names([
        verdict("one", "own", Outcome.INCONCLUSIVE, "the author"), verdict("two", "own", Outcome.REFUTED, "the author")
    ])  # fmt: skip
    assert found == [[("two", "own")], [("one", "own")]]


def test_all_verdicts_are_listed_once() -> None:
    both = [verdict("x", setup, outcome) for setup in ("script", "repaired") for outcome in Outcome]
    assert sorted(map(id, both)) == sorted(id(one) for group in ordered(both) for one in group)
