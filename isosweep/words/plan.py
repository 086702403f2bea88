"""What a plan takes, could find and warns of: terminal, page and Python."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from isosweep import evidence
from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject
from isosweep.pricing import Pricing
from isosweep.words.numbers import (
    UNITS,
    amount,
    duration,
    in_dollars,
    in_hours,
    listed,
    of_100,
    percent,
    plural,
    predicted_time,
    price,
    setting,
    short,
    size,
    tally,
)

if TYPE_CHECKING:
    from isosweep.analysis.outlook import Lack, Outlook
    from isosweep.config.hardware import HardwareConfig
    from isosweep.modes.total import Choice
    from isosweep.plan.cautions import Caution
    from isosweep.plan.cells import Axes, Plan, Rejection
    from isosweep.plan.evaluation import EvaluationPlan
    from isosweep.plan.single import Single
    from isosweep.plan.study import CheckpointPlan
    from isosweep.plan.tally import Tally

# What each verdict takes of a plan: the noun, and what it is for.
_LACKS = {
    "n": "n, to tell a best n from an edge of the grid",
    "budgets": f"budgets with {evidence.MIN_GENERATIONS} or more n, to show growth and its end",
    "seeds": "seeds, to measure the spread between seeds",
}
_BELOW = {
    "runs_of_each_n": "runs",
    "problems": "held-out problems",
    "decades": "decades of compute",
}
_NEAREST = {"below": "doublings of n below the end of growth", "decades": "decades of compute"}


def training(runs: int, places: int | None, seconds: float, *, detaches: bool) -> str:
    """Return the first line of `mode=run`: how many runs, how long, and how to leave."""
    at_once = f", {places} at once" if places and places < runs else ""
    leaves = "leaves the jobs running" if detaches else "stops them at a checkpoint"
    takes = f"training {plural(runs, 'run')}{at_once}: about {duration(seconds)}"
    return f"{takes}. Ctrl-C {leaves}; mode=resume continues"


def analysing(runs: int, seconds: float) -> str:
    """Return the line before an analysis."""
    return f"analysing {plural(runs, 'run')} and drawing figures: about {duration(seconds)}"


def totals(
    plan: "Plan",
    hardware: "HardwareConfig",
    *,
    flops: float,
    device_hours: float,
    hours: float,
    places: int | None,
) -> list[str]:
    """Return what the whole plan takes, in lines; `hours` of wall time, `places` runs at once."""
    rejected = f" ({len(plan.rejected)} rejected)" if plan.rejected else ""
    head = f"plan: {len(plan.runs)} runs, {len(plan.cells)} cells{rejected}; "
    head += amount(flops, "flops")
    if plan.sharing < 0.995:
        saved = f"{1 - plan.sharing:.0%} of the compute"
        head += f". Sharing runs between budgets saves {saved}"
    at_once = f"{places or f'all {len(plan.runs)}'} runs at once"
    by = f"as measured by {hardware.calibrated_from}"
    devices = f"{price(device_hours, plan.pricing)}, evaluation included; "
    devices += by if hardware.calibrated_from else "efficiency assumed"
    if hardware.device == "cuda":
        devices += f"; {hardware.attention} attention"
    lines = [
        head,
        f"time: about {predicted_time(hours, plan.pricing)} with {at_once}",
        f"device time on {hardware.name}: {devices}",
    ]
    if hardware.nodes > 1:
        nodes = f"{hardware.nodes} nodes x {hardware.node_devices}"
        lines.append(f"each run takes {hardware.devices_per_run} devices: {nodes}")
    return lines


def heading(unit: BudgetUnit, axes: "Axes") -> str:
    """Return the line above the table of T."""
    settings = "".join(f", {name}={value}" for name, value in axes.items())
    return f"steps T and device time of the runs of each n, by budget in {UNITS[unit]}{settings}"


def rejected(count: int, example: "Rejection") -> str:
    """Return why candidates were left out, by one of `count` that break the same rule."""
    n, batch = example.num_generations, example.problems_per_batch
    at = f"n = {n}, B = {batch} at {short(example.budget)}"
    return f"{count} rejected by {example.rule}, e.g. {at}: {example.reason}"


def standing(counted: "Tally", left: float) -> str:
    """Return how the plan's runs stand, and the share of the compute that is left."""
    runs = tally(counted.counts, counted.collapsed)
    return f"runs: {runs}; {left:.0%} of the compute is left to train"


def rest(hours: float, pricing: Pricing) -> str:
    """Return what the rest of a plan is predicted to take."""
    time = price(hours, pricing)
    return f"the rest of the plan is predicted to take a device time of {time}"


def above(hours: float, pricing: Pricing, name: str, limit: float) -> str:
    """Return that the predicted device time is above a limit of the launcher."""
    time = price(hours, pricing)
    return f"a predicted device time of {time}, more than launcher.{name}={limit:g}"


