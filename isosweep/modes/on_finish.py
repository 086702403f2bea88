"""`launcher.on_finish`: a command or an address that hears of a sweep's end."""

import http.client
import json
import os
import re
import shlex
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import asdict, dataclass
from typing import Literal

from isosweep.commands import ask
from isosweep.config.secrets import lacks_token
from isosweep.config.trust import require_own

# Seconds that either is given: a message takes one or two, and nobody waits for the sweep's end.
TIMEOUT_S = 60.0
_ADDRESS = ("http://", "https://")
_SAID = 200

Ended = Literal["finished", "failed", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Finish:
    """How a followed sweep ended. `report`: the page of its analysis, empty where there is none;
    `done`, `failed`: numbers of runs."""

    sweep_dir: str
    status: Ended
    report: str
    done: int
    failed: int


def on_finish(action: str | None, finish: Finish, timeout_s: float = TIMEOUT_S) -> str | None:
    """Run the command, or send the JSON, that `launcher.on_finish` asks for.

    What went wrong, in one line; None where nothing did. Of an address it has only the scheme and
    the host: the rest may be a secret.
    """
    if action is None:
        return None
    if (missing := missing_address(action)) is not None:
        return missing
    require_own({"launcher.on_finish": action})
    if action.startswith(_ADDRESS):
        return _send(os.path.expandvars(action), finish, timeout_s)
    return _run(action, finish, timeout_s)


def missing_address(action: str) -> str | None:
    """That its address was not stored, and what to do; None where it was, or it has none."""
    if not lacks_token(action):
        return None
    return (
        f"launcher.on_finish={action}: an address is not stored, for it may be a secret; type "
        "launcher.on_finish=... with mode=resume, or begin with one that names $NAME"
    )


def _send(address: str, finish: Finish, timeout_s: float) -> str | None:
    shown = _shown(address)
    try:
        request = urllib.request.Request(  # http and https alone come here
            address,
            data=json.dumps(asdict(finish)).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "isosweep"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        return f"launcher.on_finish: {shown} answers {error.code}"
    except urllib.error.URLError as error:
        reason = error.reason.strerror if isinstance(error.reason, OSError) else None
        return f"launcher.on_finish: {shown} does not answer{_after(reason or '')}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Not in the error's words: those may have the address.
        return f"launcher.on_finish: {shown} does not answer ({type(error).__name__})"


def _shown(address: str) -> str:
    """Scheme and host: neither path nor user, which may be secrets."""
    try:
        parts = urllib.parse.urlsplit(address)
        return f"{parts.scheme}://{parts.hostname}"
    except ValueError:
        return "the address"


def _after(said: str) -> str:
    return f": {said[:_SAID]}" if said else ""


def _run(command: str, finish: Finish, timeout_s: float) -> str | None:
    values = {name: shlex.quote(str(value)) for name, value in asdict(finish).items()}
    # Other braces are the shell's own.
    filled = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), command)
    try:
        answer = ask(filled, timeout_s)
    except OSError as error:
        return f"launcher.on_finish: {error.strerror}"
    if answer.status is None:
        return f"launcher.on_finish: no end after {timeout_s:g} s"
    if answer.status == 0:
        return None
    said = (answer.errors.strip() or answer.output.strip()).splitlines()
    return f"launcher.on_finish: exit status {answer.status}{_after(said[-1] if said else '')}"
