"""What is left of sweeps is predicted to take, and whether that may be spent.

Before anything is launched: above `launcher.max_device_hours` it is refused, above
`launcher.confirm_above` a terminal is asked. Only what is not trained yet counts, and a run that
several jobs of a multirun share counts once.
"""

import math
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.prompt import Confirm

from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.directory import sweep_paths
from isosweep.modes.signals import INTERRUPTED
from isosweep.modes.terminal import say
from isosweep.plan.cells import predicted
from isosweep.plan.shortened import up_to
from isosweep.plan.standing import compute_behind
from isosweep.plan.study import Study
from isosweep.store.state import view_run


class NotConfirmedError(IsosweepError):
    """The user was asked, and does not want it launched."""


def require_affordable(studies: Sequence[Study]) -> None:
    """Raise SettingError where the jobs together exceed the least `launcher.max_device_hours`."""
    limits = [study.config.launcher.max_device_hours for study in studies]
    limit = min((limit for limit in limits if limit is not None), default=math.inf)
    if math.isinf(limit) or (hours := device_hours_left(studies)) <= limit:
        return
    nearest = f"launcher.max_device_hours={_rounded_up(hours)}"
    if len(studies) > 1:
        what, nearest = f"the {len(studies)} jobs", f"{nearest}, or fewer jobs"
    else:
        what, nearest = "the plan", f"{_smaller_budget(studies[0], limit)}, or {nearest}"
    rule = f"what is left of {what} is predicted to take {_in_words(hours)}"
    raise SettingError("launcher.max_device_hours", f"{limit:g}", rule, nearest)


def device_hours_left(studies: Sequence[Study]) -> float:
    """Predicted device-hours of all that the runs of `studies` have not trained yet."""
    left: dict[str, float] = {}
    for study in studies:
        for run_id, hours in _hours_left(study).items():
            left[run_id] = max(hours, left.get(run_id, 0.0))
    return math.fsum(left.values())


def _hours_left(study: Study, last: float = math.inf) -> dict[str, float]:
    """Predicted device-hours of what each run has not trained yet, of budgets up to `last`.

    Where a search may spend less than that on all of them, the dearest of it that it may choose.
    """
    config, plan, paths = study.config, study.plan, sweep_paths(study)
    runs = [
        up_to(plan, run, max(reached))
        for run in plan.runs
        if (reached := [milestone for milestone in run.milestones if milestone <= last])
    ]
    unit, stop = plan.budget_unit, config.health.stop
    files = {run.run_id: paths.run(run.run_id) for run in runs}
    behind = {
        run.run_id: compute_behind(run, files[run.run_id], view_run(files[run.run_id]), unit, stop)
        for run in runs
    }
    most = config.search.max_compute
    allowed = math.inf if most is None else max(0.0, most - math.fsum(behind.values()))
    hours = {}
    for run in sorted(runs, key=lambda run: run.milestones[-1] / predicted(run.seconds)):
        compute = min(run.milestones[-1] - behind[run.run_id], allowed)
        allowed -= compute
        share = compute / run.milestones[-1]
        hours[run.run_id] = predicted(run.seconds) * config.devices_taken / 3600 * share
    return hours


def _rounded_up(hours: float) -> str:
    """In three digits, and never less than it is."""
    unit = 10 ** (math.floor(math.log10(hours)) - 2)
    return f"{math.ceil(hours / unit) * unit:g}"


def _smaller_budget(study: Study, limit: float) -> str:
    """The smallest budgets of the list that `limit` device-hours are predicted to pay for, as they
    are typed; in words where the first one alone takes more."""
    budgets = study.plan.budgets
    for count in range(len(budgets) - 1, 0, -1):
        if math.fsum(_hours_left(study, budgets[count - 1]).values()) <= limit:
            return f"budget=[{','.join(f'{budget:g}' for budget in budgets[:count])}]"
    return "a smaller budget"


def _in_words(hours: float) -> str:
    return f"{hours:,.0f} device-hours" if hours >= 10 else f"{hours:.2g} device-hours"


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
            "nothing was launched. A smaller budget takes less; confirm=true launches unasked"
        )
    return 0


def _question(studies: Sequence[Study]) -> str | None:
    """What is to be agreed to; None where it is no more than `launcher.confirm_above`."""
    limits = [study.config.launcher.confirm_above for study in studies]
    above = min((limit for limit in limits if limit is not None), default=math.inf)
    hours = device_hours_left(studies)
    if hours <= above:
        return None
    jobs = f" for {len(studies)} jobs" if len(studies) > 1 else ""
    return (
        f"about {_in_words(hours)} are predicted{jobs}, more than launcher.confirm_above={above:g}"
    )


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
    limit, hours = study.config.launcher.max_device_hours, device_hours_left([study])
    if limit is not None and hours > limit:
        line = f"{_in_words(hours)} are more than launcher.max_device_hours={limit:g}"
        return f"mode=run would refuse this: {line}"
    if (question := _question([study])) is not None and not study.config.confirm:
        return f"mode=run would ask first: {question}"
    return None
