"""The closing screen of `kymograph reproduce`: counts, the verdicts to read first, files written and next commands."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from kymograph.claims.verdict import Verdict, Verdicts, decisive_p, effect_text, settings_text
from kymograph.report.verdict_cards import MARGIN, unbroken
from kymograph.report.verdict_table import count_text
from kymograph.wording import folded

SHOWN = 5
_OUTCOME_ORDER = ("REFUTED", "SUPPORTED", "EQUIVALENT", "INCONCLUSIVE", "INVALID")
_SETUPS = ("script", "transfer", "altered", "repaired", "own")


def verdicts_to_show(verdicts: Sequence[Verdict], count: int = SHOWN) -> list[Verdict]:
    """Returns the verdicts to show first, from each study in turn: REFUTED before SUPPORTED before undecided ones.

    Within an outcome, the scripts' own set-ups come first, then the smallest p. Manipulation checks are left out.
    """
    by_study: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.claim.kind is None:
            by_study.setdefault(verdict.claim.study, []).append(verdict)
    ranked = [sorted(group, key=_rank) for group in by_study.values()]
    turns = [verdict for verdict in chain.from_iterable(zip_longest(*ranked)) if verdict is not None]
    return sorted(turns[:count], key=_rank)


def _rank(verdict: Verdict) -> tuple[int, int, float]:
    setup = _SETUPS.index(verdict.setup) if verdict.setup in _SETUPS else len(_SETUPS)
    return _OUTCOME_ORDER.index(verdict.outcome), setup, 1.0 if verdict.p is None else verdict.p


def closing_lines(verdicts: Verdicts, written: Mapping[str, Path], out: Path, width: int) -> Iterator[str]:
    """Yields the lines of the screen.

    Args:
        verdicts: all verdicts.
        written: the files to open, by label.
        out: the directory of the runs.
        width: the maximum line length.
    """
    yield folded(count_text(verdicts), width)
    yield ""
    shown = verdicts_to_show(verdicts)
    for verdict in shown:
        yield folded(verdict.claim.name, width, str(verdict.outcome).ljust(MARGIN), " " * MARGIN)
        p = decisive_p(verdict)
        evidence = ", ".join(filter(None, (effect_text(verdict), f"p {p}" if p else "", f"n {verdict.n}")))
        # A claim of the same name may be judged in several set-ups, with different verdicts.
        yield folded(f"{verdict.claim.study}, {settings_text(verdict)}: {unbroken(evidence)}", width, " " * MARGIN)
    yield ""
    labels = max(map(len, written))
    for label, path in written.items():
        yield f"{label:<{labels}}  {path}"
    yield ""
    yield "Next:"
    for command in next_commands(out, shown[0].claim.study if shown else None):
        yield f"  {command}"


def next_commands(out: Path, study: str | None) -> Iterator[str]:
    """Yields the next commands: activating the environment if the shell does not find `kymograph`, then a study's."""
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("kymograph") is None and activate.exists():
        yield f"source {os.path.relpath(activate)}"
    if study is not None:
        yield f"kymograph judge {out} --study {study}"
        yield f"kymograph figure {study}-differences --from {out}"
    yield "kymograph new study mine"
