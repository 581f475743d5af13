"""The watch itself: a command under it writes temporary files where they are seen."""

from __future__ import annotations

import tempfile

from tests.fuzz.cases import Workspace
from tests.fuzz.targets import TARGETS
from tests.fuzz.watched import watch


def test_temporary_files_go_to_the_watched_directory_and_bundle_gets_that_far(workspace: Workspace) -> None:
    """They went to a directory called "None", so that every `bundle` failed before it read a damaged file."""
    before = tempfile.tempdir
    target = next(one for one in TARGETS if one.name == "config")
    (words,) = (words for words in target.commands if words[0] == "bundle")
    workspace.prepare(target)
    watched = watch(words, workspace.work, workspace.temporary)
    assert watched.code == 0, watched.err
    assert (workspace.out / "b.zip").stat().st_size > 0
    assert any(path.startswith(str(workspace.temporary)) for path in watched.writes)
    assert watched.faults([workspace.out, workspace.temporary]) == []
    assert tempfile.tempdir == before
