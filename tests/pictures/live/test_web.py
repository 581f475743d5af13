from __future__ import annotations

import http.client
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._pictures.live import web
from kymograph._pictures.live.reading import read_state
from kymograph._pictures.styles import COLOURS
from tests.pictures.live.server import commanded, served
from tests.pictures.live.stage import beat, fail, finish, plan, specs

TEMPLATE = Path(web.__file__).parent / "templates" / "live.html"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs in several conditions, hostile names among them."""
    root = tmp_path_factory.mktemp("watched") / "runs"
    runs = [*specs(3), *specs(2, arm="<script>alert(1)</script>"), *specs(1, study="</script><b>")]
    plan(root, runs)
    finish(root, runs[0])
    finish(root, runs[3])
    fail(root, runs[1], "<img src=x onerror=alert(2)>")
    beat(root, runs[2:3], words="<b>loud</b>")
    (root.parent / "secret.txt").write_text("secret")
    return root


@pytest.fixture(scope="module")
def port(directory: Path) -> Iterator[int]:
    with served(directory) as number:
        yield number


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Sends one request with the path exactly as given."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        link.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            link.putheader(name, value)
        link.endheaders()
        answer = link.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        link.close()


def test_the_state_is_what_was_read(directory: Path, port: int) -> None:
    status, headers, text = ask(port, "/state.json")
    assert status == 200 and headers["content-type"] == "application/json"
    sent, seen = json.loads(text), read_state(directory, time.time()).to_json()
    assert [s["counts"] for s in sent["studies"]] == [s["counts"] for s in seen["studies"]]
    assert sent["studies"][0]["arms"] == seen["studies"][0]["arms"] and sent["ended"] is False


def test_the_page_shows_without_javascript_and_texts_stay_texts(port: int) -> None:
    status, headers, text = ask(port, "/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    without = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for part in (
        "<h2>warmup</h2>",
        "2 of 5",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "&lt;img src=x",
        "&lt;b&gt;loud",
    ):
        assert part in without, part
    assert "alert(1)</script>" not in text and "<img" not in text and "<b>loud" not in text
    assert len(re.findall(r"<script", text)) == 2, "the state and the program, both with the nonce"


@pytest.mark.parametrize("path", ["/", "/state.json", "/events", "/absent"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_can_only_be_read(port: int, path: str, method: str) -> None:
    status, headers, _ = ask(port, path, method)
    assert status == 405 and headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/state.json", "/events"])
def test_head_answers_without_a_body(port: int, path: str) -> None:
    assert ask(port, path, "HEAD")[::2] == (200, "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost@evil",
                                  "0.0.0.0", "", "[::2]", "localhost:8765:1", "127.0.0.1\t.evil"])  # fmt: skip
def test_other_names_are_refused(port: int, host: str) -> None:
    for path in ("/", "/events", "/state.json"):
        status, headers, text = ask(port, path, Host=host)
        assert status in (400, 421) and "warmup" not in text
        assert status == 400 or "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8765", "[::1]:8765"])
def test_own_names_are_answered(port: int, host: str) -> None:
    assert ask(port, "/state.json", Host=host)[0] == 200


@pytest.mark.parametrize("path", ["/secret.txt", "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt",
                                  "//etc/passwd", "/warmup/plan.json", "/state.json/../../secret.txt",
                                  "/events/", "/.running", "/static"])  # fmt: skip
def test_no_file_is_served_by_its_path(port: int, path: str) -> None:
    status, headers, text = ask(port, path)
    assert status == 404 and "secret" not in text and "root:" not in text
    assert headers["x-content-type-options"] == "nosniff"


def test_the_policy_is_strict_and_every_nonce_is_new(port: int) -> None:
    policies = [ask(port, "/")[1]["content-security-policy"] for _ in range(2)]
    assert policies[0] != policies[1]
    for word in (
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "connect-src 'self'",
    ):
        assert word in policies[0]
    assert "unsafe" not in policies[0] and "*" not in policies[0] and "http" not in policies[0]
    headers = ask(port, "/state.json")[1]
    assert headers["cache-control"] == "no-store" and "access-control-allow-origin" not in headers


def test_only_this_machine_can_connect(port: int) -> None:
    listener = web.bind(0)
    assert listener.getsockname()[0] == "127.0.0.1"
    listener.close()
    if sys.platform == "linux":  # every listening socket with our port, as the kernel lists them
        rows = [
            row.split()[1:4]
            for name in ("tcp", "tcp6")
            for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        ]
        ours = [local for local, _, state in rows if state == "0A" and local.endswith(f":{port:04X}")]
        assert ours == [f"0100007F:{port:04X}"]


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(KymographError, match=f"port {taken} is not available .*--port 0"):
            web.bind(taken)
    with pytest.raises(KymographError, match="from 0 to 65535, not 70000"):
        web.bind(70000)


def test_a_missing_extra_is_one_sentence(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(KymographError, match=r"pip install 'kymograph\[serve\]'"):
        web.serve(str(directory), 0)


def test_a_missing_directory_is_reported_at_once(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    with pytest.raises(KymographError, match="no directory"):
        web.serve(str(tmp_path / "absent"), 0)


def test_events_come_when_something_changes_and_not_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "INTERVAL", 0.02)
    monkeypatch.setattr(web, "KEEP_ALIVE", 0.2)
    runs = specs(2)
    plan(tmp_path, runs)
    with served(tmp_path) as port:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.request("GET", "/events")
        stream = link.getresponse()
        assert stream.getheader("content-type", "").startswith("text/event-stream")

        def event() -> str:
            lines = []
            while line := stream.readline().decode().rstrip("\n"):
                lines.append(line)
            return "\n".join(lines)

        assert event() == "retry: 1000"
        first = json.loads(event().removeprefix("data: "))
        assert first["studies"][0]["counts"]["waiting"] == 2
        assert event() == ": keep-alive"
        finish(tmp_path, runs[0])
        while (text := event()).startswith(":"):
            pass
        assert json.loads(text.removeprefix("data: "))["studies"][0]["counts"]["finished"] == 1
        stream.close()
        link.close()


def test_the_command_serves_until_control_c_though_a_browser_listens(tmp_path: Path) -> None:
    plan(tmp_path, specs(1))
    with commanded(tmp_path) as address:
        port = int(address.split(":")[2].rstrip("/"))
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.request("GET", "/events")
        assert link.getresponse().readline() == b"retry: 1000\n"
    link.close()


def test_lines_on_the_page_have_the_figures_colours() -> None:
    text = TEMPLATE.read_text()
    for name in ("done", "failed", "running"):
        assert all(colour in COLOURS for colour in re.findall(rf"--{name}: (#\w+)", text))
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "nothing is fetched from elsewhere"
