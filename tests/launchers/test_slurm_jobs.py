"""What Slurm's answers mean, where a real one is not made to give them (tests/slurm has one)."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from isosweep.commands import Answer
from isosweep.config.base import replaced
from isosweep.launchers import sbatch, slurm
from isosweep.launchers.launcher import Order, Refused
from isosweep.launchers.sbatch import longest_minutes, site_options
from isosweep.launchers.slurm import SlurmLauncher, rows_of
from isosweep.store.attempts import Attempt, Status, create_attempt
from isosweep.store.paths import RunPaths
from tests.conftest import make_config
from tests.launchers.fake import the_plan

SETTINGS = ("launcher=slurm", "budget=1e10")


def submitted(tmp_path: Path, index: int = 0) -> Attempt:
    """An attempt of the batch B."""
    run = RunPaths(tmp_path / "runs" / str(index))
    run.root.mkdir(parents=True)
    attempt = create_attempt(run, "slurm", str(tmp_path / "sweep"), {}, "B", index)
    assert attempt is not None
    return attempt


def row(job_id: str, state: str, reason: str = "None", name: str = "isosweep-B") -> str:
    """A line of squeue."""
    return f"{job_id}|{state}|{reason}|{name}\n"


@pytest.fixture
def squeue_prints(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have squeue print a text from now on."""

    def prints(text: str) -> None:
        answer = Answer(program="squeue", status=0, output=text, timeout_s=60.0)
        monkeypatch.setattr(slurm, "call", lambda command: answer)

    return prints


@pytest.fixture
def launcher() -> SlurmLauncher:
    return SlurmLauncher(make_config(*SETTINGS))


TAKEN = None


