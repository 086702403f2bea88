"""The MLflow copy of a sweep: a real store, synthetic runs."""

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
from isosweep.tracking.background import fault
from isosweep.tracking.points import FinalStatus, budget_metric, heldout_points, run_name
from isosweep.tracking.tracker import Overview
from tests.tracking.sweeps import (
    EVAL_STEPS,
    EVALUATION_S,
    FLOPS_PER_STEP,
    START,
    Sweep,
    make_plan,
    record,
    set_state,
    start,
    write_steps,
)

pytestmark = pytest.mark.mlflow


def test_the_runs_of_a_sweep_lie_below_its_own_and_begin_when_they_began(sweep: Sweep) -> None:
    sweep.tracker().sync()
    stored = sweep.stored()
    parent, child = stored["parent"], sweep.child()
    assert len(stored) == 2, "a run that waits has no beginning yet"
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["isosweep.sweep"] == f"it's a sweep@{sweep.plan.plan_id}"
    assert parent.info.start_time == child.info.start_time == (START - EVALUATION_S) * 1000
    wanted = {"n": "2", "B": "4", "T": "40", "seed": "0", "status": "running"}
    assert {key: child.data.tags[key] for key in wanted} == wanted
    assert child.data.tags["budgets_reached"] == "2e+10"
    assert (parent.info.status, child.info.status) == ("RUNNING", "RUNNING")


def test_metrics_are_the_records_and_a_stride_of_training(sweep: Sweep) -> None:
    sweep.tracker().sync()
    histories = sweep.histories()
    name = sweep.runs[0].run_id
    milliseconds = round(START * 1000)
    assert histories[name, "heldout/avg_at_k"] == [
        (step, milliseconds + 1000 * step, step / 160) for step in (0, 10, 20)
    ]
    assert histories[name, "compute/flops"][-1][2] == 20 * FLOPS_PER_STEP
    assert histories[name, "compute/tokens"][-1][2] == 64 * 20
    logs = {step: 10**value for step, _, value in histories[name, "compute/log10_flops"]}
    assert logs == pytest.approx({10: 1e10, 20: 2e10})
    # By three evaluations, and 0.1 s of training a step.
    assert histories[name, "eval_min"][-1][2] == 3 * EVALUATION_S / 60
    assert histories[name, "train_min"][-1][2] == pytest.approx(2 / 60, rel=1e-3)
    # The sweep's own run has the sum of all.
    start(sweep.runs[1])
    write_steps(sweep.runs[1], range(21))
    sweep.tracker().sync()
    assert sweep.stored()["parent"].data.metrics["eval_min"] == 6 * EVALUATION_S / 60
    assert sweep.steps("train/loss") == list(range(2, 21, 2))
    # Of two problems, both never right at first, one is right in 2 of 8 samples at the end.
    ends = {
        "avg_at_k": 2 / 16,
        "best_at_k": 0.5,
        "worst_at_k": 0.0,
        "pass_at_2": (1 - (6 * 5) / (8 * 7)) / 2,
        "pass_at_4": (1 - (6 * 5 * 4 * 3) / (8 * 7 * 6 * 5)) / 2,
    }
    for key, value in ends.items():
        assert histories[name, f"heldout/{key}"][-1][2] == pytest.approx(value), key
    assert {key for run, key in histories if run == name} == {
        *(f"heldout/{key}" for key in ends),
        "compute/flops",
        "compute/rollouts",
        "compute/tokens",
        "compute/device_seconds",
        "compute/evaluation_seconds",
        "compute/log10_flops",
        "train/loss",
        "train/reward",
        *("train_min", "eval_min"),
        *("n", "log2_n", "T"),
    }
    assert [value for _, _, value in histories["parent", "sweep/done_runs"]] == [0]
    assert [value for _, _, value in histories["parent", "sweep/best_run_reward"]] == [20 / 160]


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
    sweep.tracker().sync()
    made = sweep.child(1).info
    assert made.start_time == (START + 50 - EVALUATION_S) * 1000
    assert made.end_time == (START + 1000) * 1000


def test_a_run_that_collapsed_is_not_shown_as_finished(sweep: Sweep) -> None:
    run = sweep.runs[0]
    write_steps(run, range(21, 41))
    set_state(run, "finished", 40)
    fell = frozenset({run.run_id})
    for collapsed, shown in (
        (fell, ("FAILED", "collapsed")),
        # Nobody has looked since.
        (None, ("FAILED", "collapsed")),
        (frozenset[str](), ("FINISHED", "done")),
    ):
        tracker = sweep.tracker(Overview(collapsed=collapsed))
        tracker.sync()
        tracker.finish(None)
        child = sweep.child()
        assert (child.info.status, child.data.tags["status"]) == shown
        assert sweep.stored()["parent"].info.status == "KILLED", "the other run has not begun"


def test_warnings_are_reported_by_rule_and_step(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    assert "warnings" not in sweep.child().data.tags
    run = sweep.runs[0]
    for step, rule in ((12, "truncation"), (20, "collapse")):
        warning = HealthWarning(step=step, rule=rule, value=0.2, threshold=0.1, message="above")
        append_warning(run.warnings, 1, warning)
    set_state(run, "running", 21)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12), collapse (step 20)"
    # An attempt that goes on from step 15 has not yet come to the second one.
    start(run, attempt=2, parent=1, resumed=15)
    set_state(run, "running", 15, attempt=2)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12)"


