"""MLflow's pages for whoever has their link alone: MLflow itself asks nobody who they are.

Every user of a machine reaches its ports. What MLflow lets anyone do who does, it does as the user
who started it: artifacts are read and written wherever an experiment says.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

# The name by which `mlflow ui --app-name` finds `guarded` (pyproject.toml).
APP = "isosweep"
# Where the server is told its token: others see a command line, and no environment.
TOKEN = "ISOSWEEP_DASHBOARD_TOKEN"
_CLOSED = b"This page opens by the link that isosweep mode=dashboard has printed.\n"


def guarded() -> "Guard":
    """MLflow's pages, of the store that `mlflow ui` was given, behind the token of TOKEN."""
    from mlflow.server.fastapi_app import app

    return Guard(app, os.environ[TOKEN])


class Guard:
    """Answers who has sent the token once: in the link, for which a cookie then stands."""

    def __init__(self, app: _App, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Of the ASGI protocol."""
        if scope["type"] == "lifespan" or self._known(_cookie(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif self._known(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]):
            # A browser keeps what follows # of the link.
            cookie = f"{cookie_name(scope)}={self._token}; Path=/; HttpOnly; SameSite=Lax"
            headers = [
                (b"location", quote(scope["path"]).encode()),
                (b"set-cookie", cookie.encode()),
            ]
            await _answer(send, 303, headers, b"")
        else:
            await _answer(send, 403, [(b"content-type", b"text/plain")], _CLOSED)

    def _known(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def cookie_name(scope: _Message) -> str:
    """The cookie's name: browsers keep one jar for all ports of a machine."""
    return f"isosweep-{scope['server'][1]}"


def _cookie(scope: _Message) -> str:
    try:
        given = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
        found = SimpleCookie(given).get(cookie_name(scope))
    except CookieError:
        return ""
    return found.value if found else ""


async def _answer(
    send: _Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    # The address with the token is in no other page's Referer.
    headers = [*headers, (b"referrer-policy", b"no-referrer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
