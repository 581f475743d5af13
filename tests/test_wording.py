from __future__ import annotations

import pytest

from kymograph._wording import markdown_table


def test_a_name_controls_neither_the_terminal_nor_the_page() -> None:
    table = markdown_table(["claim"], [["\x1b[2J<script>alert(1)</script>&lt;"], ["1 < 2 & 3 -> 4, `a<b`"]])
    assert "\\x1b[2J&lt;script>alert(1)&lt;/script>&amp;lt;" in table and "\x1b" not in table
    assert "1 < 2 & 3 -> 4" in table, "ordinary signs stay legible"


@pytest.mark.parametrize("name", ["two\nlines", "a\r\nb", "a\u2028b", "a | b", "\n# heading\n"])
def test_a_name_adds_no_row_and_no_column(name: str) -> None:
    table = markdown_table(["arm", "n"], [[name, "3"], ["plain", "4"]])
    lines = table.splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {3}
