"""Budgets and seeds that a total chooses: what they cost, how often they decide; refusals."""

import math
import shlex

import pytest

from isosweep.analysis.outlook import Outlook
from isosweep.analysis.simulation.findable import Findable, Odds
from isosweep.config.compose import config_of
from isosweep.config.sweep import SweepConfig
from isosweep.door.planned import make_plan
from isosweep.errors import SettingError
from isosweep.modes import total
from isosweep.modes.total import resolve_total
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.study import Study, resolve
from tests.conftest import make_config

AXES = "grid.axes={recipe.num_iterations:[1,2]}"
PRICED = "hardware.dollars_per_hour=2"


def spent(study: Study, unit: str) -> float:
    """What all runs of a plan take, as `mode=plan` prints it."""
    if unit:
        return study.device_hours * (2 if unit == "usd" else 1)
    return math.fsum(predicted(run.planned_flops) for run in study.plan.runs)


@pytest.mark.parametrize(
    ("amount", "unit", "further"),
    [
        (1, "usd", (PRICED,)),
        (3e13, "", ()),
        (0.5, "h", ("grid.seeds=[3,5]", AXES)),
        (0.5, "h", ("budget_unit=rollouts", "search=frontier")),
        (300, "h", ("model=qwen-0.5b", "hardware=h100")),
    ],
)
def test_the_whole_plan_fits_and_one_with_larger_budgets_would_not(
    amount: float, unit: str, further: tuple[str, ...]
) -> None:
    study = resolve_total(make_config(f"total={amount}{unit}", *further))
    seeds = f"grid.seeds={study.config.grid.seeds}".replace(" ", "")
    if "grid.seeds=[3,5]" in further:
        assert seeds == "grid.seeds=[3,5]"
    last = total._LADDER.index(study.config.budgets[-1])
    larger = [total._LADDER[last + 1 - below] for below in (20, 10, 0)]
    typed = [each for each in further if not each.startswith("grid.seeds")]
    same = resolve(make_config(f"budget={[*study.config.budgets]}".replace(" ", ""), seeds, *typed))
    assert study.plan.plan_id == same.plan.plan_id
    beyond = resolve(make_config(f"budget={larger}".replace(" ", ""), seeds, *typed))
    assert spent(study, unit) <= amount < spent(beyond, unit)
    # What is compared with the total is what the plan says that it takes.
    share = spent(study, unit) / amount
    assert f"{share:.0%} of the total" in study.notes[0]


def test_the_plan_that_decides_most_often_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {2: 0.5, 3: 0.74, 4: 0.76, 6: 0.77, 8: 0.6}
    few = set[str]()

    def outlook(plan: Plan, config: SweepConfig) -> Outlook:
        seeds = len({run.seed for run in plan.runs})
        assert seeds == len(config.grid.seeds)
        odds = Odds(surely=planted[seeds], probably=1.0, falsely=0.0)
        found = Findable(ends=odds, goes_on=odds)
        below = tuple(few)
        return Outlook(finds=found, nearer=found, below=below, nearest={}, judged_by={})

    monkeypatch.setattr(total, "outlook_of_variants", outlook)

    def seeds_of(*further: str) -> int:
        return len(resolve_total(make_config("total=0.5h", *further)).config.grid.seeds)

    # 0.74, 0.76 and 0.77 are all about 75 of 100: the fewest seeds leave most for the budget.
    assert seeds_of() == 3
    planted[6] = 0.8
    assert seeds_of() == 6
    assert seeds_of("grid.seeds=[0,1]") == 2
    # Shares of longer sweeps say nothing of short ones.
    few.add("decades")
    assert seeds_of() == 2


@pytest.mark.parametrize(
    ("typed", "setting", "says"),
    [
        ("total=0.0001h", "total", "the smallest takes"),
        (f"total=0.001usd {PRICED}", "total", "the smallest takes $0.02"),
        ("total=1h grid.seeds=[4]", "total", "at least 2 seeds"),
        ("total=1h grid.num_generations=[4,8]", "total", "at least 3 n"),
        ("total=1h analysis.readings_per_decade=0 grid.seeds=[7]", "total", "at least 2 seeds"),
        ("total=1h hardware.memory_gb=0.001", "total", "break hardware.memory_gb"),
        ("total=9h model=qwen-7b hardware=h100", "total", "hardware.sharding=fsdp shares it"),
        ("total=5usd", "total", "no price of a device is given"),
        ("total=1h budget=1e10", "total", "chooses the budgets itself"),
        ("total=1h steps=5 mode=plan", "steps", "with a budget T follows from it"),
        ("total=1h mode=analyse", "total", "mode=analyse makes no use of it"),
        ("total=1d", "total", "must be device-hours (2000h)"),
        ("total=true", "total", "must be device-hours (2000h)"),
    ],
)
def test_what_no_total_can_choose_is_refused(typed: str, setting: str, says: str) -> None:
    with pytest.raises(SettingError, match=setting) as caught:
        resolve_total(config_of(shlex.split(typed)))
    assert caught.value.setting == setting
    assert says in caught.value.rule
    if says.startswith("the smallest"):
        kept = typed.split()[1:]
        study = resolve_total(config_of([caught.value.nearest, *kept]))
        assert "half as much: no plan that can decide anything" in study.notes[2]


def test_python_chooses_as_the_command_does() -> None:
    planned = make_plan("total=0.5h", tracking="none")
    assert planned.command == "python -m isosweep total=0.5h tracking=none"
    assert planned.notes[0].startswith("total: budget=[")
    assert planned.price.device_hours < 0.5
