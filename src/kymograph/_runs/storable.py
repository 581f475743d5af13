"""Which values a record can hold: those that are read back as they were given. All others are refused, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.documents import MAX_DIGITS

Scalar = str | int | float | bool | None
INFINITIES = {"Infinity": float("inf"), "-Infinity": float("-inf")}
"""Infinities, as spelled in a record's JSON."""
_LONGEST = 60  # characters of a value in a message


def shown(value: Any) -> str:
    """Returns a value as one short line for a message.

    >>> shown(10**400), shown("a" * 100)
    ('an integer of 401 digits', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…")
    """
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        digits = value.bit_length() * 30103 // 100000  # a lower bound; str() refuses more than some thousand digits
        digits += sum(abs(value) >= 10 ** (digits + more) for more in range(3))
        return f"an integer of {digits:,} digits"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def is_exact(value: int) -> bool:
    """Returns whether an integer is exactly a float64.

    >>> is_exact(2**53), is_exact(2**53 + 1), is_exact(10**400)
    (True, False, False)
    """
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def check_text(text: str, what: str) -> None:
    """Raises if a string cannot be written as UTF-8; ``what`` names it in the message."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise KymographError(
            f"{what} is {shown(text)}, whose lone surrogate cannot be stored; decode the text with errors='replace'"
        ) from None


def stored_scalar(value: Any, what: str, allowed: str) -> Scalar:
    """Returns a string, number, Boolean or None in the plain type that is read back; raises if a record cannot hold it.

    Args:
        value: the value; a float may be NaN or infinite.
        what: its name in the message, e.g. ``the setting lr``.
        allowed: what it may be, as the end of the message.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        check_text(value, what)
        return str.__str__(value)  # an enumeration's own `str` may say something else
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, int):
        raise KymographError(f"{what} is {shown(value)} ({type(value).__name__}), which cannot be stored; {allowed}")
    if abs(value) >= 10**MAX_DIGITS:
        raise KymographError(f"{what} is {shown(value)}, and at most {MAX_DIGITS} are stored; make it a string")
    return int(value)


def summary_scalar(name: Any, value: Any, what: str) -> Scalar:
    """Returns one summary value as it is stored, from a number, a string or a tensor or array with one number.

    ``what`` is where it comes from, e.g. ``run.summary``.
    """
    if not isinstance(name, str):
        raise KymographError(f"{what} has {shown(name)} as the name of a number; names are strings")
    check_text(name, f"a name in {what}")
    plain = value.item() if hasattr(value, "item") and getattr(value, "shape", None) in ((), (1,)) else value
    if getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m"):  # numpy returns some dates as integers
        plain = value
    label = f"{what}[{name!r}]"
    scalar = stored_scalar(plain, label, "a summary has numbers, strings, Booleans and None")
    if isinstance(scalar, str) and scalar in INFINITIES:
        raise KymographError(f"{label} is the string {scalar!r}, which is read back as a number; use another word")
    return scalar


def stored_summary(values: Any, what: str) -> dict[str, Scalar]:
    """Returns a run's summary as it is stored; raises if it is not a dictionary of values that a record can hold."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise KymographError(
            f"{what} returned a {type(values).__name__}; return a dictionary of numbers, e.g. {{'accuracy': 0.9}}"
        )
    return {name: summary_scalar(name, value, what) for name, value in values.items()}
