"""How numbers are written: one rule for tables, verdicts, pages and terminals.

A number on its own has the requested digits and no trailing zeros. An estimate and the ends of its interval all have
the same number of digits, enough that none of them is rounded across a limit that matters, such as no effect or a
claim's margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MOST_DIGITS = 9
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float | None, digits: int = 3, *, typeset: bool = False, zeros: bool = False) -> str:
    """Returns a number with ``digits`` significant digits; a dash if it is missing.

    Args:
        value: the number.
        digits: the number of significant digits.
        typeset: whether to write it as in print, with a true minus sign and powers of ten.
        zeros: whether to keep trailing zeros, as where numbers of one precision are compared.

    >>> number_text(0.12345), number_text(-12345.6, 4), number_text(2e-7), number_text(1.0, zeros=True)
    ('0.123', '-12,350', '2e-07', '1.00')
    >>> number_text(-2.5e-7, typeset=True), number_text(None)
    ('−2.5×10⁻⁷', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        text = "∞" if value > 0 else "-∞"
    else:
        text = _decimal(value, digits, zeros)
    if not typeset:
        return text
    if "e" in text:
        mantissa, power = text.split("e")
        exponent = str(int(power)).translate(_SUPERSCRIPTS)
        bare = mantissa.strip("+-0.") == "1"
        text = f"{'-' if text.startswith('-') else ''}10{exponent}" if bare else f"{mantissa}×10{exponent}"
    return text.replace("-", "−")


def _decimal(value: float, digits: int, zeros: bool) -> str:
    """Returns a finite number as text: powers of ten from a million and below 0.0001, separators from a thousand."""
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0:
        return "0"
    if 1e3 <= abs(rounded) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
        text = f"{rounded:,.{decimals}f}"
        return text if zeros or "." not in text else text.rstrip("0").rstrip(".")
    text = f"{value:{'#' if zeros else ''}.{digits}g}"
    return text.replace(".e", "e").removesuffix(".")


def estimate_text(
    value: float,
    interval: Sequence[float] | None = None,
    *,
    limits: Iterable[float] = (),
    digits: int = 3,
    signed: bool = False,
    typeset: bool = False,
) -> str:
    """Returns ``value [low, high]``, all three with as many digits as necessary.

    Args:
        value: the estimate.
        interval: its ends; an interval that is missing, or that is a point, is left out.
        limits: numbers that none of the three may be rounded to, or across.
        digits: the least number of significant digits.
        signed: whether positive numbers have a plus sign, as differences do.
        typeset: see `number_text`.

    >>> estimate_text(1.0104, (1.0003, 1.02), limits=[1])
    '1.0104 [1.0003, 1.0200]'
    >>> estimate_text(0.5, (0.5, 0.5)), estimate_text(0.817, (0.793, 0.84), signed=True)
    ('0.5', '+0.817 [+0.793, +0.840]')
    """
    ends = tuple(interval) if interval is not None and not any(map(math.isnan, interval)) else ()
    if ends and ends[0] == ends[1]:
        ends = ()
    numbers = (value, *ends)
    needed = digits_needed(numbers, limits, digits)

    def written(number: float) -> str:
        text = number_text(number, needed, typeset=typeset, zeros=bool(ends) or needed > digits)
        return f"+{text}" if signed and number >= 0 else text

    if not ends:
        return written(value)
    return f"{written(value)} [{written(ends[0])}, {written(ends[1])}]"


def digits_needed(numbers: Sequence[float], limits: Iterable[float], least: int = 3) -> int:
    """Returns how many digits keep all numbers on their side of all limits and, if possible, distinct.

    >>> digits_needed([0.9996], [1.0]), digits_needed([0.9], [1.0])
    (4, 3)
    """
    bounds = list(limits)
    finite = [number for number in numbers if math.isfinite(number)]

    def rounded(digits: int) -> list[float]:
        return [float(f"{number:.{digits}g}") for number in finite]

    def sides(values: Iterable[float]) -> list[tuple[bool, bool]]:
        return [(value < bound, value > bound) for value in values for bound in bounds]

    sufficient = [digits for digits in range(least, MOST_DIGITS) if sides(rounded(digits)) == sides(finite)]
    distinct = (digits for digits in sufficient if len(set(rounded(digits))) == len(set(finite)))
    return next(distinct, sufficient[0] if sufficient else least)


def digits_off_round_numbers(numbers: Iterable[float], least: int = 3) -> int:
    """Returns how many digits keep every number from being written as a rounder number than it is.

    A number is round if it has one significant digit. One that is round up to `MOST_DIGITS` digits stays so.

    >>> digits_off_round_numbers([1.01, 1.0044]), digits_off_round_numbers([0.9, 1.0]), digits_off_round_numbers([1.01])
    (4, 3, 3)
    """
    pairs = [(number, float(f"{number:.1g}")) for number in numbers if math.isfinite(number)]
    near = [(number, limit) for number, limit in pairs if float(f"{number:.{MOST_DIGITS - 1}g}") != limit]
    enough = (
        digits
        for digits in range(least, MOST_DIGITS)
        if all(float(f"{number:.{digits}g}") != limit for number, limit in near)
    )
    return next(enough, least)
