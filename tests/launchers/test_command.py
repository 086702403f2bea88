"""`launcher=command` and the shipped files, with commands that work and that fail in every way."""

import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.errors import PreflightError, SettingError
from isosweep.launchers.launcher import Observed, Order, Refused
from isosweep.launchers.templates import job_name
from isosweep.store.submissions import Job, started
from tests.launchers.schedulers import (
    KUEUE,
    PBS,
    RAY,
    SCHEDULERS,
    SKYPILOT,
    Cluster,
    Scheduler,
    fails,
    prints,
)

QUICK = "launcher.command.timeout_s=0.4"


@pytest.fixture(params=SCHEDULERS, ids=lambda scheduler: scheduler.launcher)
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    return _cluster(request.param, tmp_path, monkeypatch)


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return _cluster(PBS, tmp_path, monkeypatch)


def _cluster(scheduler: Scheduler, root: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    scheduler.install(root / "bin", monkeypatch)
    return Cluster(scheduler, root / "bin", root)


def _id(cluster: Cluster, order: Order) -> str:
    return cluster.scheduler.job_id or job_name(order.submission)


def _observed(cluster: Cluster, order: Order, *overrides: str) -> Observed:
    (observed,) = cluster.launcher(*overrides).observe([cluster.state(order)])
    return observed


def test_a_job_is_made_and_its_states_are_known(cluster: Cluster) -> None:
    order = cluster.order()
    cluster.does("submit", prints(cluster.scheduler.made))
    assert cluster.launcher().submit([order]) == [Job(job_id=_id(cluster, order))]
    started(order.submission, Job(job_id=_id(cluster, order)))
    for meaning, words in cluster.scheduler.says.items():
        cluster.does("poll", prints(words.replace("{id}", _id(cluster, order))))
        observed = _observed(cluster, order)
        ended = {"failed": "failed", "cancelled": "cancelled", "gone": "lost"}
        assert observed.status == ("gone" if meaning in ended else meaning), words
        assert observed.outcome == ended.get(meaning, "lost")
    cluster.does("poll", cluster.scheduler.unknown.replace("{id}", _id(cluster, order)))
    assert _observed(cluster, order).status == "gone"


def test_a_job_is_ended_by_its_id(cluster: Cluster) -> None:
    order = cluster.order()
    started(order.submission, Job(job_id=_id(cluster, order)))
    cluster.does("cancel", "exit 0")
    assert cluster.launcher().stop([cluster.state(order)]) is None
    assert cluster.words("cancel")[-1] == _id(cluster, order)
    cluster.does("cancel", fails("not allowed"))
    assert "not allowed" in (cluster.launcher().stop([cluster.state(order)]) or "")
    cluster.does("cancel", "sleep 30")
    assert "no answer in 0.4 s" in (cluster.launcher(QUICK).stop([cluster.state(order)]) or "")


def test_a_job_that_is_not_taken_is_refused_in_the_schedulers_words(cluster: Cluster) -> None:
    cluster.does("submit", fails("the queue is closed"))
    first, second = cluster.launcher().submit([cluster.order("a"), cluster.order("b")])
    refused = [each for each in (first, second) if isinstance(each, Refused)]
    assert len(refused) == 2
    assert all(each.passing for each in refused)
    assert any("the queue is closed" in each.reason for each in refused)
    # Where the id was ours to choose, the job is looked for.
    chosen = cluster.scheduler.job_id is None
    assert any(each.unknown for each in refused) == chosen
    cluster.does("submit", fails("cannot execute", 126))
    (final,) = cluster.launcher().submit([cluster.order("c")])
    assert isinstance(final, Refused)
    assert not final.passing
    assert not final.unknown


def test_a_submission_without_an_answer_may_have_made_a_job(cluster: Cluster) -> None:
    # Where the id is ours to choose, it is known, whatever is printed.
    silent = ("echo", "echo no such luck >&2") if cluster.scheduler.job_id else ()
    for script in ("sleep 30", *silent):
        cluster.does("submit", script)
        (made,) = cluster.launcher(QUICK).submit([cluster.order(str(len(script)))])
        assert isinstance(made, Refused)
        assert made.unknown
        assert ("no such luck" in made.reason) == ("luck" in script)


def test_a_poll_that_says_nothing_concludes_nothing(cluster: Cluster) -> None:
    order = cluster.order()
    started(order.submission, Job(job_id=_id(cluster, order)))
    launcher = cluster.launcher(QUICK)
    for script in ("sleep 30", "exit 3", "echo garbage", ":"):
        cluster.does("poll", script)
        (observed,) = launcher.observe([cluster.state(order)])
        assert observed.status == "unknown"


def test_a_state_that_nothing_names_is_unknown(cluster: Cluster) -> None:
    order = cluster.order()
    started(order.submission, Job(job_id=_id(cluster, order)))
    words = next(iter(cluster.scheduler.says.values())).replace("{id}", _id(cluster, order))
    odd = re.sub(r"\b(Q|PEND|PENDING|STARTING|Suspended)\b", "ODD", words)
    cluster.does("poll", prints(odd))
    observed = _observed(cluster, order)
    assert observed.status == "unknown"
    assert "ODD" in observed.reason


def test_a_slow_scheduler_is_waited_for(cluster: Cluster) -> None:
    order = cluster.order()
    started(order.submission, Job(job_id=_id(cluster, order)))
    words = cluster.scheduler.says["running"].replace("{id}", _id(cluster, order))
    cluster.does("poll", f"sleep 0.3; {prints(words)}")
    assert _observed(cluster, order).status == "running"


def test_paths_with_blanks_and_quotes_reach_the_scheduler_whole(cluster: Cluster) -> None:
    order = cluster.order()
    cluster.does("submit", f"cat >{cluster.bin}/input; {prints(cluster.scheduler.made)}")
    cluster.launcher("launcher.command.options='-A \"a b\"'").submit([order])
    script = order.logs / "job.sh"
    assert str(order.submission.path).replace("'", "'\"'\"'") in script.read_text()
    said = "\n".join(cluster.words("submit")) + (cluster.bin / "input").read_text()
    files = "".join(path.read_text() for path in order.logs.glob("*.yaml"))
    assert str(script) in said + files or script.read_text() in said
    assert "a b" in said or cluster.scheduler.launcher == "kueue"


def test_a_job_whose_submission_hung_is_found_by_its_name(pbs: Cluster) -> None:
    order = pbs.order()
    pbs.does("poll", prints(PBS.says["running"].replace("{id}", "123.pbs01")))
    pbs.does("find", "sleep 30")
    assert _observed(pbs, order, QUICK).status == "unknown"
    pbs.does("find", "echo 123.pbs01")
    observed = _observed(pbs, order)
    assert (observed.status, observed.job) == ("running", Job(job_id="123.pbs01"))
    assert pbs.words("find")[-1] == job_name(order.submission)
    pbs.does("find", ":")
    assert _observed(pbs, order).status == "gone"


def test_many_jobs_are_asked_for_by_one_command(pbs: Cluster) -> None:
    orders = [pbs.order(f"run-{number}") for number in range(30)]
    for number, order in enumerate(orders):
        started(order.submission, Job(job_id=f"{number}.pbs"))
    pbs.does("poll", f"echo asked >>{pbs.bin}/times; " + prints(PBS.says["running"]))
    pbs.launcher().observe([pbs.state(order) for order in orders])
    assert (pbs.bin / "times").read_text().count("asked") == 1


def test_jobs_that_are_asked_for_one_by_one_take_a_bounded_time(pbs: Cluster) -> None:
    orders = [pbs.order(f"run-{number}") for number in range(40)]
    for number, order in enumerate(orders):
        started(order.submission, Job(job_id=f"{number}.pbs"))
    pbs.does("poll", "sleep 30")
    launcher = pbs.launcher(
        QUICK, "launcher.command.poll='qstat {id}'", r"launcher.command.state='(\S+)'"
    )
    began = time.monotonic()
    observed = launcher.observe([pbs.state(order) for order in orders])
    # Twice the time of a command, and one that began just before; one by one it would be 16 s.
    assert time.monotonic() - began < 3 * 0.4 + 5
    reasons = [each.reason for each in observed]
    late = [number for number, reason in enumerate(reasons) if "not asked" in reason]
    assert late
    assert {each.status for each in observed} == {"unknown"}
    pbs.does("poll", "echo R")
    again = launcher.observe([pbs.state(orders[number]) for number in late])
    assert {each.status for each in again} == {"running"}


def test_an_exit_status_can_be_the_state(pbs: Cluster) -> None:
    order = pbs.order()
    started(order.submission, Job(job_id="7"))
    overrides = (
        "launcher.command.poll='qstat {id}'",
        r"launcher.command.state='(\S+)'",
        "launcher.command.running='exit 0'",
        "launcher.command.gone=['exit 1']",
    )
    for status, meaning in ((0, "running"), (1, "gone"), (2, "unknown")):
        pbs.does("poll", f"echo R; exit {status}")
        assert _observed(pbs, order, *overrides).status == meaning


def test_names_are_a_schedulers_and_never_the_same(pbs: Cluster) -> None:
    submission = pbs.order("Qwen2.5_1.5B-Instruct-math-n16-B32-s0-0123456789ab").submission
    again = replace(submission, number=12)
    for name in (job_name(submission), job_name(again)):
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", name)
    assert job_name(submission) != job_name(again)
    assert job_name(submission) == job_name(replace(submission))


def test_what_is_missing_is_named(pbs: Cluster) -> None:
    with pytest.raises(PreflightError, match="the command no-such-qsub"):
        pbs.launcher("launcher.command.submit='no-such-qsub {script}'")
    with pytest.raises(PreflightError, match=r"the file of launcher\.command\.file"):
        pbs.launcher("launcher.command.file=none.yaml")
    own = pbs.root / "own.yaml"
    own.write_text("a: {script}\nb: {queue}\n")
    with pytest.raises(PreflightError, match=r"a value for \{queue\}"):
        pbs.launcher(f"launcher.command.file={own}")
    pbs.launcher(f"launcher.command.file={own}", "+launcher.command.values.queue=gpu")
    with pytest.raises(SettingError, match="launcher=pbs, lsf, ray, skypilot and kueue"):
        pbs.launcher("launcher=command")


# A worker that says which node it is, and of how many.
SAYS = "#!/bin/sh\necho $ISOSWEEP_NODE of $ISOSWEEP_NODES\n"


def says(cluster: Cluster) -> str:
    worker = cluster.root / "worker"
    worker.write_text(SAYS)
    worker.chmod(0o755)
    return f"launcher.command.python={worker}"


def said(order: Order) -> dict[str, str]:
    """What its workers printed, by the logs' names."""
    return {path.name: path.read_text() for path in order.logs.glob("*.out")}


@pytest.mark.parametrize(
    ("scheduler", "asked"),
    [
        (PBS, "-l\nselect=2:ncpus=8:mem=32gb\n-l\nplace=scatter\n-l\nwalltime="),
        (KUEUE, "completionMode: Indexed\n  completions: 2\n  parallelism: 2\n"),
        (SKYPILOT, "\nnum_nodes: 2\n"),
    ],
    ids=lambda each: each.launcher if isinstance(each, Scheduler) else "",
)
def test_a_job_of_several_nodes_asks_for_them(
    scheduler: Scheduler, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _cluster(scheduler, tmp_path, monkeypatch)
    cluster.does("submit", prints(scheduler.made))
    order = cluster.order()
    cluster.launcher(nodes=2).submit([order])
    files = "".join(path.read_text() for path in order.logs.glob("*.yaml"))
    assert asked in "\n".join(cluster.words("submit")) + files


def test_a_file_that_asks_for_one_node_refuses_a_run_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _cluster(RAY, tmp_path, monkeypatch)
    cluster.launcher()
    with pytest.raises(SettingError, match=r"one node, and hardware\.nodes_per_run=2"):
        cluster.launcher(nodes=2)
    cluster.launcher("launcher.command.options='--hosts {nodes}'", nodes=2)


@pytest.mark.parametrize(
    "variable",
    [
        *("ISOSWEEP_NODE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
        *("JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK", "PBS_NODENUM"),
    ],
)
def test_each_node_is_told_its_number_by_what_starts_it(variable: str, pbs: Cluster) -> None:
    pbs.does("submit", prints(PBS.made))
    order = pbs.order()
    pbs.launcher(says(pbs), "launcher.command.each_node=''", nodes=3).submit([order])
    for node in range(3):
        # The variable of what is further out says another.
        place = {"PBS_NODENUM": "7", variable: str(node)}
        subprocess.run(["sh", order.logs / "job.sh"], env={**os.environ, **place}, check=True)
    assert said(order) == {f"job_{node}_log.out": f"{node} of 3\n" for node in range(3)}


def test_a_command_starts_the_worker_on_each_node(pbs: Cluster) -> None:
    pbs.does("submit", prints(PBS.made))
    pbsdsh = pbs.bin / "pbsdsh"
    pbsdsh.write_text(
        '#!/bin/sh\n[ "$1" = -- ] && shift\n'
        'for PBS_NODENUM in 0 1; do export PBS_NODENUM; "$@"; done\n'
    )
    pbsdsh.chmod(0o755)
    order = pbs.order()
    pbs.launcher(says(pbs), "launcher.command.setup=['echo $PATH >&2']", nodes=2).submit([order])
    assert pbs.words("submit")[-1] == str(order.logs / "job.sh")
    subprocess.run(["sh", order.logs / "job.sh"], env=dict(os.environ), check=True)
    ours = {f"job_{node}_log.out": f"{node} of 2\n" for node in range(2)}
    assert said(order) == {"job.out": "", **ours}
    # What has to be set up for the command is, too.
    assert str(pbs.bin) in (order.logs / "job.err").read_text()


def test_a_job_of_one_node_has_its_worker_as_it_is(pbs: Cluster) -> None:
    pbs.does("submit", prints(PBS.made))
    order = pbs.order()
    pbs.launcher().submit([order])
    assert "place=scatter" not in pbs.words("submit")
    assert "ISOSWEEP_NODE" not in (order.logs / "job.sh").read_text()
    assert not (order.logs / "node.sh").exists()
