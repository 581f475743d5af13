"""Which stored runs a command is about: words such as ``lr=0.1`` into settings, seeds and a store."""

from __future__ import annotations

import fnmatch
import json
import sys
from collections.abc import Sequence
from typing import Any

from kymograph.cli.options import SelectOptions
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.store import Store


def select(directory: str, options: SelectOptions) -> Store:
    """Opens the runs of a directory and keeps those the options ask for."""
    store = Store.open(directory)
    if options.study is not None:
        if options.study not in store.studies:
            raise KymographError(
                f"{directory} has no runs of {options.study!r}{did_you_mean(options.study, store.studies)}"
            )
        store = store.select(options.study)
    if options.arms:
        chosen = [arm for arm in store.arms if any(fnmatch.fnmatchcase(arm, pattern) for pattern in options.arms)]
        if not chosen:
            raise KymographError(
                f"{directory} has no arm {options.arms[0]!r}{did_you_mean(options.arms[0], store.arms)}"
            )
        store = store.select(arms=chosen)
    fields = settings(options.where)
    if fields:
        store = store.where(**fields)
    newest = store.newest()
    if len(newest) < len(store):
        print(
            f"{len(store) - len(newest)} runs of older versions of their studies are left out; choose such with "
            "--where version=NUMBER",
            file=sys.stderr,
        )
    return newest


def settings(conditions: Sequence[str]) -> dict[str, Any]:
    """Returns the settings that ``--where`` asks for."""
    fields = {}
    for condition in conditions:
        name, equals, text = condition.partition("=")
        if not equals:
            raise KymographError(f"--where takes FIELD=VALUE, not {condition!r}")
        fields[name] = _value(text)
    return fields


def whole_numbers(words: Sequence[str]) -> list[int]:
    """Returns seeds from words; a word that is no whole number is named."""
    for word in words:
        if not word.isdecimal():
            raise KymographError(f"a seed must be a whole number, not {word!r}")
    return [int(word) for word in words]


def _value(text: str) -> Any:
    """Returns a number, a truth value or a word."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except ValueError:
        return text
