"""A run of two nodes with a process each, on this machine: they meet, and end as one."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isosweep.errors import RecordError
from isosweep.job import Place
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import Attempt, Status, claim
from isosweep.training import nodes
from isosweep.training.nodes import Nodes, NodesError, PlaceTakenError, Said
from isosweep.training.stopping import StopRequest
from tests.runs import log_lines, wait_for
from tests.training.builders import prepared, spec_of, state_of, submitted
from tests.training.noded import begun

pytestmark = pytest.mark.train
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")


def of_two() -> RunSpec:
    return spec_of(*TWO, "task.num_eval_problems=8", micro=8)


@pytest.mark.slow
def test_a_node_that_is_killed_ends_the_other(tmp_path: Path) -> None:
    run = prepared(of_two(), tmp_path)
    workers = begun(submitted(run, [1e12], "slurm"), 2, {})
    try:
        wait_for(lambda: len(log_lines(run.metrics)) >= 3, 300)
        workers[1].kill()
        assert workers[0].wait(60) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    # Slurm starts the job again on other nodes.
    assert state_of(run).status is Status.QUEUED
    assert state_of(run).reason == f"node 1 ({socket.gethostname()}) is gone"


def test_a_node_that_draws_other_problems_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from isosweep.training import assembly

    places: list[object] = []

    def gathered(own: list[object]) -> list[object]:
        places.extend(own)
        return places

    monkeypatch.setattr(assembly, "gather_object", gathered)

    def joins(*overrides: str) -> None:
        spec = spec_of(*TWO, *overrides)
        assembly.require_same_inputs(spec, str(weights(spec.model)), {})

    joins()
    joins()
    with pytest.raises(RecordError, match="has other problems than"):
        joins("task.data_seed=7")


# The files of the nodes, without processes.


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LOOK_S": 0.02, "SILENT_S": 0.3, "_END_S": 0.2, "MEET_S": 1.0}.items():
        monkeypatch.setattr(nodes, name, seconds)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return claim(prepared(of_two(), tmp_path))


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


def test_a_host_is_called_by_its_name_where_that_is_known() -> None:
    assert nodes.reachable(Said(host="localhost", address="192.0.2.7")) == "localhost"
    assert nodes.reachable(Said(host="no.such.invalid", address="192.0.2.7")) == "192.0.2.7"