def search(name: str, limit: float | None, whole: float, unit: BudgetUnit) -> str:
    """Return how much of the grid, `whole`, a search trains at most."""
    most = "at most this whole grid (search.max_compute=NUMBER sets a lower limit)"
    if limit is not None and limit < whole:
        share = f"{limit / whole:.0%} of this grid: search.max_compute"
        most = f"up to {amount(limit, unit)} ({share})"
    return f"search={name}: chooses one run after another, and how far each is trained, {most}"


def search_cost(measured: JsonObject) -> str:
    """Return which shares of the grid's compute searches have spent in simulated sweeps."""
    low, median, high = (f"{measured['share'][end]:.0%}" for end in ("low", "median", "high"))
    spent = f"searches spent {median} of the grid's compute ({low} to {high})"
    return f"in {measured['sweeps']} simulated sweeps, {spent}"


def lacks(missing: "Iterable[Lack]") -> str:
    """Return what any verdict takes that a plan has too few of, and settings with enough."""
    needs, mended = [], []
    for each in missing:
        needs.append(f"{each.least} {_LACKS[each.what]} (this plan: {each.here})")
        mended += [each.mended_by] if each.mended_by else []
    return "; and ".join(needs) + (f", e.g. {' '.join(mended)}" if mended else "")


def findings(outlook: "Outlook") -> str:
    """Return how many of 100 sweeps like the plan, or nearest to it, detect what n does; or what
    keeps it from any verdict."""
    if outlook.lacks:
        takes = f"A verdict on the growth of the best n takes at least {lacks(outlook.lacks)}"
        return f"can find: no verdict. {takes}"
    found, nearer = outlook.finds, outlook.nearer
    if found is None or nearer is None:
        return f"can find: not known for analysis.metric={outlook.unknown}"
    false = max(found.ends.falsely, nearer.ends.falsely, found.goes_on.falsely)
    differ = [f"more {_BELOW[name]}" for name in outlook.below]
    differ += [f"{edge:g} {_NEAREST[name]}" for name, edge in outlook.nearest.items()]
    differ += [f"analysis.{name}={setting(value)}" for name, value in outlook.judged_by.items()]
    like = f"with {listed(differ)}, the nearest to this one" if differ else "like this"
    return (
        f"can find{', at most' if outlook.below else ''}: of 100 simulated sweeps {like}, "
        f"{of_100(found.goes_on.surely)} detect that growth goes on, and "
        f"{of_100(found.ends.surely)} that it has ended ({of_100(nearer.ends.surely)} if near the "
        f"largest n); {of_100(false)} report something false (docs/simulation.md)."
    )


def chosen(
    total: float,
    choice: "Choice",
    half: "Choice | None",
    twice: "Choice | None",
    hardware: "HardwareConfig",
) -> list[str]:
    """Return which budgets and seeds a total has chosen and why, and what half and twice as much
    would find."""
    share = f"{spent(choice.spent, choice.unit)}, {percent(choice.spent / total)} of the total"
    if choice.unit == "h":
        device, several = ("GPU", 8) if hardware.device == "cuda" else ("core", 2)
        spread = f"{in_hours(total / several)} of {several} {device}s"
        share += f" ({in_hours(total)} of one {device}, such as {spread})"
    why = f"the largest budget that the total pays for; {_odds(choice)}"
    if choice.odds is not None:
        why = (
            f"{_odds(choice)} simulated sweeps decide whether growth has ended; no plan within the "
        )
        why += "total decides more often, and none as often at a larger budget"
    less = f"{_odds(half)}, {_chosen(half)}" if half else "no plan that can decide anything"
    more = "no larger plan of this grid"
    if twice and _chosen(twice) != _chosen(choice):
        more = f"{_odds(twice)}, {_chosen(twice)}"
    lines = [
        f"total: {_chosen(choice)} take {share}",
        f"why: {why}",
        f"half as much: {less}; twice as much: {more}",
    ]
    if hardware.calibrated_from and choice.unit:
        lines.append(
            "the total is held against assumed times, so that this command always means the same "
            "sweep; the times below are as measured"
        )
    return lines


def _chosen(choice: "Choice") -> str:
    budgets, seeds = ",".join(map(short, choice.budgets)), setting(choice.seeds)
    return f"budget=[{budgets}] grid.seeds={seeds}"


def _odds(choice: "Choice") -> str:
    if choice.outlook.unknown:
        return f"odds not known for analysis.metric={choice.outlook.unknown}"
    if choice.odds is None:
        return "odds not known with so few decades of compute"
    return f"{'at most ' if choice.outlook.below else ''}{of_100(choice.odds)} of 100"


def spent(value: float, unit: str) -> str:
    """Return a part of a total: device time, dollars or FLOPs."""
    if unit == "usd":
        return in_dollars(value)
    return f"{in_hours(value)} of device time" if unit else amount(value, "flops")


