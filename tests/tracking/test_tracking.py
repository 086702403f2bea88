"""The MLflow copy of a sweep: a real store, synthetic runs."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute
from isosweep.config.tracking import TrackingConfig
from isosweep.files import JsonObject, append_line
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.store.paths import RunPaths, SweepPaths
from isosweep.store.records import (
    AttemptStart,
    Record,
    append_attempt,
    append_record,
    append_warning,
)
from isosweep.store.state import RunState, RunStatus, write_state
from isosweep.store.warnings import HealthWarning
from isosweep.tracking.background import BackgroundTracker, NullTracker, make_tracker
from isosweep.tracking.mlflow import MAX_BATCH_METRICS, MlflowTracker
from isosweep.tracking.points import FinalStatus

pytestmark = [
    pytest.mark.mlflow,
    # MLflow 3.17's own table definitions under SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
]

START = 1_700_000_000.0
NUM_STEPS = 40
EVAL_STEPS = (0, 10, 20, 30, 40)
FLOPS_PER_STEP = 1e9
# Health rules that end a run.
STOP = ("collapse",)
SPEC_PARAMS: dict[str, str | float | int] = {"model": "tiny", "task": "sort", "beta": 0.0}


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    # Set by the tracker where the user has not; restored after the test.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")


def make_plan(num_runs: int = 2) -> Plan:
    runs = tuple(
        PlannedRun(
            run_id=f"tiny-sort-n{2**i}-B4-s0-abc{i}",
            num_generations=2**i,
            problems_per_batch=4,
            seed=0,
            learning_rate=1e-3,
            milestones=(2e10, 4e10),
            num_steps=NUM_STEPS,
            planned_flops=4e10,
            seconds=60.0,
            micro_batch=8,
        )
        for i in range(1, num_runs + 1)
    )
    return Plan(budget_unit="flops", budgets=(2e10, 4e10), cells=(), runs=runs, rejected=())


class Sweep:
    """A sweep directory with a plan, whose runs the tests write themselves."""

    def __init__(self, root: Path, num_runs: int = 2, **config: Any) -> None:
        self.root = root
        self.plan = make_plan(num_runs)
        self.paths = SweepPaths(root / "it's a sweep", root / "runs")
        self.config = TrackingConfig(name="mlflow", **config)
        self.runs = [self.paths.run(run.run_id) for run in self.plan.runs]
        for run in self.runs:
            run.root.mkdir(parents=True, exist_ok=True)

    def tracker(self) -> MlflowTracker:
        return MlflowTracker(self.paths, self.plan, SPEC_PARAMS, self.config, self.root, STOP)

    def client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient(tracking_uri=self.tracker().uri)

    def stored(self) -> dict[str, Any]:
        """MLflow runs by isosweep run id; the parent under `parent`."""
        client = self.client()
        experiment = client.get_experiment_by_name(self.config.experiment)
        runs = client.search_runs([experiment.experiment_id])
        found = {run.data.tags.get("isosweep.run_id", "parent"): run for run in runs}
        assert len(found) == len(runs), "a run was made twice"
        return found

    def child(self, number: int = 0) -> Any:
        return self.stored()[self.runs[number].run_id]

    def histories(self) -> dict[tuple[str, str], list[tuple[int, int, float]]]:
        """(step, timestamp, value) of every metric of every run."""
        client = self.client()
        return {
            (name, key): [
                (m.step, m.timestamp, m.value)
                for m in client.get_metric_history(run.info.run_id, key)
            ]
            for name, run in self.stored().items()
            for key in run.data.metrics
        }

    def steps(self, key: str, number: int = 0) -> list[int]:
        return [step for step, _, _ in self.histories()[self.runs[number].run_id, key]]


def record(step: int, unix_time: float | None = None) -> Record:
    compute = Compute(
        generations=step,
        rollouts=8 * step,
        prompt_tokens=40 * step,
        completion_tokens=24 * step,
        training_flops=FLOPS_PER_STEP * step,
        device_seconds=0.1 * step,
    )
    return Record(
        step=step,
        compute=compute,
        successes=(step // 10, 0),
        samples_per_problem=8,
        completion_tokens=3.0,
        unix_time=START + step if unix_time is None else unix_time,
    )


def write_steps(run: RunPaths, steps: range, attempt: int = 1, shift: float = 0.0) -> None:
    """Metrics of `steps` and the records that fall among them, `shift` seconds late."""
    for step in steps:
        line: JsonObject = {"step": step, "attempt": attempt, "time": START + step + shift}
        line |= {"loss": 1 / (step + 1)}
        if step > 0:
            line |= {"reward": 0.1, "note": "text", "flag": True, "none": None}
            append_line(run.metrics, line, sync=False)
        if step in EVAL_STEPS:
            append_record(run.records, attempt, record(step, START + step + shift))


def start(run: RunPaths, attempt: int = 1, parent: int | None = None, resumed: int = 0) -> None:
    start = AttemptStart(attempt=attempt, parent=parent, resumed_step=resumed)
    append_attempt(run.records, start)


def set_state(
    run: RunPaths,
    status: RunStatus,
    step: int,
    *,
    pid: int | None = None,
    attempt: int = 1,
    reason: str | None = None,
) -> RunState:
    state = RunState(
        status=status,
        attempt=attempt,
        host=socket.gethostname(),
        pid=os.getpid() if pid is None else pid,
        job_id=None,
        step=step,
        compute=record(step).compute,
        reward=None,
        reason=reason,
        updated=START + 1000 + step,
        diverged_by=STOP[0] if status == "diverged" else None,
    )
    write_state(run, state)
    return state


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Two runs, the first of them half done; a path that URIs must quote."""
    sweep = Sweep(tmp_path / "sweeps of mine", max_points=20)
    start(sweep.runs[0])
    write_steps(sweep.runs[0], range(21))
    set_state(sweep.runs[0], "running", 20)
    return sweep


