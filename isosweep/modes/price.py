"""What is left of a sweep is predicted to take, and whether that may be spent.

Before anything is launched: above `launcher.max_device_hours` it is refused, above
`launcher.confirm_above` a terminal is asked. Only what is not trained yet counts.
"""

import math
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.prompt import Confirm

from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.sweeps import places_of, sweep_paths
from isosweep.modes.terminal import say
from isosweep.plan.cells import predicted
from isosweep.plan.standing import compute_behind
from isosweep.plan.study import Study
from isosweep.preflight.plan import require_disk
from isosweep.store.attempts import newest
from isosweep.words import plan as words


def require_affordable(*studies: Study) -> None:
    """Raise SettingError where what is left of all exceeds `launcher.max_device_hours`."""
    hours = hours_left(*studies)
    for limit in (study.config.launcher.max_device_hours for study in studies):
        if limit is not None and hours > limit:
            setting = "launcher.max_device_hours"
            nearest = f"{setting}={math.ceil(100 * hours) / 100:.2f}, or a smaller budget"
            rule = words.rest(hours, studies[0].plan.pricing)
            raise SettingError(setting, f"{limit:g}", rule, nearest)


def hours_left(*studies: Study) -> float:
    """Predicted device-hours of all that the runs have not trained yet; a run that several want
    counts once, as the one counts it that wants most of it.

    Where a search may spend less than that on all of them, the dearest of it that it may choose.
    """
    hours: dict[str, float] = {}
    for study in studies:
        config, plan, paths = study.config, study.plan, sweep_paths(study)
        unit, stop, most = plan.budget_unit, config.health.stop, config.search.max_compute
        behind = {}
        for run in plan.runs:
            files = paths.run(run.run_id)
            behind[run.run_id] = compute_behind(run, files, newest(files), unit, stop)
        allowed = math.inf if most is None else max(0.0, most - math.fsum(behind.values()))
        for run in sorted(plan.runs, key=lambda run: run.milestones[-1] / predicted(run.seconds)):
            compute = min(run.milestones[-1] - behind[run.run_id], allowed)
            allowed -= compute
            share = compute / run.milestones[-1]
            left = predicted(run.seconds) * config.devices_taken / 3600 * share
            hours[run.run_id] = max(left, hours.get(run.run_id, 0.0))
    return math.fsum(hours.values())


def confirm(studies: Sequence[Study], console: Console) -> int:
    """0 if they may be launched, INTERRUPTED after Ctrl-C; asks on a terminal.

    Raises IsosweepError for a no.
    """
    question = _question(studies)
    if question is None:
        return 0
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        say(console, f"{question}; not on a terminal: launched without asking")
        return 0
    try:
        if Confirm.ask(f"{question}. Launch?", console=console, default=False):
            return 0
    except KeyboardInterrupt:
        say(console, "\nnothing was launched")
        return INTERRUPTED
    except EOFError:
        pass
    rule = "nothing was launched. A smaller budget takes less; confirm=true does not ask"
    raise IsosweepError(rule)


def _question(studies: Sequence[Study]) -> str | None:
    """What is to be agreed to; None where it is no more than `launcher.confirm_above`."""
    hours = hours_left(*studies)
    for study in studies:
        above = study.config.launcher.confirm_above
        if above is not None and hours > above and not study.config.confirm:
            return words.above(hours, study.plan.pricing, "confirm_above", above)
    return None


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether someone may sit at it; a standard stream that was closed is None."""
    return stream is not None and stream.isatty()


def at_launch(study: Study) -> list[str]:
    """What launching the plan would meet: refusals for its price or the disk, or a question."""
    lines: list[str] = []
    for require in (require_affordable, _require_room):
        try:
            require(study)
        except SettingError as error:
            lines.append(f"mode=run would refuse this: {error}")
    if not lines and (question := _question([study])) is not None:
        lines.append(f"mode=run would ask first: {question}")
    return lines


def _require_room(study: Study) -> None:
    require_disk(study, sweep_paths(study), places_of(study))
