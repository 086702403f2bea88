"""A sweep's view in MLflow or W&B: kept up to date while it is followed, and made afterwards."""

import csv
import shlex
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from isosweep.config.base import replaced
from isosweep.config.study import TrackingConfig
from isosweep.config.sweep import SweepConfig
from isosweep.modes.display_search import as_searched, stopped_runs, stored_search
from isosweep.modes.sweeps import StoredSweep
from isosweep.modes.terminal import say, typed
from isosweep.plan.cells import Plan, variant_label
from isosweep.plan.tally import Tally
from isosweep.store.paths import SweepPaths
from isosweep.words import tracking as words
from isosweep.words.numbers import tally

if TYPE_CHECKING:
    from isosweep.analysis.answer import Answer
    from isosweep.tracking.points import RunStatus
    from isosweep.tracking.tracker import Backend, BackgroundTracker, Overview

# How long the end of a sweep waits for the store, and for each run besides: a first sync takes
# 0.1 s a run (benchmarks/tracking.py), and with a server in between 0.3 s.
_JOIN_S, _JOIN_RUN_S = 60.0, 1.0
# Between two updates of the view.
_INTERVAL_S = 10.0


def asked_tracking(asked: SweepConfig, stored: SweepConfig) -> TrackingConfig:
    """The stored sweep's, unless this command says which, or where the store is now."""
    own, other = stored.tracking, asked.tracking
    elsewhere = other.name == "none" or other.uri is not None
    if elsewhere or ("tracking" in asked.given and other.name != own.name):
        return other
    return replaced(own, offline=other.offline) if "tracking.offline" in asked.given else own


def track(sweep: StoredSweep, console: Console) -> "BackgroundTracker | None":
    """A thread that keeps the store of `config.tracking` equal to the sweep's files; None: there is
    none."""
    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    if config.tracking.name == "none":
        return None
    from isosweep.tracking.tracker import BackgroundTracker, Tracker

    parameters: dict[str, str | float | int] = {"budget_unit": config.budget_unit}
    if sweep.kind == "planned":
        parameters |= {
            "model": config.model.name,
            "task": config.task.name,
            "recipe": config.recipe.name,
            "learning_rate": config.recipe.learning_rate,
            "hardware": config.hardware.name,
            "train_problems": config.task.num_train_problems,
            "held_out_problems": config.task.num_eval_problems,
            "samples_per_problem": config.evaluation.samples_per_problem,
        }
    return BackgroundTracker(
        Tracker(
            _backend(config.tracking, plan, paths),
            paths,
            plan,
            parameters,
            config.tracking.max_points,
            config.health,
            overview=lambda: sweep_overview(sweep),
            devices=config.devices_taken,
        ),
        _INTERVAL_S,
        lambda line: say(console, line, style="yellow"),
        remedy=f"python -m isosweep mode=analyse {typed('sweep', paths.root)}",
        join_s=_JOIN_S + _JOIN_RUN_S * len(plan.runs),
    )


def _backend(config: TrackingConfig, plan: Plan, paths: SweepPaths) -> "Backend":
    if config.name == "wandb":
        from isosweep.tracking.wandb import WandbBackend

        return WandbBackend(config, paths, plan)
    from isosweep.tracking.mlflow import MlflowBackend

    return MlflowBackend(config, paths, plan)


def catch_up(sweep: StoredSweep, console: Console) -> None:
    """Bring the store up to what the files say, statuses, figures and report included."""
    close_tracker(track(sweep, console), sweep, None, console)


def close_tracker(
    tracker: "BackgroundTracker | None",
    sweep: StoredSweep,
    status: "RunStatus | None",
    console: Console,
) -> None:
    """Sync a last time, with what was concluded, and say where it is seen; `status`: as
    `Tracker.finish`."""
    if tracker is None:
        return
    root = sweep.paths.root
    tracker.close(status)
    seen = f"python -m isosweep mode=dashboard {typed('sweep', root)}"
    if sweep.config.tracking.name == "wandb":
        seen = f"after wandb sync {shlex.quote(str(root / 'wandb'))}/*run-*"
    say(console, f"dashboard: {tracker.link() or seen}")


