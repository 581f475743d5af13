"""Names that no setting can have."""

from __future__ import annotations

import pytest

from kymograph.cli.arguments import option_fields, with_engine_options
from kymograph.cli.verbs.experiment import RunOptions
from kymograph.experiments.function_study import reserved_names
from kymograph.sweep.engines.base import ENGINES


@pytest.mark.parametrize("engine", ["auto", *ENGINES.names()])
def test_every_option_of_the_command_line_is_reserved(engine: str) -> None:
    options = set(option_fields(with_engine_options(RunOptions, ["--engine", engine])))
    assert options <= set(reserved_names())
    assert {"seeds", "out", "grid", "config", "device"} <= options


def test_what_names_a_run_is_reserved() -> None:
    assert {"study", "arm", "seed", "debug", "help"} <= set(reserved_names())
    assert not {"lr", "steps", "width", "fields", "name"} & set(reserved_names())


def test_what_a_name_is_an_option_of_is_said() -> None:
    names = reserved_names()
    assert names["device"] == "an option of every study" and names["scheduler"] == "an option of the engine dask"
