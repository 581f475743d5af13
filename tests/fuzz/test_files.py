"""Damaged and forged files of every kind: no traceback, no hang, no write outside, no damaged number believed."""

from __future__ import annotations

import itertools
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import kymograph
from tests.fuzz.budget import COMMANDS, EXACTLY, EXAMPLES, FAST, SEED
from tests.fuzz.cases import Case, Workspace, quick
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.watched import SECONDS, watch

FILES = EXAMPLES // 2
MOST_SHOWN = 20


def try_cases(workspace: Workspace, cases: Iterable[Case]) -> None:
    """Tries cases; shows every one that breaks a rule, and how to try it again."""
    broken = []
    for case in cases:
        watched, damage, faults = workspace.run(case)
        if faults:
            broken.append(f"{case}\n    {damage}\n    {'; '.join(faults)[:500]}\n    {watched.err.strip()[-300:]}")
    shown = "\n\n".join(broken[:MOST_SHOWN])
    assert not broken, f"{len(broken)} cases break a rule ({EXACTLY}):\n\n{shown}"


def quick_ones() -> list[Case]:
    """Returns the first cases that need neither a trained network nor much time."""
    cases = (Case.numbered(number, SEED) for number in itertools.count())
    return list(itertools.islice((one for one in cases if not one.target.trained and one.words[0] != "figure"), FAST))


def test_a_few_damaged_files(workspace: Workspace) -> None:
    try_cases(workspace, quick_ones())


@pytest.mark.slow
def test_many_damaged_files(workspace: Workspace) -> None:
    tried = {case.number for case in quick_ones()}
    try_cases(workspace, (Case.numbered(number, SEED) for number in range(FILES) if number not in tried))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_whole_files_pass_every_command(workspace: Workspace, target: Target) -> None:
    """Otherwise the cases would show nothing: a command that always fails accepts no damaged file."""
    for words, weight in target.commands.items():
        if weight < 0.1:
            continue  # takes long
        workspace.prepare(target)
        assert target.samples(workspace.work)
        with quick():
            watched = watch(
                workspace.words(Case(-1, SEED, target, words, random.Random(0))), workspace.work, workspace.temporary
            )
        assert watched.code == 0, (words, watched.err)


def limit_processor() -> None:
    """Ends a process that computes for more than the twenty seconds, and the ten that starting Python may take."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS) + 10, int(SECONDS) + 10))


@pytest.mark.slow
def test_through_the_real_command_line(workspace: Workspace, tmp_path: Path) -> None:
    """The same cases in processes of their own: what only shows there is the interpreter's start and end."""
    broken = []
    for number in range(1_000_000, 1_000_000 + COMMANDS):
        case = Case.numbered(number, SEED)
        workspace.prepare(case.target)
        damage, _ = workspace.damage(case)
        search = os.pathsep.join([str(Path(kymograph.__file__).parents[1])])
        environment = {
            **os.environ,
            "PYTHONPATH": search,
            "XDG_STATE_HOME": str(tmp_path),
            "TMPDIR": str(workspace.temporary),
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "kymograph", *workspace.words(case)],
                cwd=workspace.work,
                env=environment,
                capture_output=True,
                timeout=10 * SECONDS,  # by the clock: a busy machine takes its time
                preexec_fn=limit_processor,
                check=False,
            )
        except subprocess.TimeoutExpired:
            broken.append(f"{case}\n    {damage}\n    it hung")
            continue
        if done.returncode not in (0, 1, 2) or b"Traceback" in done.stderr:
            broken.append(f"{case}\n    {damage}\n    {done.returncode}: {done.stderr[-300:]!r}")
    assert not broken, f"{len(broken)} commands break a rule ({EXACTLY}):\n\n" + "\n\n".join(broken[:MOST_SHOWN])
