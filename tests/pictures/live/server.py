"""The page served for a test: in a thread of this process, or as the command a user types."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._pictures.live.web import bind, make_app


@contextlib.contextmanager
def served(directory: Path) -> Iterator[int]:
    """Serves ``directory`` from a thread; yields the port."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    listener = bind(0)
    app = make_app(str(directory), lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 40
        while not server.started:
            assert time.monotonic() < deadline and thread.is_alive()
            time.sleep(0.01)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextlib.contextmanager
def commanded(directory: Path, port: int = 0) -> Iterator[str]:
    """Runs ``kymograph watch --web``; yields the address it prints, and leaves by Ctrl-C."""
    command = [sys.executable, "-m", "kymograph", "watch", str(directory), "--web", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split(" at ")[1].split()[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()
