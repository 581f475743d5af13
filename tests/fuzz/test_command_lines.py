"""Command lines, settings and texts that hypothesis makes up: whatever is typed is answered in one sentence."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kymograph._cli.main import VERBS
from tests.fuzz.budget import EXAMPLES, SEED
from tests.fuzz.cases import Workspace, quick
from tests.fuzz.command_lines import POSITIONAL, command_line, option_names, without_work
from tests.fuzz.stage import CLAIMS, SETTINGS
from tests.fuzz.targets import TARGETS
from tests.fuzz.watched import watch

VERB_NAMES = VERBS.names()
PER_VERB = max(2, int(0.4 * EXAMPLES / len(VERB_NAMES)))
EVERYTHING = next(target for target in TARGETS if target.name == "claims")
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
_made: list[Workspace] = []


def set_out(workspace: Workspace) -> None:
    """Puts the samples out once; nothing that follows may change them."""
    if workspace not in _made:
        workspace.prepare(EVERYTHING)
        _made.append(workspace)


def check(workspace: Workspace, words: tuple[str, ...]) -> None:
    """Runs a command line and holds it to the rules."""
    with quick(), without_work():
        watched = watch(words, workspace.work, workspace.temporary)
    # Whoever names a directory to write to may: what is forbidden is to write where nobody said.
    faults = [fault for fault in watched.faults([workspace.root]) if not fault.startswith("it wrote")]
    assert not faults, (faults, words, watched.err[-500:])


def test_every_verb_is_fuzzed() -> None:
    """A new verb needs what gets it as far as its options, unless it needs nothing."""
    without = {"reproduce", "rules", "selftest"}
    assert set(POSITIONAL) | without >= set(VERB_NAMES)
    assert all(option_names(verb) for verb in VERB_NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERB_NAMES)
def test_every_option_and_setting(verb: str, workspace: Workspace) -> None:
    @hypothesis.seed(SEED)
    @settings(max_examples=PER_VERB, database=None, suppress_health_check=QUIET, print_blob=True)
    @given(command_line(verb))
    def typed(words: tuple[str, ...]) -> None:
        set_out(workspace)
        check(workspace, words)

    typed()


@pytest.mark.slow
@pytest.mark.parametrize("value", ["1000000000000", "-1", "0", "nan"])
@pytest.mark.parametrize("verb", VERB_NAMES)
def test_every_option_with_extreme_numbers(verb: str, value: str, workspace: Workspace) -> None:
    """Each option by itself: those that count something used to be drawn with a number of the worst size seldom."""
    set_out(workspace)
    for words in POSITIONAL.get(verb, ((),)):
        study = words[0] if verb in ("run", "variance") and words else None
        for name in option_names(verb, study):
            check(workspace, (verb, *words, name, value, *(["--once"] if verb == "watch" else [])))


def toml(base: str) -> st.SearchStrategy[str]:
    """Draws TOML in which lines of ``base`` are replaced, repeated or left out."""
    value = st.one_of(
        st.sampled_from(
            ["1979-05-27", "07:32:00", "inf", "nan", "-1", "0", "1e400", "9" * 5_000, "true", '""', "[]", "{}", "[[1]]",
             '"\\u0000"', '"\\u001b[31m"', '["a", 1]', "{ a = { b = 1 } }", '"' + "x" * 5_000 + '"',
             "[" * 2_000 + "]" * 2_000]
        ),
        st.integers().map(str),
        st.floats().map(repr),
        st.text(max_size=8).map(lambda text: '"' + text.replace("\\", "").replace('"', "") + '"'),
    )  # fmt: skip
    lines = base.splitlines()
    line = st.one_of(
        st.sampled_from(lines),
        st.builds(lambda old, new: f"{old.split('=')[0]}= {new}", st.sampled_from(lines), value),
        st.text(max_size=10),
    )
    return st.lists(line, max_size=len(lines) + 4).map("\n".join)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "base", "words"),
    [
        ("claims.toml", CLAIMS, ("judge", "runs", "--claims", "claims.toml")),
        ("settings.toml", SETTINGS, ("run", "coin.py", "--config", "settings.toml", "--dir", "../out/new", "--quiet")),
    ],
)
def test_texts(name: str, base: str, words: tuple[str, ...], workspace: Workspace) -> None:
    @hypothesis.seed(SEED)
    @settings(max_examples=max(2, int(0.05 * EXAMPLES)), database=None, suppress_health_check=QUIET, print_blob=True)
    @given(toml(base))
    def written(text: str) -> None:
        set_out(workspace)
        (workspace.work / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        check(workspace, words)

    try:
        written()
    finally:
        _made.clear()
