from __future__ import annotations

import contextlib
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._io import pickles
from kymograph._io.pickles import Buildable, read_pickle

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(VALUES, st.integers(2, 5))
def test_plain_values_are_what_pickle_reads(value: Any, protocol: int) -> None:
    makers = {("_codecs", "encode"): lambda text, _: text.encode("latin1"), ("__builtin__", "bytes"): bytes}
    assert read_pickle(pickle.dumps(value, protocol=protocol), makers) == value


def test_names_mean_what_the_reader_says_and_nothing_else() -> None:
    class Box(Buildable):
        state: Any = None

        def build(self, state: Any) -> None:
            self.state = state

    made = read_pickle(b"cshop\nbox\n(tR}b.", {("shop", "box"): Box})
    assert isinstance(made, Box) and made.state == {}
    for hostile in (b"cos\nsystem\n(Vtrue\ntR.", b"cshop\nbox\n}b.", b"]}b.", b"(ios\nsystem\n.", b"Pid\n."):
        with pytest.raises(ValueError):
            read_pickle(hostile, {("shop", "box"): Box})


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_raise_value_error(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        read_pickle(content, {})


def test_operations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MAX_OPERATIONS", 10)
    with pytest.raises(ValueError, match="too many operations"):
        read_pickle(b"(" * 20 + b".", {})
