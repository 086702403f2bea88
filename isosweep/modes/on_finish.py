"""`launcher.on_finish`: a command that is run at a sweep's end."""

import os
import shlex
from collections.abc import Mapping

from isosweep.commands import run_command
from isosweep.config.trust import require_own

# Seconds that it is given: a message takes one or two, and nobody waits for the sweep's end.
_TIMEOUT_S = 60.0


def run_on_finish(
    command: str, facts: Mapping[str, object], timeout_s: float = _TIMEOUT_S
) -> str | None:
    """Run the command with each fact as a variable (`ISOSWEEP_STATUS`) of its environment; return
    what went wrong, or None.

    Raises SettingError for a command that others may have written.
    """
    require_own(("launcher.on_finish", command))
    variables = {f"ISOSWEEP_{name.upper()}": str(value) for name, value in facts.items()}
    try:
        answer = run_command(shlex.split(command), os.environ | variables, timeout_s)
    except (OSError, ValueError) as error:
        return f"launcher.on_finish: {error}"
    return answer.failure and f"launcher.on_finish: {answer.failure}"
