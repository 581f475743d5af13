from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._rounding import digits_needed, digits_off_round_numbers, estimate_text, number_text

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)


def read(text: str) -> float:
    """Reads a number back as a person would."""
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    plain = text.replace(",", "").replace("−", "-")
    if "×10" in plain:
        mantissa, power = plain.split("×10")
        return float(f"{mantissa}e{power.translate(raised)}")
    if plain.lstrip("-").startswith("10") and plain.lstrip("-")[2:3] in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹" and len(plain.lstrip("-")) > 2:
        return float(f"{'-' if plain.startswith('-') else ''}1e{plain.lstrip('-')[2:].translate(raised)}")
    return float(plain)


@given(NUMBERS, st.integers(2, 6), st.booleans(), st.booleans())
def test_what_is_written_is_the_number_rounded(value: float, digits: int, typeset: bool, zeros: bool) -> None:
    expected = float(f"{Decimal(value):.{digits}g}") if value else 0.0
    assert read(number_text(value, digits, typeset=typeset, zeros=zeros)) == pytest.approx(expected, rel=1e-12)


def test_zeros_are_kept_where_numbers_are_compared_and_dropped_where_one_stands_alone() -> None:
    assert (
        number_text(1.0) == "1" and number_text(1.0, zeros=True) == "1.00" and number_text(100.0, zeros=True) == "100"
    )
    assert number_text(1234.0, 6, zeros=True) == "1,234.00" and number_text(999999.9) == "1e+06"
    assert (
        number_text(math.inf) == "∞" and number_text(-math.inf, typeset=True) == "−∞" and number_text(math.nan) == "–"
    )


def test_a_refuted_claim_does_not_end_at_no_effect() -> None:
    """It used to read REFUTED at ×1.01 [1, 1.02]."""
    assert estimate_text(1.0104, (1.0003, 1.0205), limits=[1.0]) == "1.0104 [1.0003, 1.0205]"
    assert estimate_text(0.817, (0.793, 0.84)) == "0.817 [0.793, 0.840]", "all three have the same digits"
    assert estimate_text(0.5, (math.nan, math.nan)) == "0.5" and estimate_text(3.0, (3.0, 3.0), signed=True) == "+3"


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=3, unique=True), st.floats(0.01, 100))
def test_no_number_is_rounded_across_a_limit(ends: list[float], limit: float) -> None:
    low, value, high = sorted(ends)
    digits = digits_needed([low, value, high], [limit])
    if digits == 3 and any(abs(one - limit) < 1e-7 * limit for one in ends):
        return  # too near to be told apart by any digits that are printed
    for number in (low, value, high):
        rounded = float(f"{number:.{digits}g}")
        assert (rounded < limit, rounded > limit) == (number < limit, number > limit)


@pytest.mark.parametrize(
    ("numbers", "digits"),
    [([0.999, 0.995, 0.99996], 5), ([0.5], 3), ([0.1 + 0.2], 3), ([0.1 + 0.2, 1.0003], 5), ([199.96], 5), ([2.5], 3)],
)
def test_numbers_are_not_written_as_rounder_than_they_are(numbers: list[float], digits: int) -> None:
    assert digits_off_round_numbers(numbers) == digits
