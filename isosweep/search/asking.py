"""A search beside its sweep's driver: what was asked for, what came of it, what is next."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.load import load_sweep
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.plan.shortened import up_to
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.search import by_optuna, frontier
from isosweep.search.candidates import Decision, Question, Step, rewards, standings
from isosweep.search.study import Asked, Outcome, SearchStudy
from isosweep.store.attempts import newest
from isosweep.store.paths import SweepPaths

Decide = Callable[[Question], Decision]
# By `search.name`; `grid` has none.
DECIDE: dict[str, Decide] = {"frontier": frontier.decide, "optuna": by_optuna.decide}
# Between two looks at the runs that are asked for.
_LOOK_S = 1.0


def next_steps(
    plan: Plan,
    datas: Sequence[SweepData],
    config: SweepConfig,
    count: int,
    *,
    decide: Decide,
    pending: Mapping[str, float],
    gave_up: Collection[str] = (),
) -> Decision:
    """Return the best `count` steps over the variants of `grid.axes`, each with one of `datas`.

    Each variant is decided about by itself, and may spend an equal share of `search.max_compute`. A
    sampler of Optuna's chooses among variants too, and is asked about all of them at once.
    `pending`: milestones asked for and not reached, by run id; `gave_up`: runs that failed.
    """
    parts = {
        variant_label(axes): (plan.of_axes(axes), data)
        for axes, data in zip(plan.axes, datas, strict=True)
    }
    if config.search.name == "optuna":
        curves = tuple(curve for data in datas for curve in data.curves)
        readings = tuple(reading for data in datas for reading in data.readings)
        parts = {"": (plan, replace(datas[0], curves=curves, readings=readings))}
    most = config.search.max_compute
    search = replaced(config.search, max_compute=most and most / len(parts))
    found = {
        label: decide(
            Question(
                plan=part,
                data=data,
                at=standings(part, data, pending, gave_up),
                config=search,
                analysis=on_budgets(config).analysis,
                count=count,
                seed=search.seed,
            )
        )
        for label, (part, data) in parts.items()
    }
    if len(found) == 1:
        return next(iter(found.values()))
    steps = sorted((s for one in found.values() for s in one.steps), key=_worth, reverse=True)
    seen = sorted((s for one in found.values() for s in one.considered), key=_worth, reverse=True)
    stops = "; ".join(f"{label}: {one.stop}" for label, one in found.items() if one.stop)
    # Each variant has a belief of its own, and none is that of all.
    return Decision(
        steps=tuple(steps[:count]),
        considered=tuple(seen),
        stop=None if steps else stops or None,
    )


def steps_to_train(
    plan: Plan,
    datas: Sequence[SweepData],
    paths: SweepPaths,
    config: SweepConfig,
    count: int,
    *,
    decide: Decide,
    pending: Mapping[str, float],
    gave_up: Collection[str] = (),
) -> Decision:
    """Return `next_steps` that ask for more than is under way or over.

    A run that is at work is asked again when it has ended. One that has ended without a reward that
    can be read would be asked for again and again: others are asked for in its place.
    """
    runs, closed = {run.run_id: run for run in plan.runs}, {*gave_up}
    while True:
        decision = next_steps(
            *(plan, datas, config, count), decide=decide, pending=pending, gave_up=closed
        )
        new = tuple(
            step
            for step in decision.steps
            if step.run_id not in pending
            and not _standing_at(runs[step.run_id], step.milestone, plan, paths, config).ended
        )
        others = {step.run_id for step in decision.steps if step not in new} - closed
        if not others:
            return replace(decision, steps=new)
        closed |= others


def _standing_at(
    run: PlannedRun, milestone: float, plan: Plan, paths: SweepPaths, config: SweepConfig
) -> Standing:
    """How a run stands that is to be trained up to a milestone."""
    attempt, short = newest(paths.run(run.run_id)), replace(run, milestones=(milestone,))
    return run_standing(short, attempt, plan.budget_unit, config.health.stop)


def _worth(step: Step) -> float:
    """Value per compute; what takes none comes first."""
    return step.value / step.compute if step.compute > 0 else math.inf


def on_budgets(config: SweepConfig) -> SweepConfig:
    """Return the settings with an analysis on the plan's own budgets, at which steps end."""
    return replaced(config, analysis=replaced(config.analysis, compute_axis=None))


