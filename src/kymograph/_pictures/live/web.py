"""The live view as a page for the browsers of this machine.

The server only reads, and only answers this machine: it binds 127.0.0.1, answers GET and HEAD of three addresses,
serves no file by its path, and refuses requests under any host name but this machine's own. So a web site whose name is
made to resolve to 127.0.0.1 (DNS rebinding) cannot read the runs through a visitor's browser.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from kymograph._errors import KymographError
from kymograph._pictures.live.network import LEVELS, MISSING, ZERO
from kymograph._pictures.live.reading import Watcher
from kymograph._pictures.report_page.assets import arm_colours, template
from kymograph._pictures.scales import MAP, SIGNED_MAP
from kymograph._pictures.series import CellState
from kymograph._pictures.styles import html_mathematics
from kymograph._rounding import number_text
from kymograph._runs.locating import check_directory
from kymograph._wording import format_duration

if TYPE_CHECKING:
    import jinja2
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


ADDRESS = "127.0.0.1"
INTERVAL = 0.5
"""Seconds between two readings of the directory, however many browsers watch."""
KEEP_ALIVE = 15.0
"""Seconds after which a comment is sent over a quiet stream, so that no proxy closes it."""
_OWN_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def serve(directory: str, port: int) -> int:
    """Serves the live view of ``directory`` on this machine until Ctrl-C; returns the exit code."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise KymographError(
            "the page needs starlette and uvicorn; install them with `pip install 'kymograph[serve]'`"
        ) from None
    check_directory(directory)  # before the server starts
    listener = bind(port)
    app = make_app(directory, lambda: server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
    )
    print(f"watching {directory} at http://{ADDRESS}:{listener.getsockname()[1]}/ (Ctrl-C to stop)", flush=True)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        listener.close()
    return 0


def bind(port: int) -> socket.socket:
    """Returns a listening socket that only this machine can reach; port 0 takes any that is free."""
    if not 0 <= port <= 65535:
        raise KymographError(f"a port must be from 0 to 65535, not {port}")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise KymographError(
            f"port {port} is not available ({error.strerror}); choose another with --port, or --port 0 for any"
        ) from None
    return listener


def make_app(directory: str, stopping: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Returns the application that shows ``directory``; streams end once ``stopping`` returns true."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Route

    states = _StateCache(directory)
    template = _template()

    async def page(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        text = template.render(state=json.loads(await states.text()), nonce=nonce, now=time.time())
        policy = f"{_POLICY}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:"
        return HTMLResponse(text, headers={"content-security-policy": policy})

    async def state(request: Request) -> Response:
        return Response(await states.text(), media_type="application/json")

    async def events(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(_stream(states, stopping), media_type="text/event-stream")

    app: Starlette = Starlette(
        routes=[Route("/", page), Route("/state.json", state), Route("/events", events)],
    )
    app.router.redirect_slashes = False
    return _Guard(app)


class _StateCache:
    """The state of the directory as JSON, read at most once every `INTERVAL` seconds however many ask."""

    def __init__(self, directory: str) -> None:
        self._watcher = Watcher(directory)
        self._text, self._at = "", 0.0
        self._lock = asyncio.Lock()

    async def text(self) -> str:
        async with self._lock:
            if not self._text or time.monotonic() - self._at >= INTERVAL:
                self._text = await asyncio.to_thread(self._read)
                self._at = time.monotonic()
            return self._text

    def _read(self) -> str:
        return json.dumps(self._watcher.state(time.time()).to_json(), allow_nan=False)


async def _stream(states: _StateCache, stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Yields server-sent events: the state at once, and again whenever it has changed."""
    yield "retry: 1000\n\n"
    last, at = "", time.monotonic()
    while not stopping():
        text = await states.text()
        if text != last:
            yield f"data: {text}\n\n"
            last, at = text, time.monotonic()
        elif time.monotonic() - at > KEEP_ALIVE:
            yield ": keep-alive\n\n"
            at = time.monotonic()
        await asyncio.sleep(INTERVAL)


class _Guard:
    """Answers only to this machine's own names, only GET and HEAD, and adds strict headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no web sockets
        from starlette.responses import PlainTextResponse

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                marks = {"content-security-policy": _POLICY, **_HEADERS}
                extra = [(n.encode(), v.encode()) for n, v in marks.items() if n.encode() not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not _OWN_NAMES.fullmatch(hosts[0]):
            refusal = "this page answers only under the names localhost and 127.0.0.1\n"
            await PlainTextResponse(refusal, 421)(scope, receive, send_marked)
        elif scope["method"] not in ("GET", "HEAD"):
            refusal = "this page is read-only\n"
            await PlainTextResponse(refusal, 405, {"allow": "GET, HEAD"})(scope, receive, send_marked)
        else:
            await self._app(scope, receive, send_marked)


def _template() -> jinja2.Template:
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("kymograph._pictures.live", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["duration"] = format_duration
    environment.filters["number"] = _number
    environment.filters["math"] = html_mathematics
    environment.globals |= {
        "number_script": Markup(template("number.js")),
        "colours": Markup(arm_colours()),
        "maps": _maps(),
    }
    return environment.get_template("live.html")


def _maps() -> dict[str, Any]:
    """Returns what the page needs to draw a network: the letters of its cells, their colours and what they mean."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    def colours(name: str) -> list[str]:
        return [to_hex(colormaps[name](level / (len(LEVELS) - 1))) for level in range(len(LEVELS))]

    return {
        "levels": LEVELS, "zero": ZERO, "missing": MISSING, "plain": colours(MAP), "signed": colours(SIGNED_MAP),
        "words": {"zero": CellState.ZERO.label, "missing": CellState.MISSING.label},
    }  # fmt: skip


def _number(value: Any) -> str:
    return number_text(value, typeset=True)
