"""`launcher.on_finish`: a command that is run at a sweep's end."""

import re
import shlex
from dataclasses import asdict, dataclass
from typing import Literal

from isosweep.commands import ask
from isosweep.config.trust import lacks_token, require_own

# Seconds that it is given: a message takes one or two, and nobody waits for the sweep's end.
TIMEOUT_S = 60.0
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


def on_finish(action: str, finish: Finish, timeout_s: float = TIMEOUT_S) -> str | None:
    """Run the command of `launcher.on_finish`; what went wrong, in one line, or None."""
    if (missing := missing_address(action)) is not None:
        return missing
    require_own({"launcher.on_finish": action})
    values = {name: shlex.quote(str(value)) for name, value in asdict(finish).items()}
    # Other braces are the shell's own.
    filled = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), action)
    try:
        answer = ask(filled, timeout_s)
    except OSError as error:
        return f"launcher.on_finish: {error.strerror}"
    if answer.status is None:
        return f"launcher.on_finish: no end after {timeout_s:g} s"
    if answer.status == 0:
        return None
    said = (answer.errors.strip() or answer.output.strip()).splitlines()
    why = f": {said[-1][:_SAID]}" if said else ""
    return f"launcher.on_finish: exit status {answer.status}{why}"


def missing_address(action: str) -> str | None:
    """That its address was not stored, and what to do; None where it was, or it has none."""
    if not lacks_token(action):
        return None
    return (
        f"launcher.on_finish={action}: an address is not stored, for it may be a secret; type "
        "launcher.on_finish=... with mode=resume, or begin with one that names $NAME"
    )