def evaluation(each: "EvaluationPlan", num_runs: int) -> str:
    """Return what held-out evaluation takes."""
    problems = " or ".join(f"{count:,}" for count in each.problems)
    line = (
        f"evaluation: {problems} problems x {each.samples_per_problem} samples, about "
        f"{each.records / num_runs:.0f} times a run; {percent(each.share_of_flops)} of the FLOPs, "
        f"{percent(each.share_of_time)} of the device time"
    )
    if sets := ", ".join(f"{name} ({problems:,} problems)" for name, problems in each.sets.items()):
        line += f", with the sets {sets}"
    return f"{line}; answers that are kept: {size(each.kept_bytes)}" if each.kept_bytes else line


def commanded(command: Sequence[str]) -> str:
    """Return who trains, where it is not isosweep."""
    program = " ".join(command[:3]) + (" ..." if len(command) > 3 else "")
    return (
        f"trained by a command: {program}. Times, memory and FLOPs are planned as if isosweep "
        "trained. The command itself evaluates and writes checkpoints"
    )


def checkpoints(plan: "CheckpointPlan", free: float) -> str:
    """Return what checkpoints take on the disk, which has `free` bytes left."""
    return (
        f"disk: checkpoints of {size(plan.largest_bytes)} each take up to {size(plan.peak_bytes)} "
        f"during the sweep and {size(plan.kept_bytes)} after it (checkpoint.keep={plan.keep}); "
        f"{size(free)} are free"
    )


def caution(each: "Caution", unit: BudgetUnit) -> str:
    """Return what a plan warns of, by the worst of the cells that it is true of."""
    axes = "".join(f", {name}={value}" for name, value in each.axes.items())
    where = f"n = {each.num_generations}, B = {each.problems_per_batch}, "
    where += amount(each.budget, unit) + axes
    if each.combinations > 1:
        where += f"; so in {each.combinations} combinations of grid.axes"
    cells = f"{each.cells} of {each.of_cells} cells"
    match each.kind:
        case "short_of_warmup":
            return (
                f"{cells} have fewer than {each.limit:g} updates, three warm-ups. The shortest has "
                f"T = {each.value:g} ({where}). A large part of these cells trains below the full "
                f"learning rate: set {each.mends}"
            )
        case "repeated":
            return (
                f"{cells} at the largest budget see the training problems more than "
                f"{each.limit:g} times, up to {each.value:.0f} times ({where}). In pre-training, "
                "repeats beyond about 16 add little (arXiv 2305.16264). For RL no limit is "
                "published; ScaleRL made tens of passes. To repeat less: more problems or a harder "
                f"task (task, task.num_train_problems), or {each.mends}, which drops those cells"
            )
        case "stale":
            return (
                f"{cells} have a learning rate above {each.limit:g}, the largest published one "
                f"that trained stably with rollouts as old (DAPO). The largest here is "
                f"{each.value:g} ({where}). Set {each.mends} or less, or a smaller "
                "recipe.rollout_lag (docs/off_policy.md)"
            )


def single(run: "Single") -> list[str]:
    """Return whether one configuration fits, how long it takes and what it costs, in ten lines."""
    axes = "".join(f", {name}={value}" for name, value in run.axes.items())
    n, B, T = run.num_generations, run.problems_per_batch, run.num_steps
    lines = [
        f"{run.model} on {run.task}, {run.devices} x {run.hardware}{axes}: n = {n}, B = {B} "
        f"({n * B:,} completions a batch), T = {T:,}"
    ]
    needs = f"{size(run.needed)} a device, of {size(run.usable)} (all but the reserve)"
    if run.broken:
        lines += [f"does not fit: {why}" for why in run.broken.values()]
    else:
        lines.append(f"fits: {needs}, in micro-batches of {run.micro_batch}")
    if "hardware.memory_gb" in run.broken:
        other = f"{run.fitting}, " if run.fitting else ""
        lines.append(
            f"more room: {other}hardware.sharding=fsdp over more hardware.devices_per_run, "
            "generation.tensor_parallel, recipe.lora_rank, or hardware.weights_dtype=bfloat16"
        )
    parts = (f"{name} {size(each)}" for name, each in run.memory.items() if each)
    lines.append(f"memory a device: {', '.join(parts)}")
    if not run.broken:
        step = (f"{name} {each:.3g} s" for name, each in run.step_seconds.items())
        evaluating, start = duration(run.evaluation_seconds), duration(run.startup_seconds)
        evaluations = plural(run.records, "evaluation")
        lines += [
            f"an update: {', '.join(step)}",
            f"time: {predicted_time(run.seconds / 3600, run.pricing)}, of it {evaluations} "
            f"{evaluating}, start {start}",
            f"device time: {price(run.device_hours, run.pricing)}",
        ]
    return [
        *lines,
        f"compute: {amount(run.flops, 'flops')} ({short(run.hardware_flops)} with padding), "
        f"evaluation {short(run.evaluation_flops)}",
        f"data: {run.rollouts:,.0f} rollouts, {run.epochs:.3g} passes over the problems",
        f"also: learning rate {run.learning_rate:.3g}, checkpoints of {size(run.checkpoint_bytes)}",
    ]
