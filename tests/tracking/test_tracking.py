"""What MLflow alone is asked of: a real store, synthetic runs."""

import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.pricing import Pricing
from isosweep.store.records import Evaluation, append_warning
from isosweep.store.warnings import HealthWarning
from isosweep.tracking.points import RunStatus, budget_metric, heldout_points, run_name
from isosweep.tracking.tracker import Overview, fault
from tests.tracking.sweeps import (
    EVAL_STEPS,
    EVALUATION_S,
    START,
    TRAIN_STEPS,
    Sweep,
    make_plan,
    record,
    set_state,
    start,
    write_steps,
)

pytestmark = pytest.mark.mlflow


def test_runs_lie_below_the_sweep_s_own_with_their_times_and_metrics(sweep: Sweep) -> None:
    sweep.sync()
    parent, child = sweep.stored()["parent"], sweep.child()
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["isosweep.sweep"] == f"it's a sweep@{sweep.plan.plan_id}"
    assert parent.info.start_time == child.info.start_time == (START - EVALUATION_S) * 1000
    assert [child.data.tags[name] for name in ("n", "B", "T", "seed")] == ["2", "4", "40", "0"]
    assert (parent.info.status, child.info.status) == ("RUNNING", "RUNNING")
    histories = sweep.histories()
    of_run = {key: points for (run, key), points in histories.items() if run != "parent"}
    assert of_run["heldout/avg_at_k"] == [
        (step, round((START + step) * 1000), step / 160) for step in (0, 10, 20)
    ]
    # Of two problems, both never right at first, one is right in 2 of 8 samples at the end.
    last = {
        "heldout/avg_at_k": 2 / 16,
        "heldout/best_at_k": 0.5,
        "heldout/worst_at_k": 0.0,
        "heldout/pass_at_2": (1 - (6 * 5) / (8 * 7)) / 2,
        "heldout/pass_at_4": (1 - (6 * 5 * 4 * 3) / (8 * 7 * 6 * 5)) / 2,
        "compute/flops": 2e10,
        "compute/rollouts": 160,
        "compute/tokens": 64 * 20,
        "compute/device_seconds": 2.0,
        "compute/evaluation_seconds": EVALUATION_S,
        "compute/log10_flops": 10.30103,
        "train/loss": 1 / 21,
        "train/reward": 0.1,
        # Of three evaluations, and 0.1 s of training a step.
        "eval_min": 3 * EVALUATION_S / 60,
        "train_min": 2 / 60,
        **{"n": 2, "log2_n": 1, "T": 40},
    }
    assert {key: points[-1][2] for key, points in of_run.items()} == pytest.approx(last, rel=1e-3)
    assert [value for _, _, value in histories["parent", "sweep/done_runs"]] == [0]
    # The sweep's own run has the sum of all.
    start(sweep.runs[1])
    write_steps(sweep.runs[1], range(21))
    sweep.sync()
    assert sweep.stored()["parent"].data.metrics["eval_min"] == 6 * EVALUATION_S / 60


STATUSES: tuple[tuple[str, int, str, str], ...] = (
    ("running", 20, "RUNNING", "running"),
    ("finished", 40, "FINISHED", "done"),
    ("finished", 20, "SCHEDULED", "to extend"),
    ("diverged", 20, "FAILED", "diverged"),
    ("failed", 20, "FAILED", "failed"),
    ("interrupted", 20, "KILLED", "interrupted"),
    ("cancelled", 20, "KILLED", "cancelled"),
)


