"""A study: all that a composed config implies, worked out once and handed to every mode."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from isosweep.config.study import Keep
from isosweep.config.sweep import SweepConfig
from isosweep.costs.memory import RunBytes, peak_bytes
from isosweep.difficulty.selection import ChosenVariant, choose_variants
from isosweep.errors import SettingError
from isosweep.plan.calibration import calibrated
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan, predicted
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.evaluation import EvaluationPlan, evaluation_plan
from isosweep.plan.make import make_plan
from isosweep.plan.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a config comes to.

    `config` has the efficiencies that were measured on its hardware, where any were; `variants`
    are the combinations of `grid.axes`, each with its problems chosen; `candidates` has one entry
    a variant; `specs` has what each run of the plan is trained with, by run id; `notes` say why its
    budgets were chosen, where a total chose them.
    """

    config: SweepConfig
    variants: tuple[ChosenVariant, ...]
    candidates: tuple[Candidates, ...]
    plan: Plan
    specs: Mapping[str, RunSpec]
    notes: tuple[str, ...] = ()

    @property
    def device_hours(self) -> float:
        """Predicted time of all runs times the devices of each, evaluation included."""
        seconds = math.fsum(predicted(run.seconds) for run in self.plan.runs)
        return seconds * self.config.devices_taken / 3600


def resolve(config: SweepConfig) -> Study:
    """Work out what a composed config implies: measured times, variants, problems, plan.

    Raises SettingError for an axis that is no setting, problems that are not measured or too few,
    a set to analyse that is none, sampling that biases a ratio, and a grid of which nothing is
    feasible. Where nothing is to be trained, problems need not be measured.
    """
    _require_known_set(config)
    measured = config.mode != "plan"
    study = resolve_stored(calibrated(config), measured=measured)
    for variant in study.variants:
        _require_unbiased(variant.config)
    return study


def _require_unbiased(config: SweepConfig) -> None:
    """Raise SettingError where the sampler's probabilities are not of what the trainer's are.

    vLLM gives log(p / S), where the tokens that `recipe.top_p` keeps have the mass S together, and
    the trainer log p: TRL's ratio of the two is S for an unchanged policy (TRL issue 6789). A sweep
    that has begun so goes on so.
    """
    top_p, corrected = config.recipe.top_p, config.generation.importance_sampling_correction
    if top_p < 1 and corrected:
        rule = (
            "biases the importance ratio by the probability that it cuts off: vLLM's probabilities "
            "are of the tokens kept, the trainer's of all tokens"
        )
        nearest = "recipe.top_p=1, or generation.importance_sampling_correction=false"
        raise SettingError("recipe.top_p", f"{top_p:g}", rule, nearest)


def _require_known_set(config: SweepConfig) -> None:
    """Raise SettingError where the set that is to be analysed is none of the sweep's."""
    asked = config.analysis.evaluation_set
    known = (*config.task.parts, *(config.evaluation.sets or {}))
    # Other modes ask it of the records of a sweep that exists.
    if asked is None or config.mode not in ("run", "plan", "launch"):
        return
    if asked not in known:
        rule = f"names none of evaluation.sets: {', '.join(known) or 'there are none'}"
        raise SettingError("analysis.evaluation_set", asked, rule)


def resolve_stored(config: SweepConfig, *, measured: bool = True) -> Study:
    """`resolve` for the config of a stored sweep, which has its efficiencies already."""
    variants = choose_variants(config, measured=measured)
    candidates = enumerate_candidates(variants)
    plan, specs = make_plan(config, candidates)
    return Study(config=config, variants=variants, candidates=candidates, plan=plan, specs=specs)


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """Bytes that the checkpoints of the whole sweep take: one of the `largest`, all while the sweep
    runs and after its end, at most; `keep`: what is left of a run's."""

    keep: Keep
    largest_bytes: float
    peak_bytes: float
    kept_bytes: float


def checkpoint_plan(study: Study, places: int | None) -> CheckpointPlan:
    """Bytes of the sweep's checkpoints with `places` runs at once; None: all at once."""
    runs = [
        RunBytes(running=run.checkpoints_peak_bytes, kept=run.checkpoints_kept_bytes)
        for run in study.plan.runs
    ]
    return CheckpointPlan(
        keep=study.config.checkpoint.keep,
        largest_bytes=max((run.checkpoint_bytes for run in study.plan.runs), default=0.0),
        peak_bytes=peak_bytes(runs, places or len(runs)),
        kept_bytes=math.fsum(run.kept for run in runs),
    )


def evaluation_of(study: Study) -> EvaluationPlan:
    """What held-out evaluation takes of the sweep."""
    return evaluation_plan(study.plan, [variant.config for variant in study.variants])
