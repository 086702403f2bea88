"""What a plan's page says beside its map: what is trained, what it takes and could find, and the
command that launches it."""

from collections.abc import Iterable

from isosweep.modes.terminal import typed
from isosweep.plan.cells import predicted
from isosweep.plan.output import PlanFacts
from isosweep.plan.scheduling import makespan
from isosweep.plan.study import Study, evaluation_of
from isosweep.store.paths import SweepPaths
from isosweep.words.plan import evaluation, findings


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def plan_facts(study: Study, paths: SweepPaths, places: int | None) -> PlanFacts:
    """Of the plan of `study`, with `places` runs at once (None: all)."""
    from isosweep.analysis.outlook import outlook_of_variants

    plan, config = study.plan, study.config
    seconds = [predicted(run.seconds) for run in plan.runs]
    seen = outlook_of_variants(plan, config)
    lines = [findings(seen)]
    if config.trainer.name != "command":
        lines.append(evaluation(evaluation_of(study), len(plan.runs)))
    return PlanFacts(
        model=_names(variant.config.model.name for variant in study.variants),
        task=_names(variant.config.task.name for variant in study.variants),
        hardware=config.hardware.name,
        devices=config.hardware.devices_per_run,
        nodes=config.hardware.nodes,
        device_hours=study.device_hours,
        hours=makespan(seconds, places or len(seconds)) / 3600 if seconds else 0.0,
        at_once=places or len(plan.runs),
        lines=tuple(lines),
        command=f"python -m isosweep mode=resume {typed('sweep_dir', paths.root)}",
    )
