"""What becomes of jobs by what Slurm's commands answer: each is played by a script."""

from pathlib import Path

import pytest

from isosweep import commands
from isosweep.launchers import slurm_jobs
from isosweep.launchers.launcher import Refused
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.launchers.squeue import grouped, longest_minutes, sacct_rows, squeue_rows
from isosweep.plan.cells import PlannedRun
from isosweep.store.submissions import Job, Outcome
from tests.conftest import make_config
from tests.launchers.slurm_fakes import SETTINGS, Fakes, orders_of, row, states_of


def test_a_batch_is_one_array_whose_tasks_print_into_their_runs_logs(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("sbatch", "17;lab\n", "sbatch: a plugin says hello")
    orders = orders_of(tmp_path, run, 3)
    jobs = [Job(job_id=f"17_{task}", cluster="lab") for task in range(3)]
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


def test_a_limit_on_submitted_jobs_leads_to_smaller_arrays(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    # A limit of 5 tasks: as a plugin of accounting counts them.
    fakes.runs(
        "sbatch",
        f"""tasks=$(sed -n 's/.*--array=\\([0-9]*\\)-\\([0-9]*\\)%.*/\\2-\\1+1/p' "$script")
tasks=$(( ${{tasks:-1}} )); used=$(cat {tmp_path}/used 2>/dev/null || echo 0)
if [ $(( used + tasks )) -gt 5 ]; then
  echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1
fi
echo $(( used + tasks )) >{tmp_path}/used; echo $(( 100 + used ))""",
    )
    answers = launcher.submit(orders_of(tmp_path, run, 16))
    taken = [answer.job_id for answer in answers if isinstance(answer, Job)]
    assert len(taken) == len(set(taken)) == 5
    assert [answer.passing for answer in answers if isinstance(answer, Refused)] == [True] * 11
    assert len(fakes.calls("sbatch")) <= 8


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


def test_a_run_that_is_tried_again_gets_a_place_of_the_array_before_it(
    fakes: Fakes, tmp_path: Path, run: PlannedRun
) -> None:
    launcher = SlurmLauncher(make_config(*SETTINGS, "launcher.max_parallel=3"))
    fakes.answers("sbatch", "17\n")
    orders = orders_of(tmp_path, run, 5)
    launcher.submit(orders)
    assert "--array=0-4%3" in fakes.scripts()[0]
    fakes.answers("sbatch", "18\n")
    tasks = "".join(row(f"17_{task}", "RUNNING") for task in range(5))
    fakes.answers("squeue", tasks)
    again = orders_of(tmp_path / "again", run, 1)
    launcher.submit(again)
    assert fakes.calls("scontrol update") == ["scontrol update JobId=17 ArrayTaskThrottle=2"]
    assert "--dependency" not in fakes.scripts()[1]
    states = states_of(orders, [f"17_{task}" for task in range(5)]) + states_of(again, ["18"])
    fakes.answers("squeue", tasks + row("18", "RUNNING"))
    launcher.observe(states)
    assert fakes.calls("scontrol update")[-1].endswith("=2"), "both are there"
    fakes.answers("squeue", tasks)
    launcher.observe(states)
    assert fakes.calls("scontrol update")[-1].endswith("=3")


def test_a_held_job_waits_and_says_how_it_is_let_go(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("squeue", row("17_0", "PENDING", "JobHeldUser"))
    (seen,) = launcher.observe(states_of(orders_of(tmp_path, run, 1), ["17_0"]))
    assert seen.reason == "JobHeldUser: held; scontrol release 17_0 lets it go"


def test_nothing_is_concluded_while_the_controller_is_down(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    words = "Unable to contact slurm controller (connect failure)"
    fakes.answers("squeue", "", f"slurm_load_jobs error: {words}", status=1)
    seen = launcher.observe(states_of(orders_of(tmp_path, run, 2), ["17_0", "17_1"]))
    assert {each.status for each in seen} == {"unknown"}
    assert words in seen[0].reason
    fakes.answers("squeue", "")
    fakes.answers("sacct", "", "sacct: error: slurmdbd: Connection refused", status=1)
    assert (
        launcher.observe(states_of(orders_of(tmp_path / "b", run, 1), ["18"]))[0]
        == (launcher.observe(states_of(orders_of(tmp_path / "c", run, 1), ["18"]))[0])
    )


def test_accounting_says_how_a_job_ended_that_the_queue_has_forgotten(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 3), ["17_0", "17_1", "17_2"])
    fakes.answers("squeue", row("17_0", "RUNNING"))
    fakes.answers(
        "sacct", "17_1|19|CANCELLED by 0|0:0|me|isosweep-B\n17_2|20|TIMEOUT|0:0|me|isosweep-B\n"
    )
    seen = launcher.observe(states)
    assert [each.status for each in seen] == ["running", "gone", "gone"]
    assert (seen[1].outcome, seen[1].reason) == ("cancelled", "Slurm says CANCELLED (by root)")
    assert len(fakes.calls("squeue")) == len(fakes.calls("sacct")) == 1


def test_a_job_that_is_seen_nowhere_is_lost_only_after_a_while(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = states_of(orders_of(tmp_path, run, 1), ["17_0"])
    fakes.answers("sacct", "", "Slurm accounting storage is disabled", status=1)
    assert launcher.observe(states)[0].status == "unknown"
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    assert launcher.observe(states)[0].outcome == "lost"
    # A waiting task that was cancelled leaves nothing, but the array is there.
    fakes.answers("squeue", row("17_1", "RUNNING"))
    assert launcher.observe(states)[0].outcome == "cancelled"


def test_a_job_whose_answer_was_lost_is_found_by_its_name(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("squeue", row("17_1", "RUNNING") + row("9_1", "RUNNING", name="other"))
    seen = launcher.observe(states_of(orders_of(tmp_path, run, 2)))
    assert [each.job for each in seen] == [None, Job(job_id="17_1")]
    assert seen[0].status == "unknown"


def test_a_failed_job_is_told_with_the_last_line_that_it_printed(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    orders = orders_of(tmp_path, run, 1)
    log = (
        "module: no cuda/99 here\nLoading: 100%|#| 1/1\n"
        "srun: error: n1: task 0: Exited with exit code 127\n"
    )
    (orders[0].logs / "17_0_0_log.err").write_text(log)
    fakes.answers("squeue", row("17_0", "FAILED", "NonZeroExitCode"))
    (seen,) = launcher.observe(states_of(orders, ["17_0"]))
    assert seen.reason == "Slurm says FAILED (NonZeroExitCode): module: no cuda/99 here"


def test_a_failed_job_of_several_nodes_is_told_with_the_last_line_of_each(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    orders = orders_of(tmp_path, run, 1)
    for node, log in enumerate(("peer closed", "", "x" * 500, "killed\nslurmstepd-n2: bye")):
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
        "scancel --name=isosweep-B 17_[2,3]",
        "scancel --name=isosweep-B --signal=TERM 17_[0,1]",
    ]
    fakes.answers("scancel", "", "scancel: error: Access/permission denied", status=1)
    assert launcher.stop(states, kill=True) == "Access/permission denied"


def test_compressed_tasks_and_odd_lines_are_understood() -> None:
    rows = list(squeue_rows("17_[2-3,7%2]|17|PENDING|Resources|me|isosweep-B\nhello\n"))
    assert [each.job_id for each in rows] == ["17_2", "17_3", "17_7"]
    (ended,) = sacct_rows("17_1|19|FAILED|1:0|me|isosweep-B\n|||\n")
    assert ended.words == "FAILED (exit status 1)"
    assert grouped(["17_1", "18", "17_3"]) == ["17_[1,3]", "18"]


def test_the_strictest_of_the_partitions_limits_a_job() -> None:
    text = (
        "PartitionName=main Default=YES MaxTime=1-02:00:00 State=UP\n"
        "PartitionName=high Default=NO MaxTime=04:00:00 State=UP\n"
        "PartitionName=long Default=NO MaxTime=UNLIMITED State=UP\n"
    )
    assert longest_minutes(text, None) == 26 * 60
    assert longest_minutes(text, ["main", "high"]) == 240
    assert longest_minutes(text, ["long"]) is None