@pytest.mark.parametrize(
    ("words", "passing"),
    [
        ("Unable to contact slurm controller (connect failure)", True),
        # The request may have been obeyed: the job is looked for.
        ("Zero Bytes were transmitted or received", TAKEN),
        ("Socket timed out on send/recv operation", TAKEN),
        ("Required partition not available (inactive or drain)", True),
        ("Could not establish a configuration source", True),
        ("Protocol authentication error", True),
        ("QOSMaxWallDurationPerJobLimit\nJob violates accounting/QOS policy", False),
        ("Invalid account or account/partition combination specified", False),
    ],
)
def test_slurms_words_say_whether_a_refusal_passes(
    words: str,
    passing: bool | None,
    launcher: SlurmLauncher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Answer(program="sbatch", status=1, errors=words, timeout_s=60.0)
    monkeypatch.setattr(slurm, "call", lambda command, given="": answer)
    monkeypatch.setattr(sbatch, "call", lambda command: answer)
    order = Order(attempt=submitted(tmp_path), run=the_plan().runs[0])
    (refused,) = launcher.submit([order])
    assert (refused and refused.passing) == passing


# As Slurm 22.05 refuses an array for the limit MaxSubmitJobs of the user's association.
NO_ROOM = """\
sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
user's size and/or time limits)
"""


def test_a_limit_on_submitted_jobs_has_fewer_sent_at_once_and_the_rest_later(
    launcher: SlurmLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, sent, tried = 3, list[str](), 0

    def sbatch_(command: list[str], given: str = "") -> Answer:
        nonlocal room, tried
        if command[0] != "sbatch":
            return Answer(program=command[0], status=0, timeout_s=60.0)
        tried += 1
        tasks = given.partition("--array=")[2].partition("%")[0]
        first, _, last = tasks.partition("-")
        if (size := int(last or first) - int(first) + 1) > room:
            return Answer(program="sbatch", status=1, errors=NO_ROOM, timeout_s=60.0)
        room -= size
        sent.append(tasks)
        return Answer(program="sbatch", status=0, output=f"{len(sent)}\n", timeout_s=60.0)

    monkeypatch.setattr(slurm, "call", sbatch_)
    monkeypatch.setattr(sbatch, "call", sbatch_)
    run = the_plan().runs[0]
    attempts = [submitted(tmp_path, index) for index in range(8)]
    orders = [Order(attempt=each, run=run) for each in attempts]
    answers = launcher.submit(orders)
    # Of 8, 4, 2 and 2, 1 and 1: the rest is not tried one by one.
    assert (sent, tried) == (["0-1", "2"], 6)
    assert answers[:3] == [None] * 3
    (refused,) = set(answers[3:])
    assert isinstance(refused, Refused)
    assert refused.passing
    assert "AssocMaxSubmitJobLimit" in refused.reason
    room = 8
    assert not any(launcher.submit(orders[3:]))
    assert sent[2:] == ["3-7"]


def test_runs_that_may_not_take_so_long_are_refused_without_those_beside_them(
    launcher: SlurmLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "QOSMaxWallDurationPerJobLimit\nJob violates accounting/QOS policy"

    def sbatch_(command: list[str], given: str = "") -> Answer:
        tasks = given.partition("--array=")[2].partition("%")[0]
        if command[0] == "sbatch" and tasks != "1":
            return Answer(program="sbatch", status=1, errors=words, timeout_s=60.0)
        return Answer(program=command[0], status=0, output="7\n", timeout_s=60.0)

    monkeypatch.setattr(slurm, "call", sbatch_)
    monkeypatch.setattr(sbatch, "call", sbatch_)
    run = the_plan().runs[0]
    orders = [Order(attempt=submitted(tmp_path, index), run=run) for index in range(2)]
    refused, taken = launcher.submit(orders)
    assert taken is None
    assert refused is not None
    assert not refused.passing


@pytest.mark.parametrize(
    ("state", "status"),
    [
        *(("REQUEUE_HOLD", "pending"), ("SUSPENDED", "running"), ("OUT_OF_MEMORY", "ended")),
        *(("TIMEOUT", "ended"), ("NODE_FAIL", "restarting"), ("SOMETHING_NEW", "unknown")),
    ],
)
def test_each_state_of_slurm_is_known(
    state: str,
    status: str,
    squeue_prints: Callable[[str], None],
    launcher: SlurmLauncher,
    tmp_path: Path,
) -> None:
    squeue_prints(row("17_0", state))
    (seen,) = launcher.observe([submitted(tmp_path)])
    assert (seen.status, seen.job_id) == (status, "17_0")


def test_an_array_that_was_cancelled_before_it_began_has_one_row_for_all_its_tasks() -> None:
    rows = rows_of(row("17_[0-2,5%2]", "CANCELLED") + row("18", "RUNNING") + "a plugin says hello")
    assert [task for _, task in rows] == [0, 1, 2, 5]
    assert rows["isosweep-B", 5].job_id == "17_5"


@pytest.mark.parametrize(
    ("seen_before", "others", "outcome"),
    [
        (False, "", Status.LOST),
        (True, "", Status.LOST),
        # A waiting task that was cancelled leaves nothing, but the array is there; one that was
        # never seen may not have been taken.
        (True, row("17_1", "RUNNING"), Status.CANCELLED),
        (False, row("17_1", "RUNNING"), Status.LOST),
        (True, row("17_0", "RUNNING", name="theirs"), Status.LOST),
    ],
)
def test_a_waiting_task_that_was_cancelled_is_told_from_a_lost_one(
    squeue_prints: Callable[[str], None],
    launcher: SlurmLauncher,
    tmp_path: Path,
    seen_before: bool,
    others: str,
    outcome: Status,
) -> None:
    attempt = submitted(tmp_path)
    if seen_before:
        squeue_prints(row("17_0", "PENDING"))
        assert launcher.observe([attempt])[0].status == "pending"
    squeue_prints(others)
    (seen,) = launcher.observe([attempt])
    assert (seen.status, seen.outcome) == ("missing", outcome)


def test_the_strictest_of_the_partitions_limits_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "PartitionName=main Default=YES MaxTime=1-02:00:00 State=UP\n"
        "PartitionName=high Default=NO MaxTime=04:00:00 State=UP\n"
        "PartitionName=long Default=NO MaxTime=UNLIMITED State=UP\n"
    )
    answer = Answer(program="scontrol", status=0, output=text, timeout_s=60.0)
    monkeypatch.setattr(sbatch, "call", lambda command: answer)
    settings = make_config(*SETTINGS).launcher.slurm
    assert longest_minutes(settings) == 26 * 60
    assert longest_minutes(replaced(settings, partition=["main", "high"])) == 240
    assert longest_minutes(replaced(settings, partition=["long"])) == math.inf


def test_what_a_site_exports_is_asked_for_where_no_setting_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"ACCOUNT": "lab", "PARTITION": "a,b", "QOS": "", "GRES": "x", "RESERVATION": "s"}
    for name, value in given.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)

    def asked(*settings: str) -> dict[str, str]:
        return site_options(make_config(*SETTINGS, *settings).launcher.slurm)

    assert asked() == {"account": "lab", "partition": "a,b", "reservation": "s"}
    own = ("launcher.slurm.account=mine", "launcher.slurm.additional={reservation: r}")
    assert asked(*own) == {"partition": "a,b"}