def test_parent_and_children_carry_params_and_tags(sweep: Sweep) -> None:
    sweep.tracker().sync()
    stored = sweep.stored()
    parent, child, waiting = stored["parent"], sweep.child(), sweep.child(1)
    assert len(stored) == 3
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["isosweep.sweep"] == f"it's a sweep@{sweep.plan.plan_id}"
    assert child.info.run_name == "n2-B4-s0"
    assert child.info.start_time == START * 1000
    wanted = {"n": "2", "B": "4", "T": "40", "seed": "0", "status": "running"}
    assert {key: child.data.tags[key] for key in wanted} == wanted
    assert child.data.tags["budgets_reached"] == "2e+10"
    assert waiting.data.tags["budgets_reached"] == ""
    own = {"n": "2", "B": "4", "T": "40", "seed": "0", "learning_rate": "0.001"}
    assert child.data.params == own | {"model": "tiny", "task": "sort", "beta": "0.0"}
    assert parent.data.params["budgets"] == "2e+10,4e+10"
    assert (parent.info.status, child.info.status) == ("RUNNING", "RUNNING")
    assert waiting.info.status == "SCHEDULED"


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
    assert sweep.steps("train/loss") == list(range(2, 21, 2))
    # Of two problems, both never right at first, one is right in 2 of 8 samples at the end.
    ends = {
        "avg_at_k": 2 / 16,
        "best_at_k": 0.5,
        "worst_at_k": 0.0,
        "pass_at_2": (1 - (6 * 5) / (8 * 7)) / 2,
        "pass_at_4": (1 - (6 * 5 * 4 * 3) / (8 * 7 * 6 * 5)) / 2,
        "share_none_right": 0.5,
        "share_all_right": 0.0,
        "share_better": 0.0,
        "share_worse": 0.0,
        "avg_at_k_of_never_right": 2 / 16,
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
        "train/loss",
        "train/reward",
    }
    assert [value for _, _, value in histories["parent", "sweep/done_runs"]] == [0]
    assert [value for _, _, value in histories["parent", "sweep/best_reward"]] == [20 / 160]