def test_status_of_a_run(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    for attempt, (status, step, in_mlflow, word) in enumerate(STATUSES, 2):
        state = set_state(sweep.runs[0], status, step, attempt=attempt, reason="out of memory")
        tracker.sync()
        child = sweep.child()
        assert child.info.status == in_mlflow
        assert (child.data.tags["status"], child.data.tags["reason"]) == (word, "out of memory")
        if in_mlflow not in ("RUNNING", "SCHEDULED"):
            assert child.info.end_time == state.updated * 1000
    set_state(sweep.runs[0], "running", 20, attempt=9)
    tracker.sync()
    assert sweep.child().data.tags["reason"] == "", "what is no longer so is emptied"


def test_a_run_that_waits_is_made_once_it_has_begun(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    start(sweep.runs[1])
    set_state(sweep.runs[1], "running", 0)
    tracker.sync()
    assert sweep.child(1).info.status == "RUNNING"
    # Whoever makes it later knows from its first record when that was.
    sweep.client().delete_run(sweep.child(1).info.run_id)
    write_steps(sweep.runs[1], range(1), shift=50)
    set_state(sweep.runs[1], "interrupted", 0)
    sweep.sync()
    made = sweep.child(1).info
    assert made.start_time == (START + 50 - EVALUATION_S) * 1000
    assert made.end_time == (START + 1000) * 1000


def test_a_run_that_collapsed_is_not_shown_as_finished(sweep: Sweep) -> None:
    run = sweep.runs[0]
    write_steps(run, range(21, 41))
    set_state(run, "finished", 40)
    for collapsed, shown in (
        (frozenset({run.run_id}), ("FAILED", "collapsed")),
        # Nobody has looked since.
        (None, ("FAILED", "collapsed")),
        (frozenset[str](), ("FINISHED", "done")),
    ):
        sweep.tracker(Overview(collapsed=collapsed)).finish(None)
        child = sweep.child()
        assert (child.info.status, child.data.tags["status"]) == shown
        assert sweep.stored()["parent"].info.status == "KILLED", "the other run has not begun"


def test_warnings_are_reported_by_rule_and_step(sweep: Sweep) -> None:
    run, tracker = sweep.runs[0], sweep.tracker()
    for step, rule in ((12, "truncation"), (20, "collapse")):
        warning = HealthWarning(step=step, rule=rule, value=0.2, threshold=0.1, message="above")
        append_warning(run.warnings, 1, warning)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12), collapse (step 20)"
    # An attempt that goes on from step 15 has not yet come to the second one.
    start(run, attempt=2, parent=1, resumed=15)
    set_state(run, "running", 15, attempt=2)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12)"


def test_a_damaged_file_is_named_and_the_other_runs_go_on(sweep: Sweep) -> None:
    (sweep.runs[0].metrics / "1.jsonl").write_text('{"attempt": 1, "step": 2, "loss": 1}\n')
    set_state(sweep.runs[1], "running", 20)
    sweep.sync()
    assert "time" in sweep.child().data.tags["unreadable"]
    assert sweep.child(1).info.status == "RUNNING"


def test_files_are_replaced_and_the_parent_ends_even_without_one(sweep: Sweep) -> None:
    run, figure, report = sweep.runs[0].run_id, sweep.root / "x.png", sweep.root / "report.html"
    figure.write_bytes(b"content")
    files = ((figure, "figures"), (report, ""))
    metrics = {run: {"reward_1_2e10": 0.2}}
    tracker = sweep.tracker(Overview(metrics=metrics, unix_time=START + 9, files=files))
    statuses: tuple[RunStatus, ...] = ("FINISHED", "FAILED", "KILLED")
    for status in statuses:
        report.write_text(status)
        tracker.finish(status)
        ended = sweep.stored()["parent"].info
        assert (ended.status, ended.end_time) == (status, (START + 20) * 1000)
    assert sweep.histories()[run, "reward_1_2e10"] == [(0, (START + 9) * 1000, 0.2)]
    place = sweep.root / "mlartifacts" / ended.run_id / "artifacts"
    stored = {p.relative_to(place): p.read_text() for p in place.rglob("*") if p.is_file()}
    assert stored == {Path("figures/x.png"): "content", Path("report.html"): "KILLED"}
    figure.unlink()
    with pytest.raises(OSError, match=r"x\.png"):
        tracker.finish("FINISHED")
    assert sweep.stored()["parent"].info.status == "FINISHED"


def test_further_sets_and_dollars_are_metrics_of_their_own() -> None:
    own = Evaluation(successes=(2, 0), samples_per_problem=2, completion_tokens=3.0)
    compute = replace(record(20).compute, device_seconds=1800.0)
    records = [
        replace(record(0), seconds=200.0),
        replace(record(20), compute=compute, seconds=250.0, sets={"hard": own}),
    ]
    priced = replace(make_plan(), pricing=Pricing(dollars_per_hour=3.0))
    plain, shown = (
        [point.values for point in heldout_points(records, plan, devices=2)]
        for plan in (make_plan(), priced)
    )
    # Of two devices, an evaluation takes both.
    taken = {"train_min": 15.0, "eval_min": 7.5}
    taken |= dict.fromkeys((f"sets/hard/{s}" for s in ("avg_at_k", "best_at_k", "worst_at_k")), 0.5)
    assert plain[1].items() >= taken.items()
    dollars = (pytest.approx(1 / 3, rel=1e-3), 2.25)
    assert shown == [{**own, "dollars": cost} for own, cost in zip(plain, dollars, strict=True)]


