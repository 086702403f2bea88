"""What a stored sweep would execute, and others may have written: shown, and asked for."""

import sys
from pathlib import Path

from rich.console import Console

from isosweep.config.executed import (
    Executed,
    agree,
    executed,
    foreign,
    require_own_all,
    used,
    whose,
)
from isosweep.config.sweep import SweepConfig
from isosweep.modes.price import NotConfirmedError, agrees, is_terminal
from isosweep.modes.terminal import say


def require_trusted(config: SweepConfig, root: Path, console: Console) -> None:
    """Show what the sweep of `config`, in `root`, would execute that others may have written, and
    which addresses and directories it would use, and ask for it.

    Raises SettingError where there is no terminal to ask at, NotConfirmedError for a no.
    """
    beside = Executed.of("sweeps_dir", str(root.absolute().parent))
    wanted = [*executed(config), *(each for each in used(config) if each != beside)]
    if not (left := foreign(wanted)):
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        require_own_all(left)
    lines = [
        f"others may have written {whose()}",
        "they would be executed or used with your rights:",
    ]
    say(console, *(*lines, *(f"  {each.setting}={each.shown}" for each in left)))
    if not agrees("Go on?", console):
        raise NotConfirmedError("nothing was launched. trust=true executes it without asking")
    agree(left)
