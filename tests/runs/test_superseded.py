from __future__ import annotations

from dataclasses import replace

from kymograph.runs.declaration import Declaration
from kymograph.runs.history import code_text, current_code
from kymograph.runs.spec import RunSpec


def spec(version: int, source: str | None = None) -> RunSpec:
    return RunSpec("s", "a", 1, {}, version, source)


STORED = Declaration("s", version=1, source="b", stored=True)


def test_what_was_declared_with_the_last_sweep_is_current_even_if_its_version_is_lower() -> None:
    """A version that was raised and taken back used to leave the runs just computed superseded."""
    code = current_code([spec(2, "a"), spec(1, "b")], {"s": STORED})["s"]
    assert code.made(spec(1, "b")) and not code.made(spec(2, "a")) and not code.made(spec(1, "a"))


def test_without_a_stored_declaration_the_newest_version_is_current() -> None:
    for declarations in ({}, {"s": replace(STORED, version=9, stored=False)}):
        code = current_code([spec(1), spec(2), spec(2, "x")], declarations)["s"]
        assert code.made(spec(2)) and code.made(spec(2, "x")) and not code.made(spec(1))


def test_code_is_named_by_its_source_or_its_version() -> None:
    assert (code_text(spec(3)), code_text(spec(3, "abc"))) == ("version 3", "source abc")
