"""What is left of sweeps is predicted to take, and whether that may be spent.

Before anything is launched: above `launcher.max_device_hours` it is refused, above
`launcher.confirm_above` a terminal is asked. Only what is not trained yet counts,
and a run that several jobs of a multirun share counts once.
"""

import math
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.prompt import Confirm

from isosweep import words
from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.directory import sweep_paths
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.terminal import say
from isosweep.plan.cells import predicted
from isosweep.plan.standing import compute_behind
from isosweep.plan.study import Study
from isosweep.pricing import Pricing
from isosweep.store.attempts import newest


class NotConfirmedError(IsosweepError):
    """The user was asked, and does not want it launched."""


def require_affordable(studies: Sequence[Study]) -> None:
    """Raise SettingError where the jobs together exceed the least `launcher.max_device_hours`."""
    limit = _least(studies, "max_device_hours")
    if limit is None:
        return
    hours, pricing = left(studies)
    if hours <= limit:
        return
    setting, less = "launcher.max_device_hours", "a smaller budget"
    nearest = f"{setting}={_rounded_up(hours)}, or {'fewer jobs' if len(studies) > 1 else less}"
    rule = words.line("plan", "left", hours, pricing, len(studies))
    raise SettingError(setting, f"{limit:g}", rule, nearest)


def _least(studies: Sequence[Study], name: str) -> float | None:
    """The least that a setting of the launcher says in any job; None where none says any."""
    said = [getattr(study.config.launcher, name) for study in studies]
    return min((limit for limit in said if limit is not None), default=None)


def left(studies: Sequence[Study]) -> tuple[float, Pricing]:
    """Predicted device-hours of all that the runs of `studies` have not trained yet, and their
    pricing: of studies that differ in it no dollars, and the widest range."""
    hours: dict[str, float] = {}
    for study in studies:
        for run_id, own in _hours_left(study).items():
            hours[run_id] = max(own, hours.get(run_id, 0.0))
    prices = [study.plan.pricing for study in studies]
    if len(set(prices)) == 1:
        return math.fsum(hours.values()), prices[0]
    lows, highs = zip(*(each.spread for each in prices), strict=True)
    return math.fsum(hours.values()), Pricing(spread=(min(lows), max(highs)))


def _hours_left(study: Study) -> dict[str, float]:
    """Predicted device-hours of what each run has not trained yet.

    Where a search may spend less than that on all of them, the dearest of it that it may choose.
    """
    config, plan, paths = study.config, study.plan, sweep_paths(study)
    unit, stop = plan.budget_unit, config.health.stop
    files = {run.run_id: paths.run(run.run_id) for run in plan.runs}
    behind = {
        run.run_id: compute_behind(run, files[run.run_id], newest(files[run.run_id]), unit, stop)
        for run in plan.runs
    }
    most = config.search.max_compute
    allowed = math.inf if most is None else max(0.0, most - math.fsum(behind.values()))
    hours = {}
    for run in sorted(plan.runs, key=lambda run: run.milestones[-1] / predicted(run.seconds)):
        compute = min(run.milestones[-1] - behind[run.run_id], allowed)
        allowed -= compute
        share = compute / run.milestones[-1]
        hours[run.run_id] = predicted(run.seconds) * config.devices_taken / 3600 * share
    return hours


def _rounded_up(value: float) -> str:
    """In three digits, and never less than it is."""
    unit = 10 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit) * unit:g}"


def confirm(studies: Sequence[Study], console: Console) -> int:
    """0 if they may be launched, INTERRUPTED after Ctrl-C; asks on a terminal.

    Raises NotConfirmedError for a no.
    """
    question = _question(studies)
    if question is None or all(study.config.confirm for study in studies):
        return 0
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        say(console, f"{question}; not on a terminal: launched without asking")
        return 0
    try:
        agreed = agrees(f"{question}. Launch?", console)
    except KeyboardInterrupt:
        say(console, "\nnothing was launched")
        return INTERRUPTED
    if not agreed:
        raise NotConfirmedError(
            "nothing was launched. A smaller budget takes less; confirm=true does not ask"
        )
    return 0


def _question(studies: Sequence[Study]) -> str | None:
    """What is to be agreed to; None where it is no more than `launcher.confirm_above`."""
    above, (hours, pricing) = _least(studies, "confirm_above"), left(studies)
    if above is None or hours <= above:
        return None
    return words.line("plan", "above", hours, pricing, len(studies), "confirm_above", above)


def is_terminal(stream: object) -> bool:
    """Whether someone may sit at it; a standard stream that was closed is None."""
    return stream is not None and bool(getattr(stream, "isatty", lambda: False)())


def agrees(question: str, console: Console) -> bool:
    """Whether the user says yes; an end of the input is a no."""
    try:
        return Confirm.ask(question, console=console, default=False)
    except EOFError:
        return False


def described_price(study: Study) -> str | None:
    """What launching the plan would meet: a question, or a refusal; None where it meets neither."""
    hours, pricing = left([study])
    limit = _least([study], "max_device_hours")
    if limit is not None and hours > limit:
        line = words.line("plan", "above", hours, pricing, 1, "max_device_hours", limit)
        return f"mode=run would refuse this: {line}"
    if (question := _question([study])) is not None and not study.config.confirm:
        return f"mode=run would ask first: {question}"
    return None
