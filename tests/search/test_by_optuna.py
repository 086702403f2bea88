"""`search=optuna`: what its samplers and pruners choose of small simulated sweeps."""

from dataclasses import replace
from pathlib import Path

import pytest
from optuna import Study
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import SearchConfig
from isosweep.errors import SettingError
from isosweep.modes.launch import plan_sweep
from isosweep.plan.study import resolve
from isosweep.search.by_optuna import decide, load
from isosweep.search.candidates import Decision
from tests.conftest import SMALL, make_config
from tests.search.sweeps import BUDGETS, GENERATIONS, PLAN, question, run_id, trained

TPE = SearchConfig(
    name="optuna",
    sampler="optuna.samplers.TPESampler",
    pruner="optuna.pruners.SuccessiveHalvingPruner",
)


def choose(
    reached: dict[str, float],
    pending: dict[str, float] | None = None,
    *,
    config: SearchConfig = TPE,
    count: int = 4,
) -> Decision:
    return decide(replace(question(trained(reached), config, pending), count=count))


def trained_by(config: SearchConfig) -> dict[str, float]:
    """How far runs go until nothing more is asked for."""
    reached: dict[str, float] = {}
    while steps := choose(reached, config=config).steps:
        for step in steps:
            assert step.compute == step.milestone - reached.get(step.run_id, 0.0)
            reached[step.run_id] = step.milestone
    return reached


def test_a_search_begins_runs_of_the_plan_each_at_its_first_milestone() -> None:
    steps = choose({}).steps
    assert len({step.run_id for step in steps}) == 4
    assert {step.milestone for step in steps} == {BUDGETS[0]}
    assert choose({}).steps == steps


def test_halving_trains_few_runs_to_the_end_and_begins_them_all() -> None:
    reached = trained_by(TPE)
    assert set(reached) == {run.run_id for run in PLAN.runs}
    ended = [name for name, to in reached.items() if to == BUDGETS[-1]]
    assert 0 < len(ended) < len(PLAN.runs) / 2
    assert sum(to == BUDGETS[0] for to in reached.values()) >= len(PLAN.runs) / 3
    # The plateau's n* is 32 or 64 from the second budget on.
    assert all(name.startswith(("run-n16-", "run-n32-", "run-n64-")) for name in ended)


def test_without_a_pruner_every_run_goes_to_its_end() -> None:
    config = replaced(TPE, pruner="optuna.pruners.NopPruner")
    assert set(trained_by(config).values()) == {BUDGETS[-1]}
    reached = {run.run_id: BUDGETS[-1] for run in PLAN.runs}
    assert "every run of the plan has been begun" in (choose(reached).stop or "")


def test_tpe_asks_for_n_near_the_best_that_it_has_seen() -> None:
    reached = {run_id(n, seed): BUDGETS[-1] for n in GENERATIONS for seed in (0, 1)}

    def near(startup: int) -> int:
        config = replaced(TPE, sampler_options={"n_startup_trials": startup})
        asked = [
            step.run_id
            for seed in range(20)
            for step in choose(reached, config=replaced(config, seed=seed), count=1).steps
        ]
        assert len(asked) == 20
        return sum(name.startswith(("run-n32-", "run-n64-")) for name in asked)

    # Two of five n; at random until so many trials are known.
    assert near(startup=2) >= 14
    assert near(startup=100) <= 12


def test_what_is_pending_is_not_asked_for_again_and_the_limit_holds() -> None:
    pending = {run_id(8, 0): BUDGETS[0]}
    assert run_id(8, 0) not in {step.run_id for step in choose({}, pending, count=99).steps}
    some = choose({}, config=replaced(TPE, max_compute=2.5 * BUDGETS[0])).steps
    assert len(some) == 2
    none = choose({run_id(8, 0): BUDGETS[0]}, config=replaced(TPE, max_compute=1.5 * BUDGETS[0]))
    assert "search.max_compute=1.5e+09 flops is spent" in (none.stop or "")


class Delayed(RandomSampler):
    """Fails once trials have ended, as a class does that imports a package then."""

    def sample_relative(self, study: Study, *_: object) -> dict[str, object]:
        if len(study.get_trials(states=(TrialState.COMPLETE,))) > 10:
            raise ModuleNotFoundError("No module named 'cmaes'")
        return {}


class Broken(RandomSampler):
    def __init__(self) -> None:
        raise ModuleNotFoundError("No module named 'cmaes'")


OWN = "tests.search.test_by_optuna."


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sampler": "optuna.samplers.NoSuch"}, "cannot be imported"),
        ({"sampler": "TPESampler"}, "cannot be imported"),
        ({"pruner": "nowhere.Pruner"}, "No module named 'nowhere'"),
        ({"sampler": "optuna.pruners.NopPruner"}, "is no subclass of Optuna's BaseSampler"),
        ({"pruner": "json.dumps"}, "is no subclass of Optuna's BasePruner"),
        ({"pruner_options": {"speed": 3}}, "are not what optuna.pruners.SuccessiveHalvingPruner"),
        ({"sampler": f"{OWN}Broken"}, "No module named 'cmaes'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_launched(
    changed: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        load(replaced(TPE, **changed), PLAN)


def test_a_sampler_that_fails_in_a_search_is_named() -> None:
    config = replaced(TPE, sampler=f"{OWN}Delayed")
    done = {run.run_id: run.milestones[-1] for run in PLAN.runs[:12]}
    with pytest.raises(SettingError, match=r"search\.sampler.*Delayed.*No module named 'cmaes'"):
        choose(done, config=config)


def test_a_class_that_is_none_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    asked = ("search=optuna", "search.sampler=json.dumps", f"sweeps_dir={tmp_path / 'sweeps'}")
    study = resolve(make_config(*SMALL, *asked))
    with pytest.raises(SettingError, match=r"=json\.dumps: is no subclass of .*BaseSampler"):
        plan_sweep(study, Console())
    assert not list(tmp_path.iterdir())
