"""`search=optuna`: a sampler and a pruner of Optuna's choose what is trained, for comparison.

The sampler chooses the n, B and values of `grid.axes` of the run to begin next, by its place among
those planned; the seed is the next one. The pruner says, at each milestone, whether a run goes on.
Both look at an in-memory study made anew from what has been read, so that the same files give the
same decision. What they know of a run is held-out reward; the step of a milestone is its compute in
those of the smallest.
"""

import importlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from isosweep.config.study import SearchConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.search.candidates import Question, rewards
from isosweep.search.steps import Decision, Step

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

# Steps listed for mode=status.
_LISTED = 5


def decide(asked: Question) -> Decision:
    """The next steps, or why there is none; the plan is of all variants together.

    Runs that the pruner lets go on come first. Each is judged in a study of its own, beside all
    others: seconds with a hundred runs. Raises SettingError as `load`, and for what the sampler or
    the pruner raises.
    """
    begun, left = _Begun(asked), asked.affordable
    with _refused(asked.config):
        steps = begun.going_on() + begun.fresh(asked.count)
    chosen: list[Step] = []
    for step in steps:
        if len(chosen) < asked.count and step.compute <= left:
            chosen.append(step)
            left -= step.compute
    stop = None
    if not chosen and not asked.at.pending:
        stop = "every run of the plan has been begun, and none is left that the pruner lets go on"
        if steps:
            most = f"{asked.config.max_compute:g} {asked.plan.budget_unit}"
            stop = f"search.max_compute={most} is spent"
    return Decision(steps=tuple(chosen), considered=tuple(steps[:_LISTED]), stop=stop)


def load(config: SearchConfig, plan: Plan) -> "tuple[BaseSampler, BasePruner]":
    """The sampler and the pruner that the settings name.

    Raises SettingError for what cannot be imported, is no sampler or pruner of Optuna's, or does
    not take its options.
    """
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

    longest = max(_step_of(plan, run.milestones[-1]) for run in plan.runs)
    known = {"seed": config.seed, "min_resource": 1, "max_resource": longest}
    return (
        _built("sampler", config.sampler, config.sampler_options, BaseSampler, known),
        _built("pruner", config.pruner, config.pruner_options, BasePruner, known),
    )


@contextmanager
def _refused(config: SearchConfig) -> Iterator[None]:
    """What a sampler or a pruner raises, as a SettingError."""
    try:
        yield
    except SettingError:
        raise
    except Exception as error:
        what = f"{config.sampler}, {config.pruner}"
        rule = f"cannot be used with their options: {error or type(error).__name__}"
        nearest = (
            "search.sampler=optuna.samplers.TPESampler search.sampler_options=null "
            "search.pruner=optuna.pruners.HyperbandPruner search.pruner_options=null"
        )
        raise SettingError("search.sampler, search.pruner", what, rule, nearest) from error


def _built(
    name: str, path: str | None, options: dict[str, Any] | None, kind: type, known: dict[str, Any]
) -> Any:
    from optuna.exceptions import ExperimentalWarning

    setting = f"search.{name}"
    nearest = f"{setting}=optuna.{name}s.{'TPESampler' if name == 'sampler' else 'NopPruner'}"
    require_own((setting, path))
    module, _, attribute = str(path).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, ValueError, AttributeError) as error:
        raise SettingError(setting, path, f"cannot be imported: {error}", nearest) from None
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise SettingError(setting, path, f"is no subclass of Optuna's {kind.__name__}", nearest)
    parameters = inspect.signature(found).parameters
    given = {key: value for key, value in known.items() if key in parameters} | (options or {})
    try:
        with warnings.catch_warnings():
            # Which class it is was chosen.
            warnings.simplefilter("ignore", ExperimentalWarning)
            return found(**given)
    except Exception as error:
        rule = f"are not what {path} takes: {error}"
        raise SettingError(f"{setting}_options", options, rule, nearest) from None


