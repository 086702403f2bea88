"""Whose jobs are whose: by id, name and cluster; and when a job that is not found is given up."""

import json
import os
import time
from pathlib import Path

import pytest

from isosweep.errors import RecordError
from isosweep.launchers import slurm_jobs
from isosweep.launchers.launcher import Order
from isosweep.launchers.slurm import SlurmLauncher
from isosweep.plan.cells import PlannedRun
from isosweep.store.submissions import Job, started
from tests.conftest import make_config
from tests.launchers.fake import report
from tests.launchers.slurm_fakes import SETTINGS, Fakes, orders_of, row, states_of


def grow_old(order: Order, seconds: float) -> None:
    """Its worker wrote that long ago."""
    written = time.time() - seconds
    os.utime(order.submission.run.attempt(1), (written, written))


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


@pytest.mark.parametrize("job_id", ["17,18", "theirs", "17_[1-4]"])
def test_only_the_id_of_a_job_reaches_scancel(
    job_id: str, fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 1), [job_id])
    fakes.answers("squeue", row("17", "RUNNING", name="isosweep-B"))
    assert "no id of a job" in (launcher.stop(states, kill=True) or "")
    assert fakes.calls("scancel") == []


@pytest.mark.parametrize("job_id", ["--name=theirs", "-u me", "", "1 2"])
def test_what_is_an_option_of_commands_is_no_job(
    job_id: str, tmp_path: Path, run: PlannedRun
) -> None:
    with pytest.raises(RecordError, match="is none of a scheduler"):
        states_of(orders_of(tmp_path, run, 1), [job_id])


def test_a_foreign_array_with_the_id_is_no_sign_of_a_cancel(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    states = states_of(orders_of(tmp_path, run, 1), ["17_0"])
    fakes.answers("squeue", row("17_1", "RUNNING", name="theirs"))
    assert [launcher.observe(states)[0].outcome for _ in range(2)] == ["lost", "lost"]
    # Accounting is asked by name as well: of one id it tells the newest job only.
    assert "--jobs=17 --name=isosweep-B" in fakes.calls("sacct")[0]


def test_all_tasks_of_another_users_array_are_known_at_the_first_look(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 2), ["17_0", "17_1"])
    lines = [f"17_{task}|{task}|RUNNING|0:0|you|isosweep-B\n" for task in range(2)]
    fakes.answers("sacct", "".join(lines))
    assert [seen.status for seen in launcher.observe(states)] == ["running"] * 2


