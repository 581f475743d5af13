from __future__ import annotations

import pytest

from kymograph.runs.markdown import markdown_table


@pytest.mark.parametrize("name", ["two\nlines", "a\r\nb", "a\u2028b", "a | b", "\n# heading\n"])
def test_a_name_adds_no_row_and_no_column(name: str) -> None:
    table = markdown_table(["arm", "n"], [[name, "3"], ["plain", "4"]])
    lines = table.splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {3}
