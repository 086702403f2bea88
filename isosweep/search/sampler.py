"""The search as an Optuna sampler and pruner, for studies that are no sweep."""

import contextlib
import copy
import threading
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from isosweep.config.analysis import AnalysisConfig
from isosweep.config.search import SearchConfig
from isosweep.errors import SettingError
from isosweep.search.candidates import Question, open_runs, standings
from isosweep.search.frontier import decide
from isosweep.search.steps import Decision, Step
from isosweep.search.trials import ASKED, Grid, Key, Seen, listed, look

# Threads of `n_jobs` ask one after another, each with what the others were given. Not part of a
# sampler, which people pickle.
_LOCK = threading.RLock()


class FrontierSampler(BaseSampler):
    """Chooses the n, B and seed of each trial as `search=frontier` chooses runs.

    A trial trains a run: its objective suggests `n`, `B` and `seed` (one that has a single value
    may be left out), and reports the mean held-out reward at every budget, by the budget's place.
    With `FrontierPruner` it ends where something else is worth more. The same n, B and seed may be
    asked for again, to go further: the objective goes on from its own checkpoint, or reports
    from the beginning. Other parameters are drawn by `independent_sampler` and taken not to matter.

    >>> import math, optuna
    >>> from isosweep.search import FrontierPruner, FrontierSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> grid = [8, 16, 32, 64]
    >>> sampler = FrontierSampler(generations=grid, seeds=[0, 1, 2], budgets=[1e9, 1e10, 1e11])
    >>> def objective(trial):
    ...     n = trial.suggest_categorical("n", grid)
    ...     seed = trial.suggest_int("seed", 0, 2)
    ...     for step, decades in enumerate([0, 1, 2]):
    ...         best = 3 + decades  # n*(C): 8, 16, 32
    ...         luck = 0.01 * math.sin(7 * seed + 5 * n + step)
    ...         reward = 0.3 + 0.1 * decades - 0.05 * (math.log2(n) - best) ** 2 + luck
    ...         trial.report(reward, step)
    ...         if trial.should_prune():
    ...             raise optuna.TrialPruned
    ...     return reward
    >>> study = optuna.create_study(
    ...     direction="maximize", sampler=sampler, pruner=FrontierPruner(sampler)
    ... )
    >>> study.optimize(objective, n_trials=60)
    >>> study.best_params["n"]
    32
    >>> sampler.stop is not None
    True

    `study.optimize` ends by itself when the search does, and `stop` says why. Trials that run
    count as trained to where they were asked to go, so `n_jobs` and several trials asked for at
    once do not train a run twice; several processes that ask at the same moment may. The user
    attribute `search` of a trial has what was asked of it, the expected value and why.
    """

    def __init__(
        self,
        *,
        generations: Sequence[int],
        budgets: Sequence[float],
        seeds: Sequence[int],
        batches: Sequence[int] = (1,),
        margin: float = 0.02,
        growth_bound: float = 0.5,
        max_compute: float | None = None,
        resumable: bool = True,
        seed: int = 0,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        """`budgets`: compute of one run at steps 0, 1, ..., in one unit, which `max_compute` of all
        runs together has too. `margin` and `growth_bound` as of `AnalysisConfig`. `resumable`:
        whether a run that was pruned may be asked for again. Raises SettingError for a grid that
        nothing can be compared in.
        """
        self._grid = Grid(
            generations=tuple(generations),
            batches=tuple(batches),
            seeds=tuple(seeds),
            budgets=tuple(budgets),
        )
        self._resumable, self._seed = resumable, seed
        self._config = SearchConfig(name="frontier", kind="frontier", max_compute=max_compute)
        self._analysis = AnalysisConfig(name="study", margin=margin, growth_bound=growth_bound)
        self._others = independent_sampler or RandomSampler(seed=seed)
        self._last: tuple[str, Decision] | None = None
        # Whether a trial ends at the step asked of it: with a FrontierPruner, and not without.
        self.stops_trials = False

    @property
    def stop(self) -> str | None:
        """Why the newest decision asked for nothing; None while the search goes on."""
        return None if self._last is None else self._last[1].stop

    @property
    def last_step(self) -> int:
        """Step of the last budget."""
        return len(self._grid.budgets) - 1

    def reseed_rng(self) -> None:
        """Of the other parameters: what the search chooses depends on the trials alone."""
        self._others.reseed_rng()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Nothing: parameters are given out one by one."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing, likewise."""
        return {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Decide which run the trial trains, unless that was enqueued with it."""
        self._raise_error_if_multi_objective(study)
        if study.direction != StudyDirection.MAXIMIZE:
            raise SettingError("direction", "minimize", "rewards are maximised", "maximize")
        self._others.before_trial(study, trial)
        with _LOCK:
            if self._grid.key_of(trial) is not None:
                return
            seen = self._look(study)
            decision = self._decided(seen)
            step = decision.steps[0] if decision.steps else self._anything(seen, decision)
            if decision.stop is not None:
                _stop(study)
            self._ask(study, trial, step)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The trial's n, B or seed; any other parameter by the independent sampler.

        Raises SettingError where the objective does not offer the whole grid.
        """
        offered = dict(zip(Key._fields, self._values, strict=True))
        if param_name not in offered:
            return self._others.sample_independent(study, trial, param_name, param_distribution)
        missing = [v for v in offered[param_name] if not _offers(param_distribution, v)]
        if missing:
            raise SettingError(
                param_name,
                param_distribution,
                f"does not offer {listed(missing)}, which the sampler's grid has",
                f"trial.suggest_categorical({param_name!r}, {list(offered[param_name])})",
            )
        key = self._grid.key_of(trial)
        assert key is not None
        return getattr(key, param_name)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """End `study.optimize` where the search ends."""
        self._others.after_trial(study, trial, state, values)
        told = copy.copy(trial)
        told.state = state
        with _LOCK:
            if self._decided(self._look(study, told)).stop is not None:
                _stop(study)

    def goes_on(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial has further to go, or its run is what to train next, and is asked to.

        One that was enqueued with its run goes to the end.
        """
        step, key = trial.last_step, self._grid.key_of(trial)
        with _LOCK:
            # By the storage: the trial in hand may be older than what was asked of it last.
            stored = study._storage.get_trial(trial._trial_id).user_attrs.get(ASKED)
            if step is None or key is None or stored is None or step < stored["step"]:
                return True
            # Where it was asked to go it is not pending, and can be asked to go on.
            decision = self._decided(self._look(study, trial))
            if not decision.steps or decision.steps[0].run_id != key.run_id:
                return False
            self._ask(study, trial, decision.steps[0])
            return True

    @property
    def _values(self) -> tuple[tuple[int, ...], ...]:
        return self._grid.generations, self._grid.batches, self._grid.seeds

    def _look(self, study: Study, newest: FrozenTrial | None = None) -> Seen:
        """The study's trials; `newest` is one of them, and more than the storage has."""
        trials = study.get_trials(deepcopy=False)
        if newest is not None:
            trials = [newest if each.number == newest.number else each for each in trials]
        return look(self._grid, trials, resumable=self._resumable, stops=self.stops_trials)

    def _decided(self, seen: Seen) -> Decision:
        """The next step; the same again where nothing has changed."""
        known = repr((seen.runs, seen.pending))
        if self._last is None or self._last[0] != known:
            plan, data = self._grid.plan, seen.data
            asked = Question(
                plan=plan,
                data=data,
                at=standings(plan, data, seen.pending),
                config=self._config,
                analysis=self._analysis,
                count=1,
                seed=self._seed,
            )
            self._last = known, decide(asked)
        return self._last[1]

    def _anything(self, seen: Seen, decision: Decision) -> Step:
        """For a trial that is asked for where the search has nothing to ask."""
        plan = self._grid.plan
        left = open_runs(plan, standings(plan, seen.data, seen.pending)) or list(plan.runs)
        why = decision.stop or "all that is worth training is being trained"
        first = plan.budgets[0]
        return Step(run_id=left[0].run_id, milestone=first, compute=0.0, value=0.0, why=why)

    def _ask(self, study: Study, trial: FrozenTrial, step: Step) -> None:
        asked = self._grid.runs[step.run_id]._asdict() | {
            "step": self._grid.budgets.index(step.milestone),
            "value": step.value,
            "why": step.why,
        }
        study._storage.set_trial_user_attr(trial._trial_id, ASKED, asked)
        # What the objective asks by has been read already.
        trial.user_attrs = {**trial.user_attrs, ASKED: asked}


class FrontierPruner(BasePruner):
    """Ends a trial at the budget where its sampler would rather train something else.

    `sampler`: the study's `FrontierSampler`, which decides; see there.
    """

    def __init__(self, sampler: FrontierSampler) -> None:
        self._sampler = sampler
        sampler.stops_trials = True

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial's run is to stop at the step that it has reported last."""
        if trial.last_step is None or trial.last_step >= self._sampler.last_step:
            return False
        return not self._sampler.goes_on(study, trial)


def _offers(distribution: BaseDistribution, value: int) -> bool:
    with contextlib.suppress(ValueError):
        return distribution._contains(distribution.to_internal_repr(value))
    return False


def _stop(study: Study) -> None:
    # Whoever asks and tells reads `stop` instead.
    with contextlib.suppress(RuntimeError):
        study.stop()