def sweep_overview(sweep: StoredSweep) -> "Overview":
    """Verdicts, rewards at the budgets, and files; of the search alone where the analysis was asked
    for another metric, set or method than the sweep's own."""
    from isosweep.analysis.answer import read_answer
    from isosweep.tracking.tracker import Overview

    config, plan, paths = sweep.config, sweep.plan, sweep.paths
    search = stored_search(sweep)
    stopped = stopped_runs(search)
    tags, metrics = defaultdict[str | None, dict[str, str]](dict), dict[str, dict[str, float]]()
    if search is not None and search["decision"] is not None:
        tags[None]["search/stopped"] = search["decision"]["stop"] or ""
    if config.analysis.view({}):
        return Overview(tags=tags, stopped=stopped, files=_drawn(paths))
    answers: list[Answer] = []
    notes, found = list[str](), list[Path]()
    for axes in plan.axes:
        view, own = replace(paths, view=config.analysis.view(axes)), plan.of_axes(axes)
        if (answer := read_answer(view.answer)) is None:
            continue
        answers.append(answer)
        notes += words.answer(answer, variant_label(axes))
        found.append(view.answer)
        best = _best_runs(answer, own)
        for run in own.runs:
            on_frontier = run.run_id in best or tags[run.run_id].get("on_frontier") == "true"
            tags[run.run_id]["on_frontier"] = str(on_frontier).lower()
        for run_id, rewards in _rewards(view, plan).items():
            metrics.setdefault(run_id, {}).update(rewards)
    tags[None] |= _verdict_tags(answers)
    runs = {name: as_searched(each, search) for name, each in sweep.standing().runs.items()}
    counted = Tally.of(runs, sweep.collapsed())
    tags[None]["runs"] = tally(counted.counts, counted.collapsed)
    tables = (paths.plan_page, paths.config, paths.frontier, paths.table("choices"), *found[:1])
    tables = (*tables, paths.completions)
    return Overview(
        note="\n\n".join([*notes, f"Report: `{paths.report}`"]),
        tags=tags,
        metrics=metrics,
        unix_time=max((path.stat().st_mtime for path in found), default=0.0),
        files=(*_drawn(paths), *((path, "") for path in tables if path.exists())),
        collapsed=sweep.collapsed(),
        stopped=stopped,
    )


def _drawn(paths: SweepPaths) -> tuple[tuple[Path, str], ...]:
    """The report, and figures, each with its folder: `figures`, and in it the variant of
    `grid.axes` if the sweep has several."""
    drawn = [(paths.report, "")] if paths.report.exists() else []
    for figure in sorted(paths.analysis.rglob("*.png")):
        variant = figure.parent.parent.relative_to(paths.analysis)
        drawn.append((figure, str(Path("figures", variant))))
    return tuple(drawn)


def _best_runs(answer: "Answer", plan: Plan) -> set[str]:
    """The runs of the best (n, B) at one of the plan's budgets."""
    best = {
        (at.best.num_generations, at.best.problems_per_batch)
        for at in answer.generations
        if at.budget in plan.budgets
    }
    return {r.run_id for r in plan.runs if (r.num_generations, r.problems_per_batch) in best}


def _verdict_tags(answers: "list[Answer]") -> dict[str, str]:
    """Of several variants their words, in the order of `grid.axes`."""
    uses = [answer.use for answer in answers]
    optima = [answer.optimum for answer in answers]
    columns: dict[str, list[str]] = {
        "verdict": [answer.verdict for answer in answers],
        "best_n": [str(use.num_generations) if use else "" for use in uses],
        "n_star": [str(at) if at else "" for at in optima],
        "n_d": [str(at.n_d) if at and at.n_d else "" for at in optima],
        "best_B": [str(use.problems_per_batch) if use else "" for use in uses],
    }
    return {key: ", ".join(values) for key, values in columns.items() if any(values)}


def _rewards(view: SweepPaths, plan: Plan) -> dict[str, dict[str, float]]:
    """Each run's reward at the plan's budgets, by run id and the name of the metric."""
    from isosweep.tracking.points import budget_metric, rounded

    names = {rounded(budget): budget_metric(budget, plan.budgets) for budget in plan.budgets}
    rewards = defaultdict[str, dict[str, float]](dict)
    with view.frontier.open(newline="") as file:
        for row in csv.DictReader(file):
            name = names.get(rounded(float(row["budget"])))
            if row["reward"] and name is not None:
                rewards[row["run_id"]][name] = rounded(float(row["reward"]))
    return rewards
