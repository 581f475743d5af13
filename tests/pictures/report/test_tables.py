from __future__ import annotations

from pathlib import Path

from kymograph._pictures.report_page.tables import Cell, declared_tables, headline_table, number_cell
from kymograph._runs.declaration import Declaration
from tests.pictures.report.pages import make_runs


def test_headlines_are_the_declared_ones_or_the_first_numbers(tmp_path: Path) -> None:
    summary = {"alarm_decay": True, "audit_gap": 0.25, **{f"z{index}": float(index) for index in range(9)}, "text": "x"}
    store = make_runs(tmp_path, summary=summary)
    arms = ["calm", "wild"]
    declared = Declaration("own", headlines={"z3": "three", "gone": "gone"})
    assert headline_table(store, arms, declared).header == ("three",)
    plain = Declaration("own")
    first = ("alarm_decay", "audit_gap", "final_loss", "z0", "z1", "z2")
    assert headline_table(store, arms, plain).header == first, "no name of a number makes it another kind of number"
    assert declared_tables(store, arms, plain) == ()


def test_further_tables_are_those_that_the_study_declares(tmp_path: Path) -> None:
    store = make_runs(tmp_path, summary={"alarm_decay": True, "gap": 0.25})
    arms, columns = ["calm", "wild"], {"alarm_decay": "decay", "gap": "gap", "gone": "gone"}
    declaration = Declaration("own", tables={"Alarms": columns, "Nothing": {"gone": "gone"}})
    ((title, table),) = declared_tables(store, arms, declaration)
    assert (title, table.header) == ("Alarms", ("decay", "gap"))
    assert table.rows[0] == ("calm", (Cell("3 of 3"), Cell("0.25")))
    assert headline_table(store, arms, declaration).header == ("final_loss",), "each number is in one table"
    assert Declaration.from_json(declaration.to_json()) == declaration


def test_cells_have_mean_interval_and_what_is_missing() -> None:
    assert number_cell([1.0, 2.0, 3.0]) == Cell("2.00", "[−0.484, 4.48]")
    assert number_cell([2.0, None, "Infinity"]) == Cell("2", "(1 of 3 seeds)")
    assert number_cell([None]) == Cell("–") and number_cell([True, False, None]) == Cell("1 of 2")


def test_notes_are_below_the_tables_that_have_their_numbers(tmp_path: Path) -> None:
    store = make_runs(tmp_path, summary={"gap": 0.25})
    declaration = Declaration("own", headlines={"final_loss": "loss"}, tables={"Further": {"gap": "Gap"}})
    notes = {"gap": "half of the range", "gone": "never seen"}
    assert headline_table(store, ["calm"], declaration, notes).note == ""
    ((_, table),) = declared_tables(store, ["calm"], declaration, notes)
    assert table.note == "Gap: half of the range. –: in no run."
