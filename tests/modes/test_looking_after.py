"""What commands about stored sweeps say and do, by the state that the sweep is in.

A state makes the files of the sweep `s`, and answers of its scheduler where one is asked.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from isosweep.launchers.launcher import JobState
from isosweep.modes import cancel, status
from isosweep.modes.sweeps import StoredSweep
from isosweep.plan.tally import Standing
from isosweep.store.attempts import Status
from isosweep.store.drivers import drive
from isosweep.store.paths import RunPaths
from tests.commands import in_process
from tests.modes.looked_after import Scheduled, ended, logged, reported, submitted, sweep_in

Answers = dict[str, JobState]
PENDING = JobState(status="pending", reason="Priority")
RUNNING = JobState(status="running")


def run_of(sweep: StoredSweep, place: int) -> RunPaths:
    return sweep.paths.run(sweep.plan.runs[place].run_id)


def planned(sweep: StoredSweep) -> None:
    """None has begun."""


def followed(sweep: StoredSweep) -> None:
    drive(sweep.paths.drivers)


def analysed(sweep: StoredSweep) -> None:
    """The first run is done; a newer sweep is followed, and a third was never launched."""
    ended(sweep)
    sweep.paths.analysis.mkdir()
    sweep.paths.answer.write_text('{"verdict": "flat"}')
    os.utime(sweep.paths.plan, (1e9, 1e9))
    followed(sweep_in(sweep.paths.runs.parent, "sweep=newer", "grid.seeds=[7]"))
    sweep_in(sweep.paths.runs.parent, "sweep=mere", "grid.seeds=[8]")


def broken(sweep: StoredSweep) -> None:
    sweep.paths.config.write_text("{garbage")
    no_sweeps_run(sweep)


def of_another_version(sweep: StoredSweep) -> None:
    """Its settings make other runs now."""
    document = json.loads(sweep.paths.config.read_text())
    document["grid"]["seeds"] = [5]
    sweep.paths.config.write_text(json.dumps(document))


def deleted(sweep: StoredSweep) -> None:
    shutil.rmtree(sweep.paths.root)


def failed_and_running(sweep: StoredSweep) -> Answers:
    failed, running = run_of(sweep, 0), run_of(sweep, 1)
    submitted(failed).end(Status.FAILED, "RuntimeError: planted")
    logged(failed, "1.out", "nothing of interest")
    logged(failed, "1.err", *(f"line {n}" for n in range(500)), "module: command not found")
    attempt = submitted(running)
    attempt.request_cancel("somebody")
    reported(attempt, Status.RUNNING, 0.5, sweep.plan.runs[1])
    return {running.run_id: RUNNING}


def many(sweep: StoredSweep) -> Answers:
    """Another sweep of 60 runs, of which one waits."""
    shutil.rmtree(sweep.paths.root)
    seeds = ",".join(map(str, range(30)))
    wide = sweep_in(sweep.paths.runs.parent, "sweep=s", f"grid.seeds=[{seeds}]")
    submitted(run_of(wide, 7))
    return {run_of(wide, 7).run_id: PENDING}


def at_work(sweep: StoredSweep) -> Answers:
    submitted(run_of(sweep, 0))
    submitted(run_of(sweep, 1))
    return {run_of(sweep, 0).run_id: PENDING, run_of(sweep, 1).run_id: RUNNING}


def no_sweeps_run(sweep: StoredSweep) -> None:
    """A run that no plan names, beside one that is needed."""
    for run in (RunPaths(sweep.paths.runs / "of-no-sweep"), run_of(sweep, 0)):
        run.root.mkdir(parents=True)
        run.spec.write_text("{}")
        submitted(run).end(Status.INTERRUPTED, "")


def taken_up(sweep: StoredSweep) -> None:
    no_sweeps_run(sweep)
    submitted(RunPaths(sweep.paths.runs / "of-no-sweep"))


@dataclass(frozen=True)
class Case:
    """`says`: patterns of the output, one after the other; `leaves`: standings of the first two
    runs, or which of these paths are there."""

    state: Callable[[StoredSweep], Answers | None]
    command: str
    status: int
    says: tuple[str, ...]
    leaves: tuple[Standing, Standing] | dict[str, bool] | None = None


NOT_BEGUN, CANCELLED = Standing.NOT_BEGUN, Standing.CANCELLED
MOVED = {"sweeps/runs/of-no-sweep": False, "sweeps/trash/*/runs/of-no-sweep/spec.json": True}
STAYS = {"sweeps/runs/of-no-sweep/spec.json": True, "sweeps/trash/*/*/*": False}
CLEAN = "mode=clean confirm=true"
CASES = [
    Case(deleted, "mode=status", 0, ("sweeps holds no sweep",)),
    Case(
        *(analysed, "mode=status", 0),
        (
            r"newer  1e11 FLOPs: 2 runs: 2 not begun; followed by .*\n",
            r"s  1e11 FLOPs: (\d) runs: \d not begun, 1 done; verdict: flat\n",
            r"only planned, never launched: mere\n",
        ),
    ),
    Case(broken, "mode=status", 1, ("s: cannot be read: .*config.json: not JSON",)),
    Case(
        *(failed_and_running, "mode=status sweep=s", 1),
        (
            "1 running, 1 failed",
            "job 1; to be cancelled",
            "  line 499\n  module: command not found\n$",
        ),
    ),
    Case(
        *(failed_and_running, "mode=status sweep=s runs=failed lines=3", 1),
        (
            r"\nn=\d B=4 seed=0 .*RuntimeError: planted",
            "1.err <==\nline 498\nline 499\nmodule: command not found\n",
            "1.out <==\nnothing of interest\n$",
        ),
    ),
    Case(
        many, "mode=status sweep=s", 0, (r"60 runs: 59 not begun, 1 queued.*\n.*\n.*Priority\n$",)
    ),
    Case(planned, "mode=status runs=[n:2,seed:0]", 0, ("has no log yet\n",)),
    Case(of_another_version, "mode=resume sweep=s", 2, ("this version of isosweep would make",)),
    Case(
        *(planned, "mode=cancel", 0),
        ("^0 cancelled\nnothing to stop: [0-9]+ not begun \\(no process",),
        (NOT_BEGUN, NOT_BEGUN),
    ),
    Case(
        *(followed, "mode=cancel runs=[n:2,seed:0]", 0),
        ("^1 cancelled: 1 not begun",),
        (CANCELLED, NOT_BEGUN),
    ),
    Case(
        *(at_work, "mode=cancel", 0),
        ("^2 cancelled: 1 pending, 1 running",),
        (CANCELLED, CANCELLED),
    ),
    Case(analysed, "mode=cancel budget=5e11", 2, ("there are several.* sweep=newer, the new",)),
    Case(
        *(no_sweeps_run, "mode=clean", 0),
        (r"of-no-sweep  \(no sweep's plan names it\)\n", "nothing was moved; confirm=true moves"),
        STAYS,
    ),
    Case(no_sweeps_run, CLEAN, 0, ("1 of 1 moved\n", r"rm -r \S+/trash/"), MOVED),
    Case(broken, CLEAN, 0, ("1 of 1 moved",), MOVED),
    Case(taken_up, CLEAN, 1, ("of-no-sweep stays: a worker has it, or may have it",), STAYS),
    Case(planned, CLEAN, 0, ("nothing to move",), {"sweeps/s": True}),
    Case(no_sweeps_run, f"{CLEAN} format=json", 0, ('"bytes": ', '"moved_to": "/.*/trash/'), MOVED),
    Case(at_work, "mode=cancel format=json", 0, ('"version": 1', ': "running"', '"faults"')),
    # What a command types, and neither the sweep has nor the mode uses.
    Case(planned, "mode=status sweep=s model=tiny budget=1e11", 0, ("not begun",)),
    Case(planned, "mode=cancel sweep=s budget=5e11", 2, (r"=\[5e11\]: s has budget=\[1e11\]",)),
    Case(
        planned, "mode=analyse sweep=s grid.seeds=[7]", 2, (r"seeds=\[7\]: s has grid.seeds=\[0",)
    ),
    Case(planned, "mode=analyse sweep=s budget_unit=tokens", 2, ("analysis.compute_axis=tokens",)),
    Case(planned, "mode=resume sweep=s analysis.margin=0.1", 2, ("s has analysis.margin=0.02",)),
    Case(
        planned,
        "mode=next sweep=s +experiment=tiny/playbook_fix_B",
        2,
        ("=.*: s has .*=.*mode=next",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda each: f"{each.state.__name__} {each.command}")
def test_a_command_says_and_does_what_the_state_asks_for(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_in(tmp_path / "sweeps", "sweep=s")
    answers = case.state(sweep)
    if answers is not None:
        jobs = Scheduled(answers)
        for module in (status, cancel):
            monkeypatch.setattr(module, "Jobs", lambda config: jobs)
    found = in_process(tuple(case.command.split()), tmp_path)
    assert found.returncode == case.status, found.stdout + found.stderr
    at = 0
    said = found.stdout or found.stderr
    for pattern in case.says:
        match = re.compile(pattern).search(said, at)
        assert match is not None, (pattern, said[at:])
        at = match.end()
    if isinstance(case.leaves, dict):
        assert {path: any(tmp_path.glob(path)) for path in case.leaves} == case.leaves
    elif case.leaves is not None:
        assert (*[*sweep.standing().runs.values()][:2],) == case.leaves
