"""The search in anybody's Optuna study: what is suggested, where trials end, what is refused."""

import doctest
import math
import pickle
import subprocess
import sys

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from isosweep.errors import SettingError
from isosweep.search import FrontierPruner, FrontierSampler
from isosweep.search import sampler as sampler_module
from isosweep.search.trials import Grid, Key, look
from tests.search.sweeps import BUDGETS, GENERATIONS, recorded, run_id

SEEDS = [0, 1, 2]


def make_sampler(**changes: object) -> FrontierSampler:
    grid = {"generations": GENERATIONS, "budgets": BUDGETS, "seeds": SEEDS}
    return FrontierSampler(**{**grid, **changes})  # type: ignore[arg-type]


def make_study(sampler: FrontierSampler) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        direction="maximize", sampler=sampler, pruner=FrontierPruner(sampler)
    )


def suggested(trial: optuna.Trial) -> tuple[int, int]:
    n = trial.suggest_categorical("n", GENERATIONS)
    return n, trial.suggest_int("seed", SEEDS[0], SEEDS[-1])


def rewards(n: int, seed: int) -> list[float]:
    """What a run of the world `plateau` shows at each budget."""
    found = []
    for budget in BUDGETS:
        record = min(
            recorded("plateau")[run_id(n, seed)], key=lambda r: abs(r.compute.flops - budget)
        )
        found.append(sum(record.successes) / len(record.successes) / record.samples_per_problem)
    return found


def planted(trial: optuna.Trial) -> float:
    value = 0.0
    for step, value in enumerate(rewards(*suggested(trial))):
        trial.report(value, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value


def spent(study: optuna.Study) -> float:
    """Compute of all runs, each as far as any of its trials came."""
    last: dict[tuple[int, int], int] = {}
    for trial in study.trials:
        key = trial.params["n"], trial.params["seed"]
        last[key] = max(last.get(key, 0), trial.last_step or 0)
    return sum(BUDGETS[step] for step in last.values())


def lost(study: optuna.Study) -> float:
    """Mean reward lost at the budgets by the n that came out best, by means over all seeds."""
    at: dict[int, dict[int, list[float]]] = {}
    for trial in study.trials:
        for step, value in trial.intermediate_values.items():
            at.setdefault(step, {}).setdefault(trial.params["n"], []).append(value)
    whole = {n: np.mean([rewards(n, seed) for seed in SEEDS], axis=0).tolist() for n in GENERATIONS}
    total = 0.0
    for step in range(len(BUDGETS)):
        known = at.get(step) or at[max(at)]
        chosen = max(known, key=lambda n: sum(known[n]) / len(known[n]))
        total += max(whole[n][step] for n in GENERATIONS) - whole[chosen][step]
    return total / len(BUDGETS)


def test_the_example_of_the_docstring_holds() -> None:
    assert doctest.testmod(sampler_module) == (0, 10)


def test_the_best_n_is_found_with_less_compute_than_at_random() -> None:
    allowed = 0.25 * BUDGETS[-1] * len(GENERATIONS) * len(SEEDS)
    sampler = make_sampler(max_compute=allowed)
    study = make_study(sampler)
    study.optimize(planted, n_trials=100)
    assert sampler.stop is not None
    assert len(study.trials) < 100
    assert spent(study) <= allowed
    at_random = []
    for seed in range(4):
        other = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.RandomSampler(seed=seed),
            pruner=optuna.pruners.NopPruner(),
        )
        while not other.trials or spent(other) < allowed:
            other.optimize(planted, n_trials=1)
        at_random.append(lost(other))
    assert lost(study) <= 0.01
    assert lost(study) < sum(at_random) / len(at_random)


def test_trials_asked_for_at_once_are_different_runs_and_a_run_goes_on_in_a_later_trial() -> None:
    sampler = make_sampler()
    study = make_study(sampler)
    trials = [study.ask() for _ in range(2 * len(GENERATIONS))]
    runs = [suggested(trial) for trial in trials]
    assert len(set(runs)) == len(runs)
    to = trials[0].user_attrs["search"]["step"]
    for trial, run in zip(trials, runs, strict=True):
        for step in range(to + 1):
            trial.report(rewards(*run)[step], step)
            assert not (trial.should_prune() and step < to)
        study.tell(trial, state=TrialState.PRUNED)
    later = study.ask()
    assert later.user_attrs["search"]["step"] > to or suggested(later) not in runs
    assert later.user_attrs["search"]["value"] > 0


