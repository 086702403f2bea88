"""How long a run may make no progress before it is called stuck."""

from isosweep.plan.study import Study

# Loading a model from a cold network disk, or a judge that is down, takes minutes.
LEAST_S = 1800.0
# Planned times are met within a factor of a few on hardware that was never measured, and answers
# grow: far beyond both.
TIMES = 20


def stuck_after(study: Study) -> dict[str, float]:
    """Seconds without progress after which each run is stuck, by run id.

    `launcher.stuck_after`, or TIMES planned generations (with their updates) or evaluations,
    whichever take longer, and LEAST_S at least.
    """
    given = study.config.launcher.stuck_after
    if given is not None:
        return {run.run_id: given for run in study.plan.runs}
    patience: dict[str, float] = {}
    for table in study.candidates:
        for run in study.plan.of_axes(table.variant.axes).runs:
            at = table.pair(run.num_generations, run.problems_per_batch)
            longest = max(float(table.phases.total[at]), float(table.evaluation_seconds[at]))
            patience[run.run_id] = max(LEAST_S, TIMES * longest)
    return patience
