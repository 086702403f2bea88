"""Who may see the pages that mode=dashboard serves: whoever has the link, and nobody else."""

import asyncio
from typing import Any

import pytest

from isosweep.modes.dashboard import Guard

TOKEN = "a-token"


def asked(path: str = "/", query: str = "", cookie: str = "", kind: str = "http") -> list[Any]:
    """What is sent to somebody who asks: "shown" where the pages are asked in turn."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append("shown")

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        **{"type": kind, "path": path, "query_string": query.encode()},
        "headers": [(b"cookie", cookie.encode())] if cookie else [],
        "server": ("127.0.0.1", 4711),
    }
    asyncio.run(Guard(app, TOKEN)(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    ("query", "cookie"),
    [
        ("", ""),
        ("token=", ""),
        ("token=another", ""),
        ("token=a-toke", ""),
        ("", "isosweep-4711="),
        ("", "isosweep-4711=another"),
        ("", f"isosweep-4712={TOKEN}"),
        ("", f"other={TOKEN}; =;;\x00"),
    ],
)
def test_who_lacks_the_token_is_shown_nothing(query: str, cookie: str) -> None:
    for path in ("/", "/health", "/get-artifact", "/ajax-api/2.0/mlflow/upload-artifact"):
        start, body = asked(path, query, cookie)
        assert start["status"] == 403
        assert b"mode=dashboard" in body["body"]
    refused = asked("/", query, cookie, kind="websocket")[0]
    assert (refused["type"], refused["status"]) == ("websocket.http.response.start", 403)


def test_the_link_is_answered_with_a_cookie_that_opens_the_pages() -> None:
    start, _ = asked("/", f"token={TOKEN}")
    headers = dict(start["headers"])
    assert (start["status"], headers[b"location"]) == (303, b"/")
    cookie = headers[b"set-cookie"].decode()
    assert {"HttpOnly", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
    assert asked("/get-artifact", cookie=f"other=1; {cookie.split(';')[0]}") == ["shown"]
