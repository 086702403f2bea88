"""What Slurm's answers mean, where a real one is not made to give them (tests/slurm has one)."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.commands import Answer
from isosweep.errors import RecordError
from isosweep.launchers import slurm, slurm_jobs
from isosweep.launchers.cluster import longest_minutes
from isosweep.launchers.launcher import Order, Refused
from isosweep.launchers.site import with_site
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.launchers.slurm_jobs import SlurmJobs
from isosweep.launchers.squeue import refusal, squeue_rows
from isosweep.store.paths import RunPaths
from isosweep.store.submissions import Job, SubmissionState, read_submission, started, submit
from tests.conftest import make_config
from tests.launchers.fake import report, the_plan

SETTINGS = ("launcher=slurm", "budget=1e10")


def submitted(tmp_path: Path, job_id: str = "17_0") -> SubmissionState:
    """A submission, the first of the batch B, whose job has this id."""
    run = RunPaths(tmp_path / "runs" / "r")
    run.root.mkdir(parents=True)
    submission = submit(run, "slurm", {}, str(tmp_path / "sweep"), "B")
    assert submission is not None
    started(submission, Job(job_id=job_id))
    return read_submission(run, 1)


def row(job_id: str, state: str, reason: str = "None", name: str = "isosweep-B") -> str:
    """A line of squeue."""
    return f"{job_id}|{state}|{reason}|{name}\n"


@pytest.fixture
def squeue_prints(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have squeue print a text from now on."""

    def prints(text: str) -> None:
        answer = Answer(program="squeue", status=0, output=text, timeout_s=60.0)
        monkeypatch.setattr(slurm_jobs, "call", lambda command: answer)

    return prints


@pytest.mark.parametrize(
    ("words", "passing", "unknown"),
    [
        ("Unable to contact slurm controller (connect failure)", True, False),
        ("Unable to contact slurm controller (receive failure)", True, True),
        ("Zero Bytes were transmitted or received", True, True),
        ("Rate limit exceeded, please retry later", True, False),
        ("Required partition not available (inactive or drain)", True, False),
        ("MaxJobCount limit reached", True, False),
        ("QOSMaxWallDurationPerJobLimit\nJob violates accounting/QOS policy", False, False),
        ("Invalid account or account/partition combination specified", False, False),
        ("Requested node configuration is not available", False, False),
        ("Requested time limit is invalid (missing or exceeds some limit)", False, False),
    ],
)
def test_slurms_words_say_whether_a_refusal_passes(
    words: str, passing: bool, unknown: bool
) -> None:
    means = refusal(words, timed_out=False)
    assert (means.passing, means.unknown) == (passing, unknown)


# As Slurm 22.05 refuses an array for the limit MaxSubmitJobs of the user's association.
NO_ROOM = """\
sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
user's size and/or time limits)
"""


def test_a_limit_on_submitted_jobs_has_fewer_sent_at_once_and_the_rest_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, sent = 3, list[str]()

    def sbatch(command: list[str], given: str = "") -> Answer:
        nonlocal room
        tasks = given.partition("--array=")[2].partition("%")[0]
        first, _, last = tasks.partition("-")
        if (size := int(last or first) - int(first) + 1) > room:
            return Answer(program="sbatch", status=1, errors=NO_ROOM, timeout_s=60.0)
        room -= size
        sent.append(tasks)
        return Answer(program="sbatch", status=0, output=f"{len(sent)}\n", timeout_s=60.0)

    monkeypatch.setattr(slurm, "call", sbatch)
    launcher, run = SlurmLauncher(make_config(*SETTINGS)), the_plan().runs[0]
    orders = []
    for index in range(8):
        paths = RunPaths(tmp_path / "runs" / str(index))
        paths.root.mkdir(parents=True)
        submission = submit(paths, "slurm", {}, str(tmp_path / "sweep"), "B", index)
        assert submission is not None
        orders.append(Order(submission=submission, run=run, logs=paths.logs, slot=0))
    answers = launcher.submit(orders)
    assert sent == ["0-1", "2"]
    assert answers[:3] == [Job(job_id=name) for name in ("1_0", "1_1", "2_2")]
    (refused,) = set(answers[3:])
    assert isinstance(refused, Refused)
    assert (refused.passing, refused.unknown) == (True, False)
    assert "AssocMaxSubmitJobLimit" in refused.reason
    room = 8
    assert all(isinstance(answer, Job) for answer in launcher.submit(orders[3:]))
    assert sent[2:] == ["3-4", "5-6", "7"]


def test_an_sbatch_that_gives_no_answer_may_have_been_obeyed() -> None:
    assert refusal("", timed_out=True) == Refused(reason="", passing=True, unknown=True)


def test_a_state_that_no_manual_has_says_nothing() -> None:
    known = ("REQUEUE_HOLD", "SUSPENDED", "OUT_OF_MEMORY", "TIMEOUT", "SOMETHING_NEW")
    rows = squeue_rows("".join(row("17_0", state) for state in known))
    assert [each.status for each in rows] == ["pending", "running", "gone", "gone", "unknown"]


def test_a_state_that_slurm_may_leave_by_a_requeue_is_believed_later(
    squeue_prints: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, state = SlurmJobs(requeues=True), submitted(tmp_path)
    squeue_prints(row("17_0", "NODE_FAIL"))
    assert jobs.observe([state])[0].status == "unknown"
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    (seen,) = jobs.observe([state])
    assert (seen.status, seen.outcome) == ("gone", "interrupted")


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
        (None, row("17_0", "RUNNING", name="theirs"), "lost"),
    ],
)
def test_a_job_that_is_nowhere_is_given_up_once_its_worker_is_silent_too(
    squeue_prints: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    silent_s: float | None,
    others: str,
    outcome: str | None,
) -> None:
    jobs, state = SlurmJobs(requeues=True), submitted(tmp_path)
    run = state.submission.run
    if silent_s is not None:
        report(run, 1, "running", 1.0)
        written = time.time() - silent_s
        os.utime(run.attempt(1), (written, written))
    squeue_prints(others)
    assert jobs.observe([state])[0].status == "unknown"
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    (seen,) = jobs.observe([state])
    assert (seen.outcome if seen.status == "gone" else None) == outcome


def test_a_run_whose_files_are_not_to_be_seen_is_not_lost(
    squeue_prints: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    jobs, state = SlurmJobs(requeues=True), submitted(tmp_path)
    squeue_prints("")
    (tmp_path / "runs").rename(tmp_path / "away")
    assert [jobs.observe([state])[0].status for _ in range(2)] == ["unknown"] * 2


@pytest.mark.parametrize("job_id", ["--name=theirs", "-u me", "", "1 2"])
def test_what_is_an_option_of_commands_is_no_job(job_id: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"1\.job\.json: job_id is "):
        submitted(tmp_path, job_id)


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
