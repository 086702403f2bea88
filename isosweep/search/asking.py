"""A search beside its sweep's driver: what has been asked for, what came of it, what is next."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from isosweep.analysis.curves import Curve, SweepData
from isosweep.analysis.load import load_view
from isosweep.config.analysis import AnalysisConfig
from isosweep.config.base import replaced
from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject
from isosweep.plan.cells import Plan, PlannedRun, variant_label
from isosweep.plan.shortened import up_to
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.search import by_optuna, frontier
from isosweep.search.candidates import Question, rewards, standings
from isosweep.search.steps import Decision, Step
from isosweep.search.study import Asked, SearchStudy, Told
from isosweep.store.attempts import Attempt, newest
from isosweep.store.paths import SweepPaths

# By `search.name`; `grid` is none.
DECIDE = {"frontier": frontier.decide, "optuna": by_optuna.decide}
# Between two looks at the runs that are asked for.
_LOOK_S = 1.0


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
        decide: Callable[[Question], Decision] | None = None,
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
        self._open = SearchStudy(self._plan, self._paths, self._config.search)
        self._asked = self._study.asked
        self._take_up(left)

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
        datas = [load_view(self._paths, self._analysis, axes) for axes in self._plan.axes]
        self._write_down(datas, failed)
        self._seen = pending
        if len(pending) >= self._places:
            return ()
        decision = self._decided(datas, pending, failed)
        self._take(decision, datas)
        if not decision.steps and not pending:
            self.stop = decision.stop or "no run is left that could be trained further"
        self._seen = pending | {step.run_id: step.milestone for step in decision.steps}
        return decision.steps

    def close(self) -> None:
        """Tell the trials that are open still: the search has stopped."""
        for asked in self._asked.values():
            if asked.told is None:
                self._study.tell(asked, "PRUNED", f"the search stopped: {self.stop}")
        self._asked = self._study.asked

    def _take_up(self, left: Collection[str]) -> None:
        """Ask for what somebody trains already, as far as that, and for what was given up."""
        steps = []
        for run in self._plan.runs:
            known, attempt = self._asked.get(run.run_id), newest(self._paths.run(run.run_id))
            if known is not None and known.told is None:
                continue
            milestone, why = _under_way(run, attempt, self._plan), "it was being trained already"
            gave_up = known is not None and known.told == "FAIL" and run.run_id not in left
            if milestone is None and known is not None and gave_up:
                milestone, why = known.milestone, "it is tried again"
            if milestone is not None:
                steps.append(_free(run, milestone, why))
        if steps:
            self._study.ask(self._by_id, steps, {})
            self._asked = self._study.asked

    def _pending(self, failed: Mapping[str, str]) -> dict[str, float]:
        """What is asked for and not reached: milestone by run id."""
        return {
            asked.run_id: asked.milestone
            for asked in self._asked.values()
            if asked.milestone is not None
            and asked.told is None
            and asked.run_id not in failed
            and not self._standing(asked.run_id, asked.milestone).ended
        }

    def _standing(self, run_id: str, milestone: float) -> Standing:
        run = up_to(self._plan, self._by_id[run_id], milestone)
        attempt = newest(self._paths.run(run_id))
        return run_standing(run, attempt, self._plan.budget_unit, self._config.health.stop)

    @property
    def _analysis(self) -> AnalysisConfig:
        """As the sweep's, on the plan's own budgets: steps end at them."""
        return replaced(self._config.analysis, compute_axis=None)

    # -- what is decided ------------------------------------------------------------------------

    def _decided(
        self,
        datas: list[SweepData],
        pending: Mapping[str, float],
        failed: Mapping[str, str],
    ) -> Decision:
        """The best steps over all parts; each may spend its share of `search.max_compute`."""
        config, free = self._config.search, self._places - len(pending)
        parts = self._parts(datas)
        steps, considered, stops = list[Step](), list[Step](), list[str]()
        believed: list[Decision] = []
        share = None if config.max_compute is None else config.max_compute / len(parts)
        for label, (plan, data) in parts.items():
            ids = {run.run_id for run in plan.runs}
            mine = {run_id: milestone for run_id, milestone in pending.items() if run_id in ids}
            barred = {run_id for run_id in ids if run_id in failed} | self._diverged(data)
            asked = Question(
                plan=plan,
                data=data,
                at=standings(plan, data, mine),
                config=replaced(config, max_compute=share),
                analysis=self._analysis,
                # Those that are barred may be among what is asked for.
                count=free + len(barred),
                seed=config.seed,
            )
            found = self._decide(asked)
            steps += [s for s in found.steps if s.run_id not in barred and self._is_new(s, mine)]
            considered += found.considered
            believed.append(found)
            if found.stop is not None:
                stops.append(f"{label}: {found.stop}" if label else found.stop)
        if len(parts) > 1:
            steps.sort(key=_worth, reverse=True)
            considered.sort(key=_worth, reverse=True)
        stop = None if steps else "; ".join(stops) or None
        # Of several variants each has a belief of its own, and none is that of all.
        alone = believed[0] if len(believed) == 1 else None
        return Decision(
            steps=tuple(steps[:free]),
            considered=tuple(considered),
            stop=stop,
            chances=alone.chances if alone else None,
            loss=alone.loss if alone else None,
        )

    def _parts(self, datas: list[SweepData]) -> dict[str, tuple[Plan, SweepData]]:
        """What is decided about, each by itself: the variants of `grid.axes`, by label; for a
        sampler, which chooses among these too, all of them together."""
        if self._config.search.name == "optuna" and len(datas) > 1:
            curves = tuple(curve for data in datas for curve in data.curves)
            readings = tuple(reading for data in datas for reading in data.readings)
            return {"": (self._plan, replace(datas[0], curves=curves, readings=readings))}
        return {
            variant_label(axes): (self._plan.of_axes(axes), data)
            for axes, data in zip(self._plan.axes, datas, strict=True)
        }

    def _is_new(self, step: Step, pending: Mapping[str, float]) -> bool:
        """Whether it asks for more: a run that is at work is asked again when it has ended."""
        return step.run_id not in pending and not self._standing(step.run_id, step.milestone).ended

    def _diverged(self, data: SweepData) -> set[str]:
        return {curve.run.run_id for curve in data.curves if self._has_diverged(curve)}

    def _has_diverged(self, curve: Curve) -> bool:
        return curve.status == "diverged" and curve.diverged_by in self._config.health.stop

    def _take(self, decision: Decision, datas: list[SweepData]) -> None:
        known = _known(datas) | {"chances": decision.chances, "loss": decision.loss}
        self._study.note(decision, known)
        if decision.steps:
            self._study.ask(self._by_id, decision.steps, known)
        self._asked = self._study.asked

    # -- what came of it ------------------------------------------------------------------------

    def _write_down(self, datas: list[SweepData], failed: Mapping[str, str]) -> None:
        """Bring the trials up to what the records say, and tell those whose runs are over."""
        curves = {curve.run.run_id: curve for data in datas for curve in data.curves}
        for run_id, curve in curves.items():
            if curve.steps.size and run_id not in self._asked:
                self._study.ask_known(self._by_id[run_id])
        self._asked = self._study.asked
        read = rewards(reading for data in datas for reading in data.readings)
        for asked in self._asked.values():
            if asked.told is None:
                curve = curves[asked.run_id]
                spent = float(curve.compute[-1]) if curve.compute.size else 0.0
                milestones, known = self._by_id[asked.run_id].milestones, read.get(asked.run_id, {})
                reached = {k: known[at] for k, at in enumerate(milestones) if at in known}
                self._study.saw(asked, reached, spent)
                if (told := self._told(asked, curve, failed)) is not None:
                    self._study.tell(asked, *told)
        self._asked = self._study.asked

    def _told(
        self, asked: Asked, curve: Curve, failed: Mapping[str, str]
    ) -> tuple[Told, str] | None:
        """How an open trial is told, and why; None while more may be asked of its run."""
        if (why := failed.get(asked.run_id)) is not None:
            return "FAIL", why
        if self._has_diverged(curve):
            return "PRUNED", f"diverged: {curve.status_reason or curve.diverged_by}"
        last = self._by_id[asked.run_id].milestones[-1]
        if self._standing(asked.run_id, last).ended:
            return "COMPLETE", "trained to its last milestone"
        if asked.milestone is None:
            return "PRUNED", "trained before the search began"
        return None


def _free(run: PlannedRun, milestone: float, why: str) -> Step:
    """A step that was decided before, or elsewhere."""
    return Step(run_id=run.run_id, milestone=milestone, compute=0.0, value=0.0, why=why)


def _worth(step: Step) -> float:
    """Value per compute; what takes none comes first."""
    return step.value / step.compute if step.compute > 0 else math.inf


def _under_way(run: PlannedRun, attempt: Attempt | None, plan: Plan) -> float | None:
    """The milestone that a live attempt trains the run to; None without one."""
    if attempt is None or not attempt.live or attempt.gone or not attempt.job:
        return None
    job = attempt.job
    asked = max(job["milestones"]) if job.get("unit") == plan.budget_unit else 0.0
    return max((each for each in run.milestones if each <= asked), default=run.milestones[0])


def _known(datas: list[SweepData]) -> JsonObject:
    """What a decision rests on: cells that were read, and the compute of all runs together."""
    readings = [reading for data in datas for reading in data.readings]
    return {
        "cells": sum(reading.reward is not None for reading in readings),
        "compute": math.fsum(
            float(c.compute[-1]) for data in datas for c in data.curves if c.compute.size
        ),
    }