def test_figures_and_report_end_the_parent(sweep: Sweep) -> None:
    run = sweep.runs[0].run_id
    figures = [sweep.root / "frontier.png", sweep.root / "scaling.png"]
    report = sweep.root / "report.html"
    for path in [*figures, report]:
        path.write_bytes(b"content")
    files = (*((figure, "figures") for figure in figures), (report, ""))
    overview = Overview(metrics={run: {"reward_1_2e10": 0.2}}, unix_time=START + 9, files=files)
    tracker = sweep.tracker(overview)
    tracker.sync()
    statuses: tuple[FinalStatus, ...] = ("FINISHED", "FAILED", "KILLED")
    for status in statuses:
        report.write_text(status)
        tracker.finish(status)
        ended = sweep.stored()["parent"].info
        assert (ended.status, ended.end_time) == (status, (START + 20) * 1000)
    assert sweep.histories()[run, "reward_1_2e10"] == [(0, (START + 9) * 1000, 0.2)]
    parent, client = sweep.stored()["parent"].info.run_id, sweep.client()
    listed = [
        artifact.path
        for folder in (None, "figures")
        for artifact in client.list_artifacts(parent, folder)
        if not artifact.is_dir
    ]
    assert sorted(listed) == ["figures/frontier.png", "figures/scaling.png", "report.html"]
    stored = [p for p in (sweep.root / "mlartifacts").rglob("*") if p.is_file()]
    assert sorted(p.read_text() for p in stored) == ["KILLED", "content", "content"]


def test_a_figure_that_cannot_be_stored_still_ends_the_parent(sweep: Sweep) -> None:
    tracker = sweep.tracker(Overview(files=((sweep.root / "absent.png", "figures"),)))
    tracker.sync()
    with pytest.raises(OSError, match="absent"):
        tracker.finish("FINISHED")
    assert sweep.stored()["parent"].info.status == "FINISHED"


def test_further_sets_are_metrics_of_their_own() -> None:
    own = Evaluation(successes=(2, 0), samples_per_problem=2, completion_tokens=3.0)
    records = record(20), replace(record(20), sets={"hard": own})
    (plain,), (shown,) = ([p.values for p in heldout_points([r], make_plan())] for r in records)
    added = {name: value for name, value in shown.items() if name not in plain}
    scores = ("avg_at_k", "best_at_k", "worst_at_k")
    assert added == {f"sets/hard/{score}": 0.5 for score in scores}
    assert {name: shown[name] for name in plain} == plain


def test_dollars_are_a_metric_where_their_price_is_known() -> None:
    spent = replace(record(20), compute=replace(record(20).compute, device_seconds=1800.0))
    records = [replace(record(0), seconds=200.0), replace(spent, seconds=250.0)]
    priced = replace(make_plan(), pricing=Pricing(dollars_per_hour=3.0))
    plain, shown = (
        [point.values for point in heldout_points(records, plan, devices=2)]
        for plan in (make_plan(), priced)
    )
    # Of two devices, an evaluation takes both.
    taken = {"train_min": 15.0, "eval_min": 7.5}
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
    budgets = [8.1e10, 1.62e11, 3.24e11]
    rewards = [budget_metric(budget, budgets) for budget in budgets]
    assert rewards == ["reward_1_8.1e10", "reward_2_1.62e11", "reward_3_3.24e11"]
    many = [budget_metric(budget, range(1, 11)) for budget in range(1, 11)]
    assert many == sorted(many)


def test_a_damaged_file_is_named_and_the_other_runs_go_on(sweep: Sweep) -> None:
    (sweep.runs[0].metrics / "1.jsonl").write_text('{"attempt": 1, "step": 2, "loss": 1}\n')
    set_state(sweep.runs[1], "running", 20)
    sweep.tracker().sync()
    assert "time" in sweep.child().data.tags["unreadable"]
    assert sweep.child(1).info.status == "RUNNING"


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
    assert sweep.steps("train/loss") == list(range(2, 41, 2))
    assert sweep.child().info.status == "FINISHED"
    assert capfd.readouterr() == ("", "")


def test_a_fault_is_the_cause_s_first_line_without_a_password() -> None:
    error = RuntimeError("no\nmore")
    error.__cause__ = OSError("postgresql://me:secret@db/mlflow is away\nand so on")
    assert fault(error) == "postgresql://me:***@db/mlflow is away"


def test_while_the_runs_are_away_nothing_is_sent_and_no_directory_is_made(
    sweep: Sweep, tmp_path: Path
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    gone = sweep.root.rename(tmp_path / "gone")
    tracker.sync()
    tracker.finish("FINISHED")
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
    copied = Sweep(tmp_path / "the copy", max_points=20)
    assert not copied.store.find()
    for _ in range(2):
        write_steps(copied.runs[0], range(21, 41))
        set_state(copied.runs[0], "finished", 40)
        tracked(copied)
        assert state_of(sweep.root) == before
    reports = (copied.root / "mlartifacts").rglob("report.html")
    assert {path.read_text() for path in reports} == {f"of {sweep.root}", f"of {copied.root}"}
    # The copy's is there anew, beside what was copied, and once.
    copied.config = replace(copied.config, experiment=f"isosweep in {copied.root}")
    assert copied.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert copied.store.find()
