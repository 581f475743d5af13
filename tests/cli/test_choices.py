from __future__ import annotations

import pytest

from kymograph.cli import arguments as choices
from kymograph.errors import KymographError
from kymograph.registry import Registry


def test_the_names_are_those_of_the_registries() -> None:
    assert choices.DATA_SETS.names() == Registry("kymograph_studies.data", "load").names()
    assert choices.ENGINES.names() == [*Registry("kymograph.sweep.engines", "Engine").names(), "auto"]
    assert {"digits", "cifar10"} <= set(choices.DATA_SETS.names())
    assert {"serial", "processes"} <= set(choices.ENGINES.names())
    assert {"fresh", "rows", "columns", "samples", "directions"} <= set(choices.NULLS.names())
    assert {"resmlp", "vit", "conv"} <= set(choices.MODELS.names())
    assert choices.FORMATS.names() == [*Registry("kymograph.runs.formats", "write").names(), "script"]
    assert {"json", "csv", "parquet", "tensorboard", "mlflow"} <= set(choices.FORMATS.names())
    assert choices.STYLES.names() == ["notebook", "paper", "slides"]
    assert choices.DOWNLOADS.names() == ["cifar10"]


def test_a_name_that_is_not_there_gets_the_nearest() -> None:
    assert choices.ENGINES.check("auto") == "auto"
    with pytest.raises(KymographError, match=r"there is no engine 'autto'; did you mean 'auto'\?"):
        choices.ENGINES.check("autto")
