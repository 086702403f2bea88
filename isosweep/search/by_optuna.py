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
from typing import TYPE_CHECKING, Any

from isosweep.config.study import SearchConfig
from isosweep.config.trust import require_own
from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.search.candidates import LISTED, Decision, Question, Step, rewards

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

# In places of n and B: another variant is further than any of these.
_FAR = 10_000


def decide(asked: Question) -> Decision:
    """The next steps, or why there is none; the plan is of all variants together.

    Runs that the pruner lets go on come first. Each is judged in a study of its own, beside all
    others: seconds with a hundred runs. Raises SettingError as `load`, and for what the sampler or
    the pruner raises.
    """
    config, replay = asked.config, _Replay(asked)
    try:
        steps = replay.going_on() + replay.fresh(asked.count)
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
    chosen = asked.pay_for(steps)
    stop = None
    if not chosen and not asked.at.pending:
        stop = "every run of the plan has been begun, and none is left that the pruner lets go on"
        if steps:
            stop = f"search.max_compute={config.max_compute:g} {asked.plan.budget_unit} is spent"
    return Decision(steps=tuple(chosen), considered=tuple(steps[:LISTED]), stop=stop)


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


class _Replay:
    """The runs that were begun, as trials of an Optuna study.

    A trial's parameters are places among the plan's n, B and variants, so that steps are equal.
    """

    def __init__(self, asked: Question) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self._plan, self._at, self._config = asked.plan, asked.at, asked.config
        runs = asked.plan.runs
        generations = sorted({run.num_generations for run in runs})
        batches = sorted({run.problems_per_batch for run in runs})
        variants = list(dict.fromkeys(variant_label(run.axes) for run in runs))
        self._places = {
            run.run_id: {
                "n": generations.index(run.num_generations),
                "B": batches.index(run.problems_per_batch),
                "variant": variants.index(variant_label(run.axes)),
            }
            for run in runs
        }
        self._distributions = {
            "n": IntDistribution(0, len(generations) - 1),
            "B": IntDistribution(0, len(batches) - 1),
            "variant": CategoricalDistribution(range(len(variants))),
        }
        nothing: dict[str, dict[float, float]] = {run.run_id: {} for run in runs}
        self._rewards = nothing | rewards(asked.data.readings)
        self._begun = [run for run in runs if asked.at.asked[run.run_id] > 0]
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
            reward, why = self._rewards[name].get(reached, 0.0), "the pruner lets it go on"
            step = Step(run_id=name, milestone=to, compute=to - reached, value=reward, why=why)
            steps.append(step)
        return sorted(steps, key=lambda step: -step.value)

    def fresh(self, count: int) -> list[Step]:
        """Runs to begin, as the sampler asks for them, up to their first milestones."""
        study = self._new_study()
        for run in self._begun:
            self._add(study, run)
        left = [run for run in self._plan.runs if not self._at.asked[run.run_id]]
        steps = list[Step]()
        while left and len(steps) < count:
            wanted = study.ask(self._distributions).params

            def distance(run: PlannedRun, wanted: dict[str, int] = wanted) -> tuple[int, int]:
                own = self._places[run.run_id]
                near = sum(abs(wanted[name] - own[name]) for name in ("n", "B"))
                return near + _FAR * (wanted["variant"] != own["variant"]), run.seed

            run = min(left, key=distance)
            left.remove(run)
            to, why = run.milestones[0], "the sampler asks for it"
            steps.append(Step(run_id=run.run_id, milestone=to, compute=to, value=0.0, why=why))
        return steps

    def _prunes(self, run: PlannedRun) -> bool:
        """Whether the pruner ends the run where it stands, the last of all to have come there."""
        study = self._new_study()
        runs = [*(other for other in self._begun if other is not run), run]
        trials = [study.ask(self._distributions) for _ in runs]
        pruned = False
        for milestone in self._plan.budgets:
            for trial, each in zip(trials, runs, strict=True):
                reward = self._rewards[each.run_id].get(milestone)
                if reward is not None:
                    trial.report(reward, _step_of(self._plan, milestone))
                    pruned = trial.should_prune()
        return pruned

    def _add(self, study: "Study", run: PlannedRun) -> None:
        from optuna.trial import TrialState, create_trial

        known = sorted(self._rewards[run.run_id].items())
        values = {_step_of(self._plan, to): value for to, value in known}
        state, value = TrialState.RUNNING, None
        if values and self._at.reached[run.run_id] >= run.milestones[-1]:
            state, value = TrialState.COMPLETE, known[-1][1]
        elif run.run_id in self._at.closed | self._pruned:
            state = TrialState.PRUNED if values else TrialState.FAIL
        trial = create_trial(
            state=state,
            value=value,
            params=self._places[run.run_id],
            distributions=self._distributions,
            intermediate_values=values,
        )
        study.add_trial(trial)

    def _new_study(self) -> "Study":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler, pruner = load(self._config, self._plan)
        return optuna.create_study(
            study_name="search", direction="maximize", sampler=sampler, pruner=pruner
        )


def _step_of(plan: Plan, milestone: float) -> int:
    """Compute at a milestone in that of the smallest, 1 or more, as a resource of Optuna's."""
    return round(milestone / plan.budgets[0])