@pytest.mark.parametrize("fresh", [False, True], ids=["same tracker", "new process"])
def test_a_second_sync_adds_nothing_and_later_records_are_added_once(
    sweep: Sweep, fresh: bool
) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    tracker = sweep.tracker() if fresh else tracker
    tracker.sync()
    assert sweep.histories() == before
    write_steps(sweep.runs[0], range(21, 41))
    set_state(sweep.runs[0], "finished", 40)
    for _ in range(2):
        tracker = sweep.tracker() if fresh else tracker
        tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert sweep.steps("compute/flops") == list(EVAL_STEPS)
    assert sweep.steps("train/loss") == list(range(2, 41, 2))
    done = sweep.histories()["parent", "sweep/done_runs"]
    assert [value for _, _, value in done] == [0, 1]
    assert sweep.child().data.tags["budgets_reached"] == "2e+10,4e+10"


@pytest.mark.parametrize("fresh", [False, True], ids=["same tracker", "new process"])
def test_steps_repeated_by_a_later_attempt_are_sent_once(sweep: Sweep, fresh: bool) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    start(sweep.runs[0], attempt=2, parent=1, resumed=10)
    write_steps(sweep.runs[0], range(11, 41), attempt=2, shift=500)
    tracker = sweep.tracker() if fresh else tracker
    tracker.sync()
    assert sweep.steps("heldout/avg_at_k") == list(EVAL_STEPS)
    assert sweep.steps("train/loss") == list(range(2, 41, 2))


