"""A run of two nodes with a process each, on this machine: they meet, and end as one."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from isosweep.files import write_json
from isosweep.job import Place
from isosweep.plan.spec import RunSpec
from isosweep.store.state import Attempt, OvertakenError, claim_attempt, read_state
from isosweep.store.submissions import read_submission
from isosweep.training import nodes
from isosweep.training.nodes import NodeGoneError, Nodes, NodesError, PlaceTakenError, Said
from isosweep.training.ranks import Group, Ranks, free_port
from isosweep.training.stopping import StopRequest
from tests.runs import log_lines, wait_for
from tests.training.builders import prepared, spec_of
from tests.training.noded import begun, submitted

pytestmark = pytest.mark.train
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")


def of_two() -> RunSpec:
    return spec_of(*TWO, "task.num_eval_problems=8", micro=8)


@pytest.mark.slow
def test_a_node_that_is_killed_ends_the_other(tmp_path: Path) -> None:
    run = prepared(of_two(), tmp_path)
    workers = begun(submitted(run, [1e12]), 2, {})
    try:
        wait_for(lambda: len(log_lines(run.metrics)) >= 3, 300)
        workers[1].kill()
        assert workers[0].wait(60) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    # Slurm starts the job again on other nodes.
    assert read_submission(run, 1).end is None
    state = read_state(run)
    assert state is not None
    assert state.reason == f"node 1 ({socket.gethostname()}) is gone"


def on_nodes(count: int, code: str) -> list[int]:
    """How a process on each of the nodes ends, which executes `code` once they have met."""
    met = (
        "import json, os, pathlib\n"
        "from accelerate import PartialState\n"
        "PartialState(cpu=True, backend='gloo')\n"
    )
    port = free_port()

    def node(number: int) -> int:
        group = Group(count=1, world=count, first=number, address="127.0.0.1", port=port)
        (status,) = Ranks(group, ["-c", met + code]).run(lambda: None)
        return status

    with ThreadPoolExecutor(count) as nodes:
        return list(nodes.map(node, range(count)))


@pytest.mark.slow
@pytest.mark.parametrize("other", ["", "task.data_seed=7"])
def test_nodes_that_draw_other_problems_train_nothing(
    other: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for node, more in enumerate([[], [other] if other else []]):
        write_json(tmp_path / f"{node}.json", spec_of(*TWO, *more).to_json())
    code = (
        "from isosweep.models.weights import weights\n"
        "from isosweep.plan.spec import RunSpec\n"
        "from isosweep.training.assembly import require_same_inputs\n"
        f"own = pathlib.Path({str(tmp_path)!r}) / (os.environ['RANK'] + '.json')\n"
        "spec = RunSpec.from_json(json.loads(own.read_text()))\n"
        "require_same_inputs(spec, weights(spec.model), {})\n"
    )
    ends = on_nodes(2, code)
    assert all(ends) == any(ends) == bool(other)
    said = "has other problems than" in capfd.readouterr().err
    assert said == bool(other)


# The files of the nodes, without processes.


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LOOK_S": 0.02, "SILENT_S": 0.3, "_END_S": 0.2, "MEET_S": 1.0}.items():
        monkeypatch.setattr(nodes, name, seconds)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return claim_attempt(prepared(of_two(), tmp_path))


def opened(attempt: Attempt, count: int = 2) -> Nodes:
    return Nodes.open(attempt, Place(node=0, nodes=count), "1 7.0", {})


def joined(attempt: Attempt, node: int = 1, start: str = "1 7.0", count: int = 2) -> Nodes | None:
    return Nodes.join(attempt, Place(node=node, nodes=count), start)


@contextmanager
def beating(first: Nodes) -> Iterator[None]:
    """The process of a node that lives."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.01):
            first.say()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def looks(of: Nodes, seconds: float = 1.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        of.look()
        time.sleep(0.01)


def test_a_node_joins_the_same_start_of_its_job_once(quickly: None, attempt: Attempt) -> None:
    first = opened(attempt)
    # Its process is gone: it counts no beats.
    assert joined(attempt) is None
    with beating(first):
        # A job that was started again, on other nodes, is another's.
        assert joined(attempt, start="1 7.1") is None
        second = let_in(attempt)
        assert second.first.port == first.said.port
        with pytest.raises(PlaceTakenError, match="node 1 of 2 already has a process on "):
            let_in(attempt)
    first.say(ended=(0,))
    assert joined(attempt, node=2, count=3) is None


def test_the_first_waits_for_all_and_names_who_does_not_come(
    quickly: None, attempt: Attempt
) -> None:
    first = opened(attempt, 3)
    with beating(first):
        let_in(attempt)
    with pytest.raises(NodesError, match="node 2 has not come within 1 s"):
        first.wait_for_all(lambda: None, StopRequest())
    stop = StopRequest()
    assert not first.wait_for_all(lambda: stop.cancel("ada"), stop)


def let_in(attempt: Attempt) -> Nodes:
    """A second node; the machine may be too busy for a beat between two looks."""
    for _ in range(100):
        if (second := joined(attempt)) is not None:
            return second
    raise AssertionError("the first node's beat was never seen")


def pair(attempt: Attempt) -> tuple[Nodes, Nodes]:
    first = opened(attempt)
    with beating(first):
        second = let_in(attempt)
    assert first.wait_for_all(lambda: None, StopRequest())
    return first, second


def test_a_signal_that_came_to_one_node_came_to_all(quickly: None, attempt: Attempt) -> None:
    first, second = pair(attempt)
    stops = [StopRequest(), StopRequest()]
    stops[1].came(signal.SIGUSR2)
    time.sleep(0.03)
    assert second.asked(stops[1]) == signal.SIGUSR2
    time.sleep(0.03)
    assert first.asked(stops[0]) == signal.SIGUSR2
    assert stops[0].reason == "stopped by SIGUSR2"


def test_a_node_that_fails_or_falls_silent_is_named(quickly: None, attempt: Attempt) -> None:
    first, second = pair(attempt)
    with beating(second):
        looks(first, 0.5)
    with pytest.raises(NodeGoneError, match=r"node 1 \(.+\) has been silent for 0.3 s"):
        looks(first)
    assert first.why_failed() == (f"node 1 ({socket.gethostname()}) is gone", "")
    with beating(second):
        assert first.why_failed() == (None, "")
    second.say(ended=(1, -9))
    gone, failed = first.why_failed()
    assert gone is None
    assert failed.endswith(") ended its processes with status 1, -9")


def test_a_file_system_that_is_away_makes_nobody_silent(
    quickly: None, attempt: Attempt, tmp_path: Path
) -> None:
    first, second = pair(attempt)
    root = attempt.run.root
    root.rename(tmp_path / "away")
    looks(first, 0.6)
    looks(second, 0.6)
    (tmp_path / "away").rename(root)
    with beating(second):
        looks(first, 0.2)


def test_who_outlives_the_attempt_leaves(quickly: None, attempt: Attempt) -> None:
    first, second = pair(attempt)
    first.say(ended=(0,))
    with pytest.raises(NodesError, match="has ended"):
        looks(second)
    claim_attempt(attempt.run)
    with pytest.raises(OvertakenError):
        looks(second)


def test_a_host_is_called_by_its_name_where_that_is_known() -> None:
    assert nodes.reachable(Said(host="localhost", address="192.0.2.7")) == "localhost"
    assert nodes.reachable(Said(host="no.such.invalid", address="192.0.2.7")) == "192.0.2.7"