class _Begun:
    """The runs that were begun, as studies of Optuna's."""

    def __init__(self, asked: Question) -> None:
        plan, at = asked.plan, asked.at
        self._plan, self._at, self._config = plan, at, asked.config
        self._space = _Space(plan)
        nothing: dict[str, dict[float, float]] = {run.run_id: {} for run in plan.runs}
        self._rewards = nothing | rewards(asked.data.readings)
        self._begun = [run for run in plan.runs if at.asked[run.run_id] > 0]
        self._pruned: set[str] = set()

    def going_on(self) -> list[Step]:
        """A step to its next milestone of every run that may go on, the best first."""
        steps = []
        for run in self._begun:
            name, reached = run.run_id, self._at.reached[run.run_id]
            waits = self._at.asked[name] > reached
            if waits or name in self._at.closed or reached >= run.milestones[-1]:
                continue
            if self._prunes(run):
                self._pruned.add(name)
                continue
            to = next(milestone for milestone in run.milestones if milestone > reached)
            steps.append(
                Step(
                    run_id=name,
                    milestone=to,
                    compute=to - reached,
                    value=self._rewards[name].get(reached, 0.0),
                    why="the pruner lets it go on",
                )
            )
        return sorted(steps, key=lambda step: -step.value)

    def fresh(self, count: int) -> list[Step]:
        """Runs to begin, as the sampler asks for them, up to their first milestones."""
        study = _new_study(self._config, self._plan)
        left = [r for r in self._plan.runs if not self._at.asked[r.run_id]]
        study.add_trials([self._trial(run) for run in self._begun])
        steps = list[Step]()
        while left and len(steps) < count:
            wanted = study.ask(self._space.distributions).params
            run = min(left, key=lambda run: (self._space.distance(wanted, run), run.seed))
            left.remove(run)
            to, why = run.milestones[0], "the sampler asks for it"
            steps.append(Step(run_id=run.run_id, milestone=to, compute=to, value=0.0, why=why))
        return steps

    def _prunes(self, run: PlannedRun) -> bool:
        """Whether the pruner ends the run where it stands, the last of all to have come there."""
        study = _new_study(self._config, self._plan)
        others = [other for other in self._begun if other is not run]
        trials = [study.ask(self._space.distributions) for _ in [*others, run]]
        pruned = False
        for milestone in self._plan.budgets:
            for trial, each in zip(trials, [*others, run], strict=True):
                reward = self._rewards[each.run_id].get(milestone)
                if reward is not None:
                    trial.report(reward, _step_of(self._plan, milestone))
                    pruned = trial.should_prune()
        return pruned

    def _trial(self, run: PlannedRun) -> "FrozenTrial":
        from optuna.trial import TrialState, create_trial

        known = sorted(self._rewards[run.run_id].items())
        values = {_step_of(self._plan, to): value for to, value in known}
        reached = self._at.reached[run.run_id]
        if values and reached >= run.milestones[-1]:
            state = TrialState.COMPLETE
        elif run.run_id in self._at.closed | self._pruned:
            state = TrialState.PRUNED if values else TrialState.FAIL
        else:
            state = TrialState.RUNNING
        return create_trial(
            state=state,
            value=list(values.values())[-1] if state == TrialState.COMPLETE else None,
            params=self._space.places(run),
            distributions=self._space.distributions,
            intermediate_values=values,
        )


class _Space:
    """What a sampler chooses of: places among the n, the B and the variants of a plan."""

    def __init__(self, plan: Plan) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self._generations = sorted({run.num_generations for run in plan.runs})
        self._batches = sorted({run.problems_per_batch for run in plan.runs})
        self._variants = list(dict.fromkeys(variant_label(run.axes) for run in plan.runs))
        self.distributions: dict[str, BaseDistribution] = {
            "n": IntDistribution(0, len(self._generations) - 1),
            "B": IntDistribution(0, len(self._batches) - 1),
            "variant": CategoricalDistribution(range(len(self._variants))),
        }

    def places(self, run: PlannedRun) -> dict[str, int]:
        """Of a run."""
        return {
            "n": self._generations.index(run.num_generations),
            "B": self._batches.index(run.problems_per_batch),
            "variant": self._variants.index(variant_label(run.axes)),
        }

    def distance(self, wanted: Mapping[str, int], run: PlannedRun) -> int:
        """In places; another variant is further than any n and B."""
        places = self.places(run)
        other = wanted["variant"] != places["variant"]
        near = sum(abs(wanted[name] - places[name]) for name in ("n", "B"))
        return near + other * (len(self._generations) + len(self._batches))


def _new_study(config: SearchConfig, plan: Plan) -> "Study":
    import optuna

    sampler, pruner = load(config, plan)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        direction="maximize", sampler=sampler, pruner=pruner, study_name="search"
    )


def _step_of(plan: Plan, milestone: float) -> int:
    """Compute at a milestone in that of the smallest, 1 or more, as a resource of Optuna's."""
    return round(milestone / plan.budgets[0])
