"""The live page under load and garbage: it answers whoever comes next."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures.live.server import commanded, served
from tests.pictures.live.stage import finish, plan, specs
from tests.pictures.live.test_web import ask

CONNECTIONS = 1_400


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two runs, one of which is done."""
    root = tmp_path_factory.mktemp("watched") / "runs"
    runs = specs(2)
    plan(root, runs)
    finish(root, runs[0])
    return root


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process and those it starts open as many files as the test needs; skips where that is refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + 300
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this machine allows {hard} open files, and {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_it_answers_next_to_1400_that_never_finish_their_request(directory: Path, many_files: None) -> None:
    with commanded(directory) as address, contextlib.ExitStack() as idlers:
        port = int(address.rsplit(":", 1)[1].strip("/"))
        for number in range(CONNECTIONS):
            link = idlers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            link.sendall((b"", b"GET /sta", b"GET / HTTP/1.1\r\nHost: local")[number % 3])
        assert ask(port, "/state.json")[0] == 200 and ask(port, "/")[0] == 200


@pytest.mark.slow
def test_it_answers_next_to_1400_listeners_and_goes_on_when_they_leave(directory: Path, many_files: None) -> None:
    with commanded(directory) as address, contextlib.ExitStack() as listeners:
        port = int(address.rsplit(":", 1)[1].strip("/"))
        request = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        links = []
        for _ in range(CONNECTIONS):
            link = listeners.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            link.sendall(request)
            links.append(link)
        assert all(b"200 OK" in link.recv(4096) for link in links), "every one of them is served"
        assert ask(port, "/state.json")[0] == 200
        for link in links:
            link.close()
        assert ask(port, "/")[0] == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 200_000,
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET http://evil.example/state.json HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzzz",
        b"\r\n" * 100,
        b"\x00" * 1000,
    ],
    ids=[
        "tls",
        "long header",
        "long path",
        "two hosts",
        "web socket",
        "proxy",
        "huge body",
        "smuggled",
        "lines",
        "zeros",
    ],
)
def test_garbage_gets_no_state_and_does_not_stop_it(request_: bytes, directory: Path, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=2) as link:
        answer = b""
        with contextlib.suppress(OSError):
            link.sendall(request_)
            answer = link.recv(65536)
    foreign = b"evil" in request_
    assert not (foreign and b'"runs"' in answer) and b"101 Switching" not in answer
    assert ask(port, "/state.json")[0] == 200


@pytest.fixture(scope="module")
def port(directory: Path) -> Iterator[int]:
    """The port of a page."""
    with served(directory) as number:
        yield number
