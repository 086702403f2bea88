"""A planned run as far as one of its milestones."""

from dataclasses import replace

from isosweep.plan.cells import Plan, PlannedRun, predicted


def up_to(plan: Plan, run: PlannedRun, milestone: float) -> PlannedRun:
    """`run` as if `milestone`, one of its own (in the plan's budget unit), were its last.

    Steps, FLOPs and time are those of the cell there; evaluations go with the time that they take
    of the whole run. What a checkpoint takes on the disk stays as it is.
    """
    if milestone >= run.milestones[-1]:
        return run
    cells = {cell.budget: cell for cell in plan.cells if cell.run_id == run.run_id}
    there, last = cells[milestone], cells[run.milestones[-1]]
    flops, time = (
        predicted(there.planned_flops) / predicted(last.planned_flops),
        predicted(there.device_hours) / predicted(last.device_hours),
    )
    hardware_flops = run.planned_hardware_flops
    return replace(
        run,
        milestones=tuple(each for each in run.milestones if each <= milestone),
        num_steps=there.num_steps,
        planned_flops=there.planned_flops,
        planned_hardware_flops=None if hardware_flops is None else hardware_flops * flops,
        seconds=predicted(run.seconds) * time,
        records=round(run.records * time),
        evaluation_flops=run.evaluation_flops * time,
        evaluation_seconds=run.evaluation_seconds * time,
    )