def test_tasks_that_are_to_stay_are_not_cancelled_with_those_of_their_array(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    states = states_of(orders_of(tmp_path, run, 3), [f"17_{task}" for task in range(3)])
    fakes.answers("squeue", "".join(row(f"17_{task}", "PENDING") for task in range(3)))
    assert launcher.stop(states[:2]) is None
    assert fakes.calls("scancel") == ["scancel 17_[0,1]"]


def test_the_throttle_of_a_foreign_array_is_left_alone(
    fakes: Fakes, tmp_path: Path, run: PlannedRun
) -> None:
    launcher = SlurmLauncher(make_config(*SETTINGS, "launcher.max_parallel=3"))
    fakes.answers("sbatch", "17\n")
    launcher.submit(orders_of(tmp_path, run, 5))
    fakes.answers("squeue", row("17_0", "RUNNING", name="isosweep-C"))
    launcher.submit(orders_of(tmp_path / "again", run, 1))
    assert fakes.calls("scontrol update") == []


def test_a_job_of_another_cluster_is_not_looked_for_here(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("scontrol", "ClusterName             = here\n")
    orders = orders_of(tmp_path, run, 2)
    started(orders[0].submission, Job(job_id="17_0", cluster="there"))
    started(orders[1].submission, Job(job_id="17_1", cluster="here"))
    states = states_of(orders)
    fakes.answers("squeue", row("17_0", "RUNNING") + row("17_1", "RUNNING"))
    seen = launcher.observe(states)
    assert [each.status for each in seen] == ["unknown", "running"]
    assert seen[0].reason == "job 17_0 is of the cluster there; Slurm here is here's"
    assert seen[0].reason in (launcher.stop(states, kill=True) or "")
    assert fakes.calls("scancel") == ["scancel --name=isosweep-B 17_[1]"]
    # Its worker is known by what it writes, wherever it is.
    report(orders[0].submission.run, 1, "running", 1.0)
    assert launcher.observe(states)[0].status == "unknown"
    grow_old(orders[0], 700)
    assert launcher.observe(states)[0].outcome == "interrupted"


def test_a_job_that_an_earlier_version_recorded_has_no_cluster(
    tmp_path: Path, run: PlannedRun
) -> None:
    (order,) = orders_of(tmp_path, run, 1)
    path = order.submission.run.submission(1, "job")
    path.write_text(json.dumps({"job_id": "17_0", "process": None}))
    assert states_of([order])[0].job == Job(job_id="17_0")


@pytest.mark.parametrize(
    ("accounting", "silent_s", "outcome"),
    [
        # What accounting has of the job, how long its worker has written nothing, and what is
        # concluded however long the queue has not had it.
        ("RUNNING", 5, None),
        ("RUNNING", 300, None),
        ("SUSPENDED", 300, None),
        ("PENDING", 300, None),
        ("REQUEUED", 300, None),
        ("RUNNING", 700, "interrupted"),
        (None, 5, None),
        (None, 60, None),
        (None, 150, "lost"),
        ("COMPLETED", 5, "lost"),
    ],
)
def test_a_run_is_given_up_only_when_nothing_says_that_it_lives(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
    accounting: str | None,
    silent_s: float,
    outcome: str | None,
) -> None:
    orders = orders_of(tmp_path, run, 1)
    states = states_of(orders, ["17_0"])
    report(orders[0].submission.run, 1, "running", 1.0)
    grow_old(orders[0], silent_s)
    if accounting:
        fakes.answers("sacct", f"17_0|19|{accounting}|0:0|me|isosweep-B\n")
    # At the second look the queue is asked about the user that accounting named at the first.
    for _ in range(2):
        launcher.observe(states)
    since = launcher._jobs._since
    since.update({path: (what, known - 1000) for path, (what, known) in since.items()})
    (seen,) = launcher.observe(states)
    assert (seen.outcome if seen.status == "gone" else None) == outcome
    assert seen.status in ("gone", "unknown")


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


def test_a_job_that_never_began_and_that_only_accounting_has_is_waited_for(
    fakes: Fakes,
    launcher: SlurmLauncher,
    tmp_path: Path,
    run: PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_jobs, "_PATIENCE_S", 0.0)
    states = states_of(orders_of(tmp_path, run, 1), ["17_0"])
    fakes.answers("sacct", "17_0|19|PENDING|0:0|me|isosweep-B\n")
    looks = [launcher.observe(states)[0].status for _ in range(3)]
    assert looks == ["pending", "unknown", "unknown"]
    monkeypatch.setattr(slurm_jobs, "SILENCE_S", 0.0)
    (seen,) = launcher.observe(states)
    assert seen.outcome == "interrupted"
    assert seen.reason.startswith("Slurm has no job 17_0 in its queue, though its accounting says")


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


def test_a_failed_job_is_told_by_its_exit_status(
    fakes: Fakes, launcher: SlurmLauncher, tmp_path: Path, run: PlannedRun
) -> None:
    fakes.answers("squeue", row("17_0", "FAILED", "NonZeroExitCode"))
    fakes.answers("sacct", "17_0|19|FAILED|137:0|me|isosweep-B\n")
    (seen,) = launcher.observe(states_of(orders_of(tmp_path, run, 1), ["17_0"]))
    assert seen.reason == "Slurm says FAILED (exit status 137)"


def test_what_a_site_exports_is_asked_for_where_no_setting_is(tmp_path: Path) -> None:
    from isosweep.launchers.site import with_site

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
