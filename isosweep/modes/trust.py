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
    trusts,
    used,
    whose,
)
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.price import NotConfirmedError, agrees, is_terminal
from isosweep.modes.terminal import say
from isosweep.ownership import others_may_write
from isosweep.store.paths import SweepPaths


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


def require_own_scripts(config: SweepConfig, paths: SweepPaths) -> None:
    """Raise SettingError where a scheduler would execute scripts that others may write meanwhile:
    with `launcher=command` they lie in the runs' directories."""
    if config.launcher.name != "command" or trusts() or not paths.runs.exists():
        return
    if (why := others_may_write(paths.runs)) is not None:
        rule = f"launcher=command executes scripts in it, and {why}"
        nearest = "trust=true, if you trust them, or sweeps_dir=DIRECTORY that is yours alone"
        raise SettingError("sweeps_dir", Path(paths.runs).parent, rule, nearest)