def test_a_sync_killed_before_the_params_is_completed(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def kill(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_batch", kill)
        tracker = sweep.tracker()
        with pytest.raises(KeyboardInterrupt):
            tracker.sync()
    sweep.tracker().sync()
    assert sweep.child().data.params["n"] == "2"
    assert len(sweep.stored()) == 3


def test_many_metrics_go_in_several_requests(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    run = sweep.runs[1]
    start(run)
    for step in range(1, NUM_STEPS + 1):
        values = {f"m{i}": float(i) for i in range(150)}
        line = {"step": step, "attempt": 1, "time": START + step, **values}
        append_line(run.metrics, line, sync=False)
    sizes = []
    log_batch = MlflowClient.log_batch

    def counting(self: Any, run_id: str, metrics: Any = (), **rest: Any) -> Any:
        sizes.append(len(metrics))
        return log_batch(self, run_id, metrics=metrics, **rest)

    monkeypatch.setattr(MlflowClient, "log_batch", counting)
    sweep.tracker().sync()
    assert max(sizes) <= MAX_BATCH_METRICS
    assert sizes.count(900) == 3
    assert sweep.steps("train/m149", 1) == list(range(2, 41, 2))


@pytest.mark.parametrize(
    ("status", "step", "in_mlflow", "word"),
    [
        ("running", 20, "RUNNING", "running"),
        ("finished", 40, "FINISHED", "done"),
        ("diverged", 20, "FINISHED", "diverged"),
        ("failed", 20, "FAILED", "failed"),
        ("interrupted", 20, "KILLED", "interrupted"),
        ("cancelled", 20, "KILLED", "cancelled"),
    ],
)
def test_status_of_a_run(
    sweep: Sweep, status: RunStatus, step: int, in_mlflow: str, word: str
) -> None:
    tracker = sweep.tracker()
    state = set_state(sweep.runs[0], status, step, reason="out of memory")
    tracker.sync()
    child = sweep.child()
    assert child.info.status == in_mlflow
    assert (child.data.tags["status"], child.data.tags["reason"]) == (word, "out of memory")
    if status != "running":
        assert child.info.end_time == state.updated * 1000


def test_a_dead_owner_is_killed_then_running_again_then_finished(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    set_state(sweep.runs[0], "running", 20, pid=dead_pid())
    tracker.sync()
    assert sweep.child().info.status == "KILLED"
    assert sweep.child().data.tags["status"] == "interrupted"
    set_state(sweep.runs[0], "running", 20, attempt=2)
    sweep.tracker().sync()
    tracker.sync()
    assert sweep.child().info.status == "RUNNING"
    state = set_state(sweep.runs[0], "finished", 40, attempt=2)
    tracker.sync()
    assert sweep.child().info.status == "FINISHED"
    assert sweep.child().info.end_time == state.updated * 1000


def test_a_run_finished_for_a_smaller_budget_is_scheduled(sweep: Sweep) -> None:
    set_state(sweep.runs[0], "finished", 20)
    sweep.tracker().sync()
    assert sweep.child().info.status == "SCHEDULED"
    assert sweep.child().data.tags["status"] == "to extend"


def test_a_reason_that_is_gone_is_emptied(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    set_state(sweep.runs[0], "failed", 20, reason="out of memory")
    tracker.sync()
    set_state(sweep.runs[0], "running", 20, attempt=2)
    tracker.sync()
    assert sweep.child().data.tags["reason"] == ""


def test_warnings_are_told_by_rule_and_step(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    assert "warnings" not in sweep.child().data.tags
    run = sweep.runs[0]
    for step, rule in ((12, "truncation"), (20, "collapse")):
        warning = HealthWarning(step=step, rule=rule, value=0.2, threshold=0.1, message="above")
        append_warning(run.warnings, 1, warning)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12), collapse (step 20)"
    # An attempt that goes on from step 15 has not yet come to the second one.
    start(run, attempt=2, parent=1, resumed=15)
    tracker.sync()
    assert sweep.child().data.tags["warnings"] == "truncation (step 12)"


@pytest.mark.parametrize("status", ["FINISHED", "FAILED", "KILLED"])
def test_figures_and_report_end_the_parent(sweep: Sweep, status: FinalStatus) -> None:
    tracker = sweep.tracker()
    tracker.sync()
    figures = [sweep.root / "frontier.png", sweep.root / "scaling.png"]
    report = sweep.root / "report.html"
    for path in [*figures, report]:
        path.write_bytes(b"content")
    tracker.finish(status, figures, report)
    parent = sweep.stored()["parent"]
    assert parent.info.status == status
    client = sweep.client()
    listed = [
        artifact.path
        for folder in (None, "figures")
        for artifact in client.list_artifacts(parent.info.run_id, folder)
        if not artifact.is_dir
    ]
    assert sorted(listed) == ["figures/frontier.png", "figures/scaling.png", "report.html"]
    stored = [p for p in (sweep.root / "mlartifacts").rglob("*") if p.is_file()]
    assert len(stored) == 3


def test_a_figure_that_cannot_be_stored_still_ends_the_parent(sweep: Sweep) -> None:
    tracker = sweep.tracker()
    with pytest.raises(OSError, match="absent"):
        tracker.finish("FINISHED", [sweep.root / "absent.png"], None)
    assert sweep.stored()["parent"].info.status == "FINISHED"


SYNC_ONE = """
import sys
from pathlib import Path
from tests.tracking.test_tracking import Sweep
Sweep(Path(sys.argv[1])).tracker().sync()
"""


def test_two_processes_can_make_the_store_at_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    command = [sys.executable, "-c", SYNC_ONE, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs == ["", ""], "MLflow's own INFO lines are kept out of the terminal"
    assert len(sweep.stored()) == 3


def test_the_users_log_levels_come_back(sweep: Sweep) -> None:
    import mlflow  # noqa: F401

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    before = [logger.level for logger in loggers]
    sweep.tracker().sync()
    assert [logger.level for logger in loggers] == before


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an `mlflow server` of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = tmp_path / "server"
    root.mkdir()
    address = f"http://127.0.0.1:{port}"
    with (root / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--backend-store-uri", f"sqlite:///{root / 'server.db'}"),
                *("--artifacts-destination", (root / "artifacts").as_uri()),
            ],
            cwd=root,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for(f"{address}/health", process, root / "log")
            yield address
        finally:
            # The server's workers are its children, in a group of their own.
            os.killpg(process.pid, 15)
            process.wait(timeout=30)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"no mlflow server: {log.read_text()[-2000:]}")


def test_a_server_is_used_over_http(sweep: Sweep, server: str) -> None:
    sweep.config = replace(sweep.config, uri=server)
    tracker = sweep.tracker()
    tracker.sync()
    before = sweep.histories()
    sweep.tracker().sync()
    assert sweep.histories() == before
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    set_state(sweep.runs[0], "failed", 20, reason="out of memory")
    tracker.sync()
    set_state(sweep.runs[0], "running", 20, attempt=2)
    tracker.sync()
    figure = sweep.root / "frontier.png"
    figure.write_bytes(b"content")
    tracker.finish("FINISHED", [figure], None)
    stored = sweep.stored()
    assert (stored["parent"].info.status, sweep.child().info.status) == ("FINISHED", "RUNNING")
    [artifact] = sweep.client().list_artifacts(stored["parent"].info.run_id, "figures")
    assert artifact.path == "figures/frontier.png"
    left = {path.name for path in sweep.root.iterdir()}
    assert not left & {"mlflow.db", "mlflow.lock", "mlartifacts"}


class FakeTracker:
    """Counts calls; fails while told to."""

    def __init__(self, failing: bool = False) -> None:
        self.failing = failing
        self.syncs = 0
        self.finished: list[FinalStatus] = []
        self.threads: list[str] = []
        self.called = threading.Event()

    def sync(self) -> None:
        self.syncs += 1
        self.threads.append(threading.current_thread().name)
        if self.syncs >= 3:
            self.called.set()
        if self.failing:
            raise ConnectionError("no store\nand a long tail")

    def finish(self, status: FinalStatus, figures: list[Path], report: Path | None) -> None:
        self.finished.append(status)


def test_background_syncs_repeat_and_the_last_is_the_callers() -> None:
    tracker, warnings = FakeTracker(), list[str]()
    background = BackgroundTracker(tracker, 0.01, warnings.append)
    assert tracker.called.wait(10)
    background.close("FINISHED", [], None)
    assert tracker.threads[0] == "isosweep-tracking"
    assert tracker.threads[-1] == threading.current_thread().name
    assert (tracker.finished, warnings, background.errors) == (["FINISHED"], [], [])


def test_a_failing_store_is_told_once_and_once_more_at_the_end() -> None:
    tracker, warnings = FakeTracker(failing=True), list[str]()
    background = BackgroundTracker(tracker, 0.01, warnings.append)
    assert tracker.called.wait(10)
    assert warnings == ["tracking: a sync failed, the sweep goes on: ConnectionError: no store"]
    background.close("KILLED", [], None)
    assert warnings[1:] == ["tracking: the store is incomplete: ConnectionError: no store"]
    assert tracker.finished == ["KILLED"]
    assert len(background.errors) == tracker.syncs


def test_a_store_that_recovers_is_complete_at_the_end(sweep: Sweep) -> None:
    # A directory where the lock belongs: no sync gets past it.
    obstacle = sweep.root / "mlflow.lock"
    obstacle.mkdir()
    warned = threading.Event()
    warnings = list[str]()

    def warn(text: str) -> None:
        warnings.append(text)
        warned.set()

    background = BackgroundTracker(sweep.tracker(), 60.0, warn)
    assert warned.wait(60)
    obstacle.rmdir()
    background.close("FINISHED", [], None)
    assert len(warnings) == 1
    assert sweep.steps("heldout/avg_at_k") == [0, 10, 20]
    assert sweep.stored()["parent"].info.status == "FINISHED"


def test_no_tracking_is_a_tracker_that_does_nothing(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    none = TrackingConfig(name="none")
    tracker = make_tracker(sweep.paths, sweep.plan, SPEC_PARAMS, none, sweep.root, STOP)
    assert isinstance(tracker, NullTracker)
    tracker.sync()
    tracker.finish("FINISHED", [], None)
    chosen = make_tracker(sweep.paths, sweep.plan, SPEC_PARAMS, sweep.config, sweep.root, STOP)
    assert isinstance(chosen, MlflowTracker)


def test_importing_the_module_does_not_import_mlflow() -> None:
    code = "import sys, isosweep.tracking; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
