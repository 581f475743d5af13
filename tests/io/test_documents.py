from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._errors import KymographError
from kymograph._io import documents
from kymograph._io.documents import MAX_DEPTH, parse_json, parse_toml, read_csv, read_json, read_toml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**50), 10**50) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)  # fmt: skip


@given(PLAIN)
def test_what_python_writes_is_read_as_it_was(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b"9" * 5000,
        b"-" + b"9" * 301,
        b"1e999",
        b"1" * 400 + b".5",
        b"NaN",
        b"-Infinity",
        b'{"a": 1, "a": 2}',
        b'"\\ud800"',
        b'{"\\uDC00": 1}',
        b'"\xed\xa0\x80"',
        b"\xff",
        b"{",
        b"",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_python_accepts_and_nothing_can_use_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_numbers_that_are_not_finite_are_read_where_they_may_be() -> None:
    assert parse_json(b"[-Infinity, 1e999]", finite=False) == [float("-inf"), float("inf")]
    with pytest.raises(ValueError):
        parse_json(b"9" * 301, finite=False)


def test_pairs_of_surrogates_and_depth_up_to_the_limit_are_fine() -> None:
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse_json(deep) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = 2024-01-01", "a date or a time; write it as a string"),
        ("a = [{b = 07:32:00}]", "a date or a time"),
        (f"a = {'9' * 5000}", "300 digits"),
        (f"a = {'9' * 400}", "300 digits"),
        (f"a = {'[' * 5000}{']' * 5000}", "nested too deeply"),
        (f"{'.'.join('a' * 60)} = 1", "nested too deeply"),
        ("a = ", "not TOML"),
        ("a = 1\na = 2", "not TOML"),
    ],
    ids=lambda text: text[:12],
)
def test_toml_that_nothing_can_use_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(KymographError, match=why) as error:
        read_toml(tmp_path / "x.toml")
    assert "\n" not in str(error.value) and "x.toml" in str(error.value)


def test_toml_may_hold_infinities() -> None:
    assert parse_toml("a = inf\nb = [1, 'x']") == {"a": float("inf"), "b": [1, "x"]}


def test_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(KymographError, match=r"x.json is cut off or not JSON"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text('{"a":1,"a":2}')
    with pytest.raises(KymographError, match=r"cannot read .*x.json: it has the key 'a' twice"):
        read_json(tmp_path / "x.json")


def test_csv_rows_come_by_their_header(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2,3\r\n4\r\n")
    assert list(read_csv(tmp_path / "x.csv", "ab")) == [{"a": "1", "b": "2"}, {"a": "4", "b": None}]
    with pytest.raises(KymographError, match="no column 'c'"):
        list(read_csv(tmp_path / "x.csv", "abc"))
    (tmp_path / "x.csv").write_text("a\n" + '"' + "x" * 200_000)
    with pytest.raises(KymographError, match="not a CSV"):
        list(read_csv(tmp_path / "x.csv", "a"))


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 40_000) + "=1",
        f"[{' . '.join(['a'] * 40_000)}]",
        'x = {"' + '"."'.join(["a"] * 40_000) + '" = 1}',
        "x = '''it's # not a comment''' # it's\n" + ".".join(["'#'"] * 40_000) + "=1",
        "".join(f"[k{number}.{'.'.join(['a'] * 38)}]\n" for number in range(6000)),
        "".join(f"k{number}.a = 1\n" for number in range(200_001)),
        "".join(f"[k{number}]\n" for number in range(200_001)),
    ],
    ids=["key", "header", "inline", "after strings", "headers", "keys", "tables"],
)
def test_keys_that_python_would_need_gigabytes_for_are_refused_before_parsing(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents.tomllib, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(ValueError, match=r"nested too deeply|too many tables"):
        parse_toml(text)


def test_dots_that_are_not_between_parts_of_a_key_do_not_count() -> None:
    numbers = [number + 0.5 for number in range(20_000)]
    text = f"""
a.b.'c.d'."e.f" = {numbers}  # {"a." * 100}
module = "{".".join(["package"] * 100)}"
literal = '{"a." * 100}'
many = \"\"\"
"{"a." * 100}" \\\"\"\" {"a." * 100}\"\"\"\"
lines = '''
{"a.b = 1 [" * 100}'''
"""
    value = parse_toml(text)
    assert value["a"]["b"]["c.d"]["e.f"] == numbers and value["module"].count(".") == 99
    assert parse_toml(f"{'.'.join(['a'] * MAX_DEPTH)} = 1")


@pytest.mark.parametrize(
    "content",
    [(b"[" * 38 + b"]" * 38 + b",") * 60_000, b'{"a":{}},' * 1_000_001, b'"k":0,' * 4_000_001],
    ids=["lists", "objects", "keys"],
)
def test_small_values_that_need_gigabytes_are_refused_before_parsing(content: bytes) -> None:
    class Bytes(bytes):
        def decode(self, *_: str) -> str:  # type: ignore[override]
            pytest.fail("parsed")

    with pytest.raises(ValueError, match="too many lists and objects"):
        parse_json(Bytes(b"[" + content + b"0]"))
