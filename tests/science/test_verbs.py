"""The names that the verbs of the science take."""

from __future__ import annotations

import pytest

from kymograph._errors import KymographError
from kymograph_studies.analysis import NULLS
from kymograph_studies.data import DATA_SETS
from kymograph_studies.models import MODELS
from kymograph_studies.verbs import DATA_SETS as DATA_SET_CHOICES
from kymograph_studies.verbs import DOWNLOADS
from kymograph_studies.verbs import MODELS as MODEL_CHOICES
from kymograph_studies.verbs import NULLS as NULL_CHOICES


def test_the_choices_are_the_registered_parts() -> None:
    assert DATA_SET_CHOICES.names() == DATA_SETS.names() and {"digits", "cifar10"} <= set(DATA_SETS.names())
    assert MODEL_CHOICES.names() == MODELS.names() and {"resmlp", "vit", "conv"} <= set(MODELS.names())
    assert NULL_CHOICES.names() == NULLS.names()
    assert {"fresh", "rows", "columns", "samples", "directions"} <= set(NULLS.names())


def test_only_data_sets_that_are_files_are_downloaded() -> None:
    assert DOWNLOADS.names() == ["cifar10"]
    with pytest.raises(KymographError, match="there is no data set to download called 'digits'"):
        DOWNLOADS.check("digits")


def test_a_name_that_is_not_there_gets_the_nearest() -> None:
    with pytest.raises(KymographError, match=r"there is no data set 'digit'; did you mean 'digits'\?"):
        DATA_SET_CHOICES.check("digit")