def test_names_sort_by_n_and_rewards_by_budget() -> None:
    plan = make_plan(10)
    names = ["all of it", *(run_name(run, plan) for run in plan.runs)]
    assert names == sorted(names)
    assert (names[1], names[-1]) == ("n=0002 seed=0", "n=1024 seed=0")
    other = replace(plan.runs[0], problems_per_batch=16, axes={"recipe.beta": 0.1})
    several = replace(plan, runs=(*plan.runs, other))
    assert run_name(plan.runs[0], several) == "n=0002 B=04 seed=0"
    assert run_name(other, several) == "n=0002 B=16 seed=0 beta=0.1"
    rewards = [budget_metric(budget, [8.1e10, 1.62e11]) for budget in (8.1e10, 1.62e11)]
    assert rewards == ["reward_1_8.1e10", "reward_2_1.62e11"]
    many = [budget_metric(budget, range(1, 11)) for budget in range(1, 11)]
    assert many == sorted(many)


@contextmanager
def deleted(sweep: Sweep) -> Iterator[None]:
    """After somebody has deleted a run."""
    sweep.client().delete_run(sweep.child().info.run_id)
    yield


@contextmanager
def locked(sweep: Sweep) -> Iterator[None]:
    """While another process writes to the database, or hangs in that."""
    with closing(sqlite3.connect(sweep.root / "mlflow.db")) as other:
        other.execute("begin exclusive")
        yield


@contextmanager
def full(sweep: Sweep) -> Iterator[None]:
    """While no file may become larger than the database is."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (sweep.root / "mlflow.db").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)


@pytest.mark.parametrize(
    ("away", "said"),
    [
        # MLflow waits 20 s for the lock.
        pytest.param(locked, "database is locked", marks=pytest.mark.slow),
        (full, "disk I/O error"),
        (deleted, "must be in the 'active' state"),
    ],
)
def test_a_store_that_fails_is_named_in_its_own_words_and_completed_afterwards(
    sweep: Sweep,
    away: Callable[[Sweep], AbstractContextManager[None]],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    with away(sweep), pytest.raises(Exception, match=said) as failed:
        tracker.sync()
    assert said in fault(failed.value)
    tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert sweep.steps("train/loss") == TRAIN_STEPS
    assert sweep.child().info.status == "FINISHED"
    assert capfd.readouterr() == ("", "")


def test_while_the_runs_are_away_nothing_is_sent_and_no_directory_is_made(
    sweep: Sweep, tmp_path: Path
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    gone = sweep.root.rename(tmp_path / "gone")
    for call in (tracker.sync, lambda: tracker.finish("FINISHED")):
        with pytest.raises(FileNotFoundError, match="runs"):
            call()
    assert not sweep.root.exists()
    gone.rename(sweep.root)
    tracker.sync()
    assert sweep.child().info.status == "RUNNING"


def test_a_copied_store_writes_nothing_into_the_original(sweep: Sweep, tmp_path: Path) -> None:
    def tracked(sweep: Sweep) -> None:
        report = sweep.root / "report.html"
        report.write_text(f"of {sweep.root}")
        sweep.tracker(Overview(files=((report, ""),))).finish("FINISHED")

    def state_of(root: Path) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    tracked(sweep)
    shutil.copytree(sweep.root, tmp_path / "the copy")
    before = state_of(sweep.root)
    copied = Sweep(tmp_path / "the copy")
    assert not copied.store.find()
    for _ in range(2):
        write_steps(copied.runs[0], range(21, 41))
        set_state(copied.runs[0], "finished", 40)
        tracked(copied)
        assert state_of(sweep.root) == before
    reports = (copied.root / "mlartifacts").rglob("report.html")
    assert {path.read_text() for path in reports} == {f"of {sweep.root}", f"of {copied.root}"}
    # The copy's is there anew, beside what was copied, and once.
    assert copied.store.find()
    copied.config = replace(copied.config, experiment=f"isosweep in {copied.root}")
    assert copied.steps("heldout/avg_at_k") == list(EVAL_STEPS)
