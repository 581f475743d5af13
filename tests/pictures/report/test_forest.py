from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from kymograph._claims.verdict import Outcome
from kymograph._pictures.report_page.forest import FARTHEST, WIDTH, forest_axis, forest_row, in_margins, position
from tests.pictures.report.pages import claim, make_verdicts


def test_effects_are_in_margins_and_to_the_right_if_they_go_as_claimed() -> None:
    difference, ratio = claim("d", margin=0.1), claim("r", scale="log ratio", margin=1.2)
    assert in_margins(difference, 0.25) == pytest.approx(2.5) and in_margins(ratio, 1.44) == pytest.approx(2.0)
    less = replace(difference, direction="less")
    assert in_margins(less, -0.25) == pytest.approx(2.5) and in_margins(replace(ratio, direction="less"), 1 / 1.2) > 0
    assert in_margins(replace(difference, margin=0.0), 0.3) == pytest.approx(0.3), "no margin to count in"
    assert math.isnan(in_margins(ratio, -1.0)) and in_margins(ratio, 0.0) == -math.inf


def test_a_position_tells_the_sides_of_the_margin_apart_and_stays_inside() -> None:
    positions = [position(margins) for margins in (-1e9, -30, -1.01, -1, 0, 1, 1.01, 30, math.inf)]
    assert positions == sorted(positions) and positions[0] >= 0 and positions[-1] <= WIDTH and positions[4] == WIDTH / 2
    assert position(1.01) > position(1.0)


def test_a_row_shows_effect_interval_margin_and_what_was_claimed() -> None:
    supported, refuted, equivalent, _, invalid = make_verdicts()
    row = str(forest_row(supported))
    assert row.count("whisker supported") == 3 and row.count('class="limit"') == 2 and "mark supported" in row
    claimed = re.search(r'class="claimed" x="([\d.]+)"', row)
    assert claimed is not None and float(claimed[1]) == pytest.approx(position(1.0), abs=0.01)
    absence = replace(supported, claim=replace(supported.claim, direction="not less"))
    claimed = re.search(r'class="claimed" x="([\d.]+)"', str(forest_row(absence)))
    assert claimed is not None and float(claimed[1]) == pytest.approx(position(-1.0), abs=0.01)
    assert "mark refuted" in str(forest_row(refuted)) and "mark equivalent" in str(forest_row(equivalent))
    assert "no effect computed" in str(forest_row(invalid))
    rows = [str(forest_row(replace(supported, outcome=one))) for one in Outcome]
    shapes = {
        re.sub(r"^M[\d.]+,[\d.]+", "", path) for row in rows for path in re.findall(r'class="mark.*? d="(.*?)"', row)
    }
    assert len(shapes) == 5, "shapes tell outcomes apart where colours do not"


def test_what_lies_beyond_the_axis_ends_in_an_arrow() -> None:
    verdict = make_verdicts()[0]
    far = replace(verdict, effect=1e6, interval=(0.2, 1e7))
    assert str(forest_row(far)).count("mark supported") == 2 and FARTHEST < 1e6
    assert "as claimed" in str(forest_axis())
