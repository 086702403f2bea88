"""Whose jobs are whose, what becomes of them by what Slurm answers, and what it is told.

Slurm's commands are played by scripts; tests/slurm has a real one.
"""

import os
import time
from pathlib import Path

import pytest

from isosweep import commands
from isosweep.errors import RecordError
from isosweep.launchers import slurm_jobs
from isosweep.launchers.cluster import longest_minutes
from isosweep.launchers.launcher import Refused
from isosweep.launchers.site import with_site
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.plan.cells import PlannedRun
from isosweep.store.submissions import Job, Outcome
from tests.conftest import make_config
from tests.launchers.fake import report
from tests.launchers.slurm_fakes import SETTINGS, Fakes, orders_of, row, states_of


def test_a_batch_is_one_array_whose_tasks_print_into_their_runs_logs(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("sbatch", "17;lab\n", "sbatch: a plugin says hello")
    orders = orders_of(tmp_path, run, 3)
    jobs = [Job(job_id=f"17_{task}") for task in range(3)]
    assert launcher.submit(orders) == jobs
    (text,) = fakes.scripts()
    assert "--array=0-2%3" in text
    for order in orders:
        link = tmp_path / "sweep" / "batches" / "B" / str(order.submission.index)
        assert link.resolve() == order.logs


@pytest.mark.parametrize(
    ("words", "passing", "unknown"),
    [
        ("Unable to contact slurm controller (connect failure)", True, False),
        ("Unable to contact slurm controller (receive failure)", True, True),
        ("Socket timed out on send/recv operation", True, True),
        ("Zero Bytes were transmitted or received", True, True),
        ("Rate limit exceeded, please retry later", True, False),
        ("Required partition not available (inactive or drain)", True, False),
        ("AssocMaxSubmitJobLimit\nBatch job submission failed: Job violates", True, False),
        ("MaxJobCount limit reached", True, False),
        ("QOSMaxWallDurationPerJobLimit\nJob violates accounting/QOS policy", False, False),
        ("Invalid partition name specified", False, False),
        ("Invalid account or account/partition combination specified", False, False),
        ("Invalid qos specification", False, False),
        ("Invalid feature specification", False, False),
        ("Requested node configuration is not available", False, False),
        ("Requested time limit is invalid (missing or exceeds some limit)", False, False),
    ],
)
def test_a_refusal_is_in_slurms_words_and_says_whether_it_passes(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    words: str,
    passing: bool,
    unknown: bool,
) -> None:
    fakes.answers("sbatch", "", f"sbatch: error: {words}\n", status=1)
    (answer,) = launcher.submit(orders_of(tmp_path, run, 1))
    assert isinstance(answer, Refused)
    assert answer.reason == "; ".join(words.splitlines())
    assert (answer.passing, answer.unknown) == (passing, unknown)


def test_an_sbatch_that_gives_no_answer_may_have_been_obeyed(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands.call, "__kwdefaults__", {"given": "", "timeout_s": 2.0})
    fakes.runs("sbatch", "echo 'sbatch: error: sleeping and retrying' >&2; exec sleep 20")
    (answer,) = launcher.submit(orders_of(tmp_path, run, 1))
    reason = "sbatch gave no answer in 2 s: sleeping and retrying"
    assert answer == Refused(reason=reason, passing=True, unknown=True)


def test_arrays_that_are_submitted_together_keep_to_max_parallel_one_after_another(
    fakes: Fakes, tmp_path: Path, run: PlannedRun
) -> None:
    launcher = SlurmLauncher(make_config(*SETTINGS, "launcher.max_parallel=3"))
    fakes.answers("sbatch", "17\n")
    orders = orders_of(tmp_path, run, 5)
    launcher.submit([*orders, *orders_of(tmp_path / "more", run, 2)])
    first, second = fakes.scripts()
    assert "--array=0-4%3\n" in first
    assert "--dependency" not in first
    assert "--array=0-1%2\n" in second
    assert "--dependency=afterany:17\n" in second


@pytest.mark.parametrize(
    ("state", "reason", "status", "outcome"),
    [
        ("PENDING", "Priority", "pending", None),
        ("CONFIGURING", "None", "pending", None),
        ("REQUEUED", "None", "pending", None),
        ("REQUEUE_HOLD", "JobHoldMaxRequeue", "pending", None),
        ("SPECIAL_EXIT", "None", "pending", None),
        ("RUNNING", "None", "running", None),
        ("COMPLETING", "None", "running", None),
        ("SUSPENDED", "None", "running", None),
        ("COMPLETED", "None", "gone", "lost"),
        ("FAILED", "NonZeroExitCode", "gone", "failed"),
        ("OUT_OF_MEMORY", "OutOfMemory", "gone", "failed"),
        ("DEADLINE", "None", "gone", "failed"),
        ("CANCELLED", "None", "gone", "cancelled"),
        ("TIMEOUT", "TimeLimit", "gone", "interrupted"),
        ("NODE_FAIL", "None", "unknown", None),
        ("PREEMPTED", "None", "unknown", None),
        ("BOOT_FAIL", "None", "unknown", None),
        ("REVOKED", "None", "unknown", None),
        ("SOMETHING_NEW", "None", "unknown", None),
    ],
)
def test_every_state_of_slurm_is_known(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    state: str,
    reason: str,
    status: str,
    outcome: Outcome | None,
) -> None:
    fakes.answers("squeue", row("17_0", state, reason))
    (seen,) = launcher.observe(states_of(orders_of(tmp_path, run, 1), ["17_0"]))
    assert seen.status == status
    assert outcome in (None, seen.outcome)


def test_a_state_that_slurm_may_leave_by_a_requeue_is_believed_later(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = states_of(orders_of(tmp_path, run, 1), ["17_0"])
    fakes.answers("squeue", row("17_0", "NODE_FAIL"))
    assert launcher.observe(states)[0].status == "unknown"
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    (seen,) = launcher.observe(states)
    assert (seen.status, seen.outcome) == ("gone", "interrupted")


def test_nothing_is_concluded_while_the_controller_is_down(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    words = "Unable to contact slurm controller (connect failure)"
    fakes.answers("squeue", "", f"slurm_load_jobs error: {words}", status=1)
    seen = launcher.observe(states_of(orders_of(tmp_path, run, 2), ["17_0", "17_1"]))
    assert {each.status for each in seen} == {"unknown"}
    assert words in seen[0].reason


def test_an_error_of_munge_is_told_by_its_cause(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    words = (
        "squeue: error: If munged is up, restart with --num-threads=10\n"
        'squeue: error: Munge encode failed: Failed to access "/run/m": No such file (Did you?)\n'
        "squeue: error: slurm_send_node_msg: auth_g_create: REQUEST_JOB_INFO has an error\n"
        "slurm_load_jobs error: Protocol authentication error\n"
    )
    fakes.answers("squeue", "", words, status=1)
    (seen,) = launcher.observe(states_of(orders_of(tmp_path, run, 1), ["17_0"]))
    assert seen.reason == 'Munge encode failed: Failed to access "/run/m": No such file (Did you?)'


@pytest.mark.parametrize(
    ("silent_s", "others", "outcome"),
    [
        # How long its worker has written nothing, what Slurm has beside it, and what is concluded
        # however long the queue has not had it.
        (5, "", None),
        (60, "", None),
        (150, "", "lost"),
        (None, "", "lost"),
        # A waiting task that was cancelled leaves nothing, but the array is there.
        (None, row("17_1", "RUNNING"), "cancelled"),
        (None, row("17_1", "RUNNING", name="theirs"), "lost"),
    ],
)
def test_a_job_that_is_nowhere_is_given_up_once_its_worker_is_silent_too(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
    silent_s: float | None,
    others: str,
    outcome: str | None,
) -> None:
    orders = orders_of(tmp_path, run, 1)
    states = states_of(orders, ["17_0"])
    if silent_s is not None:
        report(orders[0].submission.run, 1, "running", 1.0)
        written = time.time() - silent_s
        os.utime(orders[0].submission.run.attempt(1), (written, written))
    fakes.answers("squeue", others)
    assert launcher.observe(states)[0].status == "unknown"
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    (seen,) = launcher.observe(states)
    assert (seen.outcome if seen.status == "gone" else None) == outcome


def test_a_run_whose_files_are_not_to_be_seen_is_not_lost(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    states = states_of(orders_of(tmp_path, run, 1), ["17_0"])
    (tmp_path / "runs").rename(tmp_path / "away")
    assert [launcher.observe(states)[0].status for _ in range(2)] == ["unknown"] * 2


def test_a_job_of_another_name_is_not_the_submissions(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 2), ["17_0", "17_1"])
    theirs = "".join(row(f"17_{task}", "RUNNING", name="isosweep-C") for task in range(2))
    fakes.answers("squeue", theirs)
    assert [seen.status for seen in launcher.observe(states)] == ["unknown"] * 2
    assert "Slurm has no job 17_0" in launcher.observe(states)[0].reason
    launcher.stop(states, kill=True)
    assert all("--name=isosweep-B " in call for call in fakes.calls("scancel"))


@pytest.mark.parametrize("job_id", ["--name=theirs", "-u me", "", "1 2"])
def test_what_is_an_option_of_commands_is_no_job(
    job_id: str, tmp_path: Path, run: PlannedRun
) -> None:
    with pytest.raises(RecordError, match="is none of a scheduler"):
        states_of(orders_of(tmp_path, run, 1), [job_id])


def test_a_failed_job_of_several_nodes_is_told_with_the_last_line_of_each(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    orders = orders_of(tmp_path, run, 1)
    for node, log in enumerate(
        ("peer closed\nLoading: 100%|#| 1/1", "", "x" * 500, "killed\nslurmstepd-n2: bye")
    ):
        (orders[0].logs / f"17_0_{node}_log.err").write_text(f"{log}\n")
    fakes.answers("squeue", row("17_0", "FAILED", "NonZeroExitCode"))
    (seen,) = launcher.observe(states_of(orders, ["17_0"]))
    said = f"node 0: peer closed; node 2: {'x' * 100}; node 3: killed"
    assert seen.reason == f"Slurm says FAILED (NonZeroExitCode): {said}"


def test_waiting_jobs_are_cancelled_and_running_ones_told_to_leave(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    ids = [f"17_{task}" for task in range(4)]
    states = states_of(orders_of(tmp_path, run, 4), ids)
    rows = [row(job_id, "RUNNING" if job_id < "17_2" else "PENDING") for job_id in ids]
    fakes.answers("squeue", "".join(rows))
    assert launcher.stop(states) is None
    assert fakes.calls("scancel") == [
        "scancel 17_[2,3]",
        "scancel --name=isosweep-B --signal=TERM 17_[0,1]",
    ]
    fakes.answers("scancel", "", "scancel: error: Access/permission denied", status=1)
    assert launcher.stop(states, kill=True) == "Access/permission denied"


def test_tasks_that_are_to_stay_are_not_cancelled_with_those_of_their_array(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 3), [f"17_{task}" for task in range(3)])
    fakes.answers("squeue", "".join(row(f"17_{task}", "PENDING") for task in range(3)))
    assert launcher.stop(states[:2]) is None
    assert fakes.calls("scancel") == ["scancel 17_[0,1]"]


def test_the_strictest_of_the_partitions_limits_a_job() -> None:
    text = (
        "PartitionName=main Default=YES MaxTime=1-02:00:00 State=UP\n"
        "PartitionName=high Default=NO MaxTime=04:00:00 State=UP\n"
        "PartitionName=long Default=NO MaxTime=UNLIMITED State=UP\n"
    )
    assert longest_minutes(text, None) == 26 * 60
    assert longest_minutes(text, ["main", "high"]) == 240
    assert longest_minutes(text, ["long"]) is None


def test_what_a_site_exports_is_asked_for_where_no_setting_is(tmp_path: Path) -> None:
    site = {
        "SBATCH_ACCOUNT": "lab",
        "SBATCH_PARTITION": "a,b",
        "SBATCH_QOS": "",
        "SBATCH_GRES": "x",
    }
    given = "launcher.slurm.additional={reservation: r}"
    config, taken = with_site(make_config(*SETTINGS, given), site | {"SBATCH_RESERVATION": "s"})
    assert taken == {"SBATCH_ACCOUNT": "lab", "SBATCH_PARTITION": "a,b"}
    slurm = config.launcher.slurm
    assert (slurm.account, slurm.partition, slurm.qos) == ("lab", ["a", "b"], None)
    assert slurm.additional == {"reservation": "r"}
    of_site = with_site(make_config(*SETTINGS), {"SBATCH_RESERVATION": "s"})[0].launcher.slurm
    assert of_site.additional == {"reservation": "s"}
    config, taken = with_site(make_config(*SETTINGS, "launcher.slurm.account=mine"), site)
    assert config.launcher.slurm.account == "mine"
    assert list(taken) == ["SBATCH_PARTITION"]
