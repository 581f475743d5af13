"""Settings by arm, kept once where arms share them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.runs.declaration import ArmSettings

values = st.one_of(st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3), st.none())
configs = st.fixed_dictionaries({"lr": values, "task": values, "depth": values})


@given(st.dictionaries(st.text(min_size=1, max_size=4), configs, max_size=5))
def test_every_arm_gets_its_own_settings_back(by_arm: dict[str, dict]) -> None:
    packed = ArmSettings.pack(by_arm)
    again = ArmSettings.from_json(json.loads(json.dumps(packed.to_json())))
    for arm, settings in by_arm.items():
        assert packed.of(arm) == again.of(arm) == settings
    assert bool(packed) == bool(by_arm)


def test_what_arms_share_is_kept_once() -> None:
    packed = ArmSettings.pack({"a": {"lr": 1, "n": 2}, "b": {"lr": 1, "n": 3}, "c": {"lr": 1, "n": 3}})
    assert packed.shared == {"lr": 1, "n": 3} and packed.arms == {"a": {"n": 2}, "b": {}, "c": {}}


def test_an_unknown_arm_has_no_settings() -> None:
    assert ArmSettings.pack({"a": {"lr": 1}}).of("b") == {}


@pytest.mark.parametrize("content", [None, [], {}, {"shared": 1, "arms": {}}, {"shared": {}, "arms": {"a": 1}}])
def test_what_is_no_settings_is_refused(content: object) -> None:
    with pytest.raises(ValueError):
        ArmSettings.from_json(content)
