"""`mode=dashboard`: MLflow's own pages of a sweep, on this machine or where its server is.

Every user of a machine reaches its ports, and MLflow reads and writes files as the user who started
it: its pages are for whoever has the link, with its token.
"""

import secrets
import signal
import socket
import warnings
from typing import Any

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.modes.signals import Signals
from isosweep.modes.sweeps import stored_sweep
from isosweep.modes.terminal import say, typed
from isosweep.modes.tracking import asked_tracking


def show_dashboard(config: SweepConfig, console: Console) -> int:
    """Print where the sweep is seen, and serve that until Ctrl-C where no server does; 0.

    Raises SettingError where the store has nothing of the sweep.
    """
    from isosweep.preflight.packages import require_packages
    from isosweep.tracking.mlflow import MlflowBackend
    from isosweep.tracking.tracker import fault

    sweep = stored_sweep(config)
    tracking = asked_tracking(config, sweep.config)
    analyse = f"mode=analyse {typed('sweep', sweep.paths.root)}"
    if tracking.name != "mlflow":
        rule, remedy = "keeps no store that could be shown here", f"{analyse} tracking=mlflow"
        raise SettingError("tracking", tracking.name, rule, f"{remedy}, which makes it")
    require_own(("tracking.uri", tracking.uri))
    require_packages("mlflow")
    store = MlflowBackend(tracking, sweep.paths, sweep.plan)
    try:
        found = store.find()
    except Exception as error:
        raise SettingError("tracking.uri", store.name, fault(error), "tracking.uri=URI") from None
    if not found:
        rule = f"holds no run of the sweep in experiment {tracking.experiment}"
        own = f" tracking.uri={store.name}" if config.tracking.uri else ""
        raise SettingError("tracking.uri", store.name, rule, f"{analyse}{own}, which makes it")
    if store.served:
        say(console, f"dashboard: {store.link_at(store.name)}")
        return 0
    from mlflow.server.handlers import initialize_backend_stores
    from uvicorn import Config, Server

    say(console, "starting MLflow's pages: about 10 s, longer while this machine trains")
    console.file.flush()
    token = secrets.token_urlsafe(32)
    with Signals() as signals, socket.create_server(("127.0.0.1", 0)) as listener:
        # What a user adds in the pages would have its files in the working directory otherwise.
        initialize_backend_stores(store.uri, store.uri, "mlflow-artifacts:/")
        with warnings.catch_warnings(action="ignore"):
            from mlflow.server.fastapi_app import app
        server = Server(Config(Guard(app, token), log_config=None, lifespan="off"))
        server.config.timeout_graceful_shutdown = 5
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        say(console, f"dashboard: {store.link_at(address, token)}")
        say(console, "shown until Ctrl-C; runs are not affected")
        console.file.flush()
        # A terminal that goes away ends it too.
        signal.signal(signal.SIGHUP, server.handle_exit)
        if not signals.asked:
            server.run(sockets=[listener])
    return 0


class Guard:
    """An ASGI app for requests with the token: in the link, then in a cookie."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Show the pages, turn a link into a cookie, or refuse."""
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse, RedirectResponse

        request = HTTPConnection(scope)
        # Browsers have one jar of cookies for all ports of a machine.
        cookie = f"isosweep-{scope['server'][1]}"
        answer: Any = PlainTextResponse("This page opens by the link of mode=dashboard.\n", 403)
        given = request.cookies.get(cookie, ""), request.query_params.get("token", "")
        known, linked = (secrets.compare_digest(t.encode(), self._token.encode()) for t in given)
        if known:
            answer = self._app
        elif linked:
            # A browser keeps what follows # of the link; no other page's Referer has the token.
            answer = RedirectResponse(scope["path"], 303, {"referrer-policy": "no-referrer"})
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        await answer(scope, receive, send)