def test_runs_that_cannot_go_on_are_not_asked_for_again() -> None:
    sampler = make_sampler(resumable=False)
    study = make_study(sampler)
    broken, diverged, pruned = (study.ask() for _ in range(3))
    runs = [suggested(trial) for trial in (broken, diverged, pruned)]
    study.tell(broken, state=TrialState.FAIL)
    diverged.report(math.nan, 0)
    study.tell(diverged, state=TrialState.PRUNED)
    pruned.report(0.5, 0)
    study.tell(pruned, state=TrialState.PRUNED)
    later = [suggested(study.ask()) for _ in range(7)]
    assert not set(later) & set(runs)


def test_a_run_that_somebody_ends_at_the_same_place_again_is_left() -> None:
    study = make_study(make_sampler())
    for _ in range(2):
        study.enqueue_trial({"n": GENERATIONS[0], "seed": SEEDS[0]})
        trial = study.ask()
        trial.report(0.5, 0)
        study.tell(trial, state=TrialState.PRUNED)
    assert suggested(study.ask()) == (GENERATIONS[0], SEEDS[1])


@pytest.mark.parametrize(("pruned", "step"), [(True, 2), (False, len(BUDGETS) - 1)])
def test_an_open_trial_counts_as_trained_to_where_it_will_end(pruned: bool, step: int) -> None:
    sampler = make_sampler()
    pruner = FrontierPruner(sampler) if pruned else optuna.pruners.NopPruner()
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    n, seed = suggested(study.ask())
    grid = Grid(generations=GENERATIONS, batches=(1,), seeds=tuple(SEEDS), budgets=BUDGETS)
    seen = look(grid, study.trials, resumable=True, stops=sampler.stops_trials)
    assert seen.pending == {Key(n, 1, seed).run_id: BUDGETS[step]}


def test_other_parameters_are_drawn_and_enqueued_trials_are_trained_as_they_are() -> None:
    study = make_study(make_sampler())
    rates = set()
    for _ in range(3):
        trial = study.ask()
        suggested(trial)
        rates.add(trial.suggest_float("lr", 1e-6, 1e-4, log=True))
    assert len(rates) == 3
    study.enqueue_trial({"n": GENERATIONS[-1], "seed": 2})
    enqueued = study.ask()
    assert suggested(enqueued) == (GENERATIONS[-1], 2)
    enqueued.report(0.0, 0)
    assert not enqueued.should_prune()


def test_parameters_outside_the_grid_are_refused_with_what_would_do() -> None:
    study = make_study(make_sampler())
    with pytest.raises(SettingError, match=r"n=.*does not offer 32, 64, 128.*suggest_categorical"):
        study.ask().suggest_int("n", 8, 16, step=8)
    study.enqueue_trial({"n": 7, "seed": 0})
    with pytest.raises(SettingError, match=r"^n=7: trial 1 has it, .* works: one of 8, 16, "):
        study.ask()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generations": (8,)}, "generations=.*compares 2 or more"),
        ({"seeds": (0,)}, "seeds=.*compares 2 or more"),
        ({"budgets": (3e9, 1e9)}, "budgets=.*ascending"),
        ({"generations": (2.5, 4)}, "generations=.*whole numbers"),
        ({"generations": ("a", "b")}, "generations=.*whole numbers"),
    ],
)
def test_a_grid_that_nothing_can_be_compared_in_is_refused(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        make_sampler(**changes)


def test_a_study_that_minimises_is_refused() -> None:
    study = optuna.create_study(direction="minimize", sampler=make_sampler())
    with pytest.raises(SettingError, match="direction=minimize"):
        study.ask()


def test_a_pickled_sampler_asks_for_the_same() -> None:
    sampler = make_sampler()
    again = pickle.loads(pickle.dumps(sampler))
    runs = [suggested(make_study(each).ask()) for each in (sampler, again)]
    assert runs[0] == runs[1]


def test_the_search_is_imported_without_optuna() -> None:
    code = "import sys, isosweep.search; sys.exit('optuna' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_step_that_is_no_budgets_place_is_refused() -> None:
    sampler = FrontierSampler(generations=[2, 4], seeds=[0, 1], budgets=[1, 2, 4])
    study = optuna.create_study(direction="maximize", sampler=sampler)
    trial = study.ask()
    trial.report(0.5, 7)
    with pytest.raises(SettingError, match="7: is no budget's place: 3 budgets are steps 0 to 2"):
        study.tell(trial, 0.5)


def test_a_study_without_a_reward_says_so_when_it_ends() -> None:
    sampler = FrontierSampler(generations=[2, 4], seeds=[0, 1], budgets=[1, 2])

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_categorical("n", [2, 4])
        trial.suggest_categorical("seed", [0, 1])
        return math.nan

    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=20)
    assert "no reward is known of any" in (sampler.stop or "")
