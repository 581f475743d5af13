"""The write points of a worker process, a program of its own: what makes it count them, and be killed at one."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.points import Points, kill

VARIABLE = "KYMOGRAPH_CHAOS_WORKER"
_STARTER = """
import sys
if "kymograph._sweep.worker" in sys.orig_argv:
    from tests.chaos.worker_points import count_here
    count_here()
"""


@dataclass(frozen=True)
class Watch:
    """Which points of the workers are counted, where, and at which one the first worker that comes to it is killed."""

    root: str
    tally: str
    """A file that gets a byte at every point, and one beside it once a worker was killed."""
    at: int | None = None

    @property
    def points(self) -> int:
        """How many points all workers came to."""
        return Path(self.tally).stat().st_size

    @property
    def killed(self) -> bool:
        """Whether a worker was killed."""
        return Path(f"{self.tally}.killed").exists()

    def begin(self) -> None:
        """Makes every worker that this process starts from now on count; Python runs a `sitecustomize` first of all."""
        starter = Path(f"{self.tally}.site")
        starter.mkdir(exist_ok=True)
        (starter / "sitecustomize.py").write_text(_STARTER)
        Path(self.tally).write_bytes(b"")
        Path(f"{self.tally}.killed").unlink(missing_ok=True)
        code = Path(__file__).parent.parent.parent
        os.environ["PYTHONPATH"] = os.pathsep.join([str(starter), str(code / "src"), str(code)])
        os.environ[VARIABLE] = json.dumps(asdict(self))

    def living(self) -> list[int]:
        """Returns the processes on this machine that were started under this watch and are still there."""
        mark = f"{VARIABLE}={json.dumps(asdict(self))}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                found += [int(path.parent.name)] if mark in path.read_bytes() else []
            except OSError:
                continue
        return [process for process in found if process != os.getpid()]


class _Tallied(Points):
    """Points that are counted in a file as well."""

    tally = -1

    def pass_by(self) -> None:
        os.write(self.tally, b".")
        super().pass_by()


def count_here() -> None:
    """Counts the points of this worker."""
    watch = Watch(**json.loads(os.environ[VARIABLE]))

    def once() -> None:
        try:
            os.close(os.open(f"{watch.tally}.killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        kill()

    points = _Tallied([Path(watch.root)], watch.at, once)
    points.tally = os.open(watch.tally, os.O_WRONLY | os.O_APPEND)
    sys.dont_write_bytecode = True
    points.install()
