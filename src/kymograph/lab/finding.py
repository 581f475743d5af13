"""One finding of `verify`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    what: str
    holds: bool
    detail: str = ""
    note: bool = False
    """Whether it is no error, but a fact that verdicts show and a reader should know."""

    def __str__(self) -> str:
        word = "note" if self.note else "ok" if self.holds else "WRONG"
        return f"{word:<6} {self.what}" + (f": {self.detail}" if self.detail else "")