class Search:
    """Which of a plan's runs are trained, and how far, as their records come in.

    `stop`: why the search asks for no more; None while it goes on.
    """

    def __init__(
        self,
        plan: Plan,
        paths: SweepPaths,
        config: SweepConfig,
        places: int,
        decide: Decide | None = None,
    ) -> None:
        """`places`: runs at once; `decide`: by default as the kind of search of the settings.
        Nothing is read or written before `open`."""
        self.stop: str | None = None
        self._plan, self._paths, self._config, self._places = plan, paths, config, places
        self._decide = decide or DECIDE[config.search.name]
        self._by_id = {run.run_id: run for run in plan.runs}
        self._open: SearchStudy | None = None
        self._asked: dict[str, Asked] = {}
        self._seen: dict[str, float] | None = None
        self._next_look = 0.0

    def open(self, left: Collection[str] = ()) -> None:
        """Go on with what was asked for before, if anything was; raises as `SearchStudy`.

        Runs that were given up are asked for again, but for those that are `left` as they are.
        """
        self._open = SearchStudy(self._plan, self._paths)
        why = "it is tried again"
        again = [
            Step(run_id=name, milestone=asked.milestone, compute=0.0, value=0.0, why=why)
            for name, asked in self._study.asked.items()
            if asked.state == "FAIL" and asked.milestone is not None and name not in left
        ]
        self._study.ask(self._by_id, again, {})
        self._asked = self._study.asked

    @property
    def _study(self) -> SearchStudy:
        assert self._open is not None
        return self._open

    @property
    def runs(self) -> list[PlannedRun]:
        """What is asked for: runs as far as that, those that have got there among them."""
        return [
            up_to(self._plan, self._by_id[asked.run_id], asked.milestone)
            for asked in self._asked.values()
            if asked.milestone is not None and asked.run_id in self._by_id
        ]

    def next(self, failed: Mapping[str, str]) -> tuple[Step, ...]:
        """What is asked for from now on; none while no run has ended since the last call.

        `failed`: runs that were given up, and why.
        """
        if self.stop is not None or time.monotonic() < self._next_look:
            return ()
        pending = self._pending(failed)
        self._next_look = time.monotonic() + _LOOK_S
        if pending == self._seen:
            return ()
        analysis = on_budgets(self._config).analysis
        datas = [load_sweep(self._paths, analysis, axes) for axes in self._plan.axes]
        self._write_down(datas, failed)
        free = self._places - len(pending)
        if free <= 0:
            self._seen = pending
            return ()
        decision = steps_to_train(
            *(self._plan, datas, self._paths, self._config, free),
            decide=self._decide,
            pending=pending,
            gave_up=failed,
        )
        new = decision.steps
        known = _known(datas) | {"chances": decision.chances, "loss": decision.loss}
        self._study.note(decision, known)
        self._study.ask(self._by_id, new, known)
        self._asked = self._study.asked
        if not new and not pending:
            self.stop = decision.stop or "no run is left that could be trained further"
        self._seen = pending | {step.run_id: step.milestone for step in new}
        return decision.steps

    def close(self) -> None:
        """Tell the trials that are open still: the search has stopped."""
        for asked in self._asked.values():
            if asked.state == "RUNNING":
                self._study.tell(asked, "PRUNED", f"the search stopped: {self.stop}")
        self._asked = self._study.asked

    def _pending(self, failed: Mapping[str, str]) -> dict[str, float]:
        """What is asked for and not reached: milestone by run id."""
        return {
            asked.run_id: asked.milestone
            for asked in self._asked.values()
            if asked.milestone is not None
            and asked.state == "RUNNING"
            and asked.run_id not in failed
            and not self._standing(asked.run_id, asked.milestone).ended
        }

    def _standing(self, run_id: str, milestone: float) -> Standing:
        run = self._by_id[run_id]
        return _standing_at(run, milestone, self._plan, self._paths, self._config)

    def _write_down(self, datas: list[SweepData], failed: Mapping[str, str]) -> None:
        """Bring the trials up to what the records say, and tell those whose runs are over."""
        curves = {curve.run.run_id: curve for data in datas for curve in data.curves}
        for run_id, curve in curves.items():
            if curve.steps.size and run_id not in self._asked:
                self._study.begin(self._by_id[run_id])
        read = rewards(reading for data in datas for reading in data.readings)
        for asked in self._study.asked.values():
            if asked.state != "RUNNING":
                continue
            curve = curves[asked.run_id]
            spent = float(curve.compute[-1]) if curve.compute.size else 0.0
            milestones, known = self._by_id[asked.run_id].milestones, read.get(asked.run_id, {})
            reached = {k: known[at] for k, at in enumerate(milestones) if at in known}
            self._study.report(asked, reached, spent)
            if (outcome := self._outcome(asked, curve, failed)) is not None:
                self._study.tell(asked, *outcome)
        self._asked = self._study.asked

    def _outcome(
        self, asked: Asked, curve: Curve, failed: Mapping[str, str]
    ) -> tuple[Outcome, str] | None:
        """How an open trial ends, and why; None while more may be asked of its run."""
        if (why := failed.get(asked.run_id)) is not None:
            return "FAIL", why
        end = curve.ending
        if end.status == "diverged" and end.diverged_by in self._config.health.stop:
            return "PRUNED", f"diverged: {end.reason or end.diverged_by}"
        if self._standing(asked.run_id, self._by_id[asked.run_id].milestones[-1]).ended:
            return "COMPLETE", "trained to its last milestone"
        if asked.milestone is None:
            return "PRUNED", "trained before the search began"
        return None


def _known(datas: Sequence[SweepData]) -> JsonObject:
    """What a decision rests on: cells that were read, and the compute of all runs together."""
    readings = [reading for data in datas for reading in data.readings]
    return {
        "cells": sum(reading.reward is not None for reading in readings),
        "compute": math.fsum(
            float(c.compute[-1]) for data in datas for c in data.curves if c.compute.size
        ),
    }
