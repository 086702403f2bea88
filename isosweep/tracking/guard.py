"""MLflow's pages for whoever has their link alone: MLflow itself asks nobody who they are.

Every user of a machine reaches its ports, and MLflow reads and writes files as the user who started
it.
"""

import os
import secrets
from typing import Any

# The name by which `mlflow ui --app-name` finds `guarded` (pyproject.toml).
APP = "isosweep"
# Where the server is told its token: others see a command line, and no environment.
TOKEN = "ISOSWEEP_DASHBOARD_TOKEN"
_CLOSED = "This page opens by the link that isosweep mode=dashboard has printed.\n"


def guarded() -> "Guard":
    """MLflow's pages, of the store that `mlflow ui` was given, behind the token of TOKEN."""
    from mlflow.server.fastapi_app import app

    return Guard(app, os.environ[TOKEN])


class Guard:
    """An ASGI app that answers who has sent the token: in the link, then in a cookie."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Show the pages, turn a link into a cookie, or refuse."""
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse, RedirectResponse, Response

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        # Browsers keep one jar of cookies for all ports of a machine.
        cookie = f"isosweep-{scope['server'][1]}"
        answer: Response = PlainTextResponse(_CLOSED, 403)
        if self._is_token(request.cookies.get(cookie, "")):
            answer = self._app
        elif self._is_token(request.query_params.get("token", "")):
            # A browser keeps what follows # of the link; no other page's Referer has the token.
            answer = RedirectResponse(scope["path"], 303, {"referrer-policy": "no-referrer"})
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        await answer(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())
