"""Command lines of every verb: each option and each setting that it has, with fitting, odd and hostile values."""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from kymograph._cli.verbs.maintenance import options_type
from kymograph._errors import KymographError
from kymograph._studies.loading import STUDIES, load_study

ODD = (
    "", " ", "-1", "0", "1", "2", "1e30", "nan", "inf", "-inf", "9" * 30, "9" * 5_000, "x", "None", "True", "=", "a=b",
    "lr=0.1", "lr=", "=1", "lr=0.1,0.2", "lr=" + "[" * 10_000, "../../escape", "/dev/null/x", "\x1b[31m", "\n",
    "ä" * 10,
    "\udcff", "*", "[", "fair", "bent/*", "coin", "coin.py", "coin.py:Nothing", "os:path", "depth", "snapshot",
    "x" * 300,
    "less", "loss=less", "runs", "claims.toml", "settings.toml", "runs.zip", "net.pt", "log.json", "cpu", "cuda",
    "absent",
    "--", "-o", "--out", "--from", "--dir", "serial", "csv", "0x10", "١", "1_000", "+1", "1.5", ".", "..", "~",
    "json", "42",
)  # fmt: skip
POSITIONAL: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "studies": ((), ("coin.py",), ("depth",)),
    "run": (("coin.py",), ("depth",), ("clipping",), ("snapshot",), ("calibration",), ("audit",)),
    "variance": (("coin.py",), ("snapshot",)),
    "new": (("study", "mine"),),
    "show": ((), ("fair/s1",), ("bent/*", "--dir", "runs"), ("runs", "fair/s1")),
    "watch": (("runs", "--once"), ("runs/coin", "--once")),
    "calibrate": (("claims.toml",),),  # networks are among the files
    "audit": (("claims.toml",),),
    "judge": (("runs",), ("ours", "theirs", "--csv")),
    "power": (("claims.toml", "--n", "6", "--effect", "1"),),
    "register": (("claims.toml", "--dir", "../out/new"), ("../out/new", "claims.toml")),
    "verify": (("runs",), ("runs.zip",)),
    "bundle": (("runs", "-o", "../out/b.zip"),),
    "abandon": (("runs", "--reason", "dear"), ("runs", "--reason", "dear", "--finished")),
    "figure": (("--list",), ("absent", "--dir", "runs")),
    "report": (("runs", "-o", "../out/r.html"),),
    "export": (("runs", "--to", "csv", "--output", "../out/x.csv"), ("runs", "--to", "json", "--output", "../out/x")),
    "completion": (("bash",),),
    "fetch": (("cifar10", "-o", "../out/data"),),
}
"""What a verb needs to get as far as its options; whatever follows may take its place."""


def option_names(verb: str, study: str | None = None) -> list[str]:
    """Returns every option of a verb, and of a study's settings, as ``--name`` or ``--no-name``."""
    kinds: list[Any] = [kind for kind in [options_type(verb)] if kind is not None]
    if study in STUDIES.names():
        kinds.append(load_study(study).config_type)
    names = [name for kind in kinds for name in _fields(kind)]
    if study == "coin.py":
        names += ["--tosses", "--lr", "--metal", "--worn", "--no-worn"]
    return [name for name in names if name not in ("--debug", "--no-once")]  # which ask for a traceback, and to wait


def _fields(kind: Any) -> list[str]:
    names: list[str] = []
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            names += _fields(hints[field.name])
            continue
        name = field.name.rstrip("_").replace("_", "-")
        names += [f"--{name}"] + ([f"--no-{name}"] if _is_flag(hints[field.name]) else [])
    return names


def _is_flag(hint: Any) -> bool:
    return hint is bool or (isinstance(hint, types.UnionType) and bool in typing.get_args(hint))


values = st.one_of(
    st.sampled_from(ODD),
    st.integers(-(10**12), 10**12).map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_characters="\x00"), max_size=12),
)


@st.composite
def command_line(draw: st.DrawFn, verb: str) -> tuple[str, ...]:
    """Draws a command line of one verb."""
    words = list(draw(st.sampled_from(POSITIONAL.get(verb, ((),)))))
    study = words[0] if verb in ("run", "variance") and words else None
    names = option_names(verb, study)
    for _ in range(draw(st.integers(0, 3))):
        if names:
            words.append(draw(st.sampled_from(names)))
        words += draw(st.lists(values, max_size=2))
    if draw(st.integers(0, 9)) == 0:
        words = draw(st.lists(values, max_size=4))
    if verb == "watch":
        words.append("--once")
    return (verb, *words)


def _stopped(*arguments: Any, **options: Any) -> Any:
    raise KymographError("stopped before the work begins")


@contextlib.contextmanager
def without_work() -> Iterator[None]:
    """Stops before what takes long and no option decides: training, simulations, timings, the network."""
    stopped = (
        "kymograph._experiments.stages.compute_stage",
        "kymograph._experiments.running.compute_stage",
        "kymograph._selftest.whole_path.selftest",
        "kymograph_studies.prove_rules.rules_text",
        "kymograph._claims.power.power_tables",
        "kymograph._claims.power.price_of_looks",
        "kymograph._pictures.live.web.serve",
        "urllib.request.urlopen",
    )
    with contextlib.ExitStack() as patches:
        for name in stopped:
            patches.enter_context(mock.patch(name, _stopped))
        yield
