from __future__ import annotations

import re

import numpy as np
import pytest

from kymograph.report.claim_view import claim_view, comparison_text, dot_plot
from tests.report.pages import claim, make_verdicts


def test_the_dot_plot_has_dots_margin_and_intervals_on_one_scale() -> None:
    verdict = make_verdicts()[0]
    picture = str(dot_plot(verdict))
    dots = [float(x) for x in re.findall(r'class="seed"[^>]* cx="([\d.]+)"', picture)]
    assert dots == sorted(dots) and len(dots) == 10
    gaps = np.diff(dots)
    np.testing.assert_allclose(gaps, gaps.mean(), atol=0.02)  # the values are equally spaced
    zero = float(re.search(r'class="none" x1="([\d.]+)"', picture)[1])  # type: ignore[index]
    margin = re.search(r'class="margin" x="([\d.]+)"[^>]* width="([\d.]+)"', picture)
    assert margin is not None
    assert float(margin[1]) + float(margin[2]) / 2 == pytest.approx(zero, abs=0.02), "the margin is symmetric"
    per_unit = gaps.mean() / 0.01
    assert (dots[0] - zero) / per_unit == pytest.approx(0.5, rel=1e-2)
    assert str(dot_plot(make_verdicts()[4])) == "" and claim_view(0, verdict).columns[-1] == "difference"
    assert comparison_text(claim("x")) == "final_loss (wild) is greater than final_loss (calm) by more than 0.1"
