"""``kymograph list``: the studies, their questions, arms and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown
from kymograph.cli.help_text import columns
from kymograph.runs.declaration import Arm
from kymograph.studies.base import Study
from kymograph.studies.loading import list_studies, load_study
from kymograph.studies.setting_docs import setting_docs
from kymograph.wording import folded, line_width

MOST_ARMS = 6
"""How many arms of a study the list of all studies shows."""

PART = {"about": "the studies; one with its arms and settings", "usage": "list [STUDY]", "order": 10}


@dataclass(frozen=True)
class Options:
    """List the studies with their questions and arms."""

    study: Annotated[
        str, positional(), shown("[STUDY]", default="every registered study, with its first default arms")
    ] = ""
    """Show every arm and setting of this study: a built-in one, or a user-defined one (module:Name, file.py:Name)."""


def main(words: list[str]) -> int:
    """Prints every study with its first default arms, or one study with all of its arms and settings."""
    reference = parse(Options, words, "kymograph list").study if words else ""
    if reference:
        study = load_study(reference)
        arms = study.arms()
        _print_question(study)
        _print_arms(arms)
        others = any(not arm.default for arm in arms)
        print(f"  * runs by default{'; run the others by name: `--arms NAME ...`' if others else ''}")
        _print_settings(study.config_type)
        return 0
    for study in list_studies():
        arms = study.arms()
        shown = [arm for arm in arms if arm.default][:MOST_ARMS]
        _print_question(study)
        _print_arms(shown)
        more = len(arms) - len(shown)
        print(f"    and {more} more: `kymograph list {study.name}`\n" if more else "")
    return 0


def _print_arms(arms: Sequence[Arm]) -> None:
    if arms:
        rows = [(f"{'*' if arm.default else ' '} {arm.name}", arm.about) for arm in arms]
        print(columns(rows, line_width()))


def _print_question(study: Study) -> None:
    print(folded(f"{study.name}: {study.question}", line_width(), further="  "))


def _print_settings(config_type: type) -> None:
    """Prints the settings as options of `kymograph run`, with their defaults."""
    rows = [(f"--{one.name.replace('_', '-')} {_shown(one.default)}", one.about) for one in setting_docs(config_type)]
    if rows:
        print("\nSettings and their defaults:")
        print(columns(rows, line_width()))


def _shown(default: object) -> str:
    """Returns a default as it is written on the command line."""
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, (tuple, list)):
        return " ".join(map(str, default)) or "none"
    return "none" if default in (None, "") else str(default)
