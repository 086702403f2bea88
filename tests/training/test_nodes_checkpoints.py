"""Checkpoints of runs on several nodes: who wrote what, who reads it, on which number of nodes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isosweep.config.hardware import Sharding
from isosweep.files import write_json
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.state import read_state
from isosweep.training.ranks import Group, Ranks, free_port
from tests.conftest import in_ci
from tests.runs import log_lines, reproducible
from tests.training.builders import prepared, spec_of
from tests.training.noded import worked
from tests.training.sharded import BUDGETS, TWO, let_in, sharded

pytestmark = [pytest.mark.train, pytest.mark.slow]


def resumed_steps(run: RunPaths) -> list[int]:
    """The step that each attempt went on from."""
    return [x["resumed_step"] for x in log_lines(run.records) if x["kind"] == "attempt"]


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


LAYOUT = "mini-batches and lag"


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The run by DDP on one node, left alone: by FSDP its records are the same."""
    run = prepared(sharded(LAYOUT, sharding="ddp"), tmp_path_factory.mktemp("straight"))
    assert worked(run, 1, BUDGETS) == [0]
    return run


@pytest.mark.parametrize(
    ("sharding", "nodes"),
    in_ci(
        [("fsdp", (1, 2)), ("fsdp", (2, 1, 2)), ("ddp", (1, 2, 1)), ("fsdp", (1, 2, 1))],
        ("fsdp", (1, 2)),
    ),
)
def test_a_run_goes_on_with_another_number_of_nodes(
    sharding: Sharding,
    nodes: tuple[int, ...],
    straight: RunPaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_in(monkeypatch)
    changing = prepared(sharded(LAYOUT, sharding=sharding), tmp_path)
    first, *between, last = nodes
    worked(changing, first, BUDGETS, killed=True)
    for count in between:
        assert worked(changing, count, BUDGETS[:1]) == [0] * count
    assert worked(changing, last, BUDGETS) == [0] * last
    assert reproducible(changing) == reproducible(straight)
    began, *later = resumed_steps(changing)
    assert began == 0 < min(later)


def test_a_checkpoint_without_a_nodes_part_is_none(straight: RunPaths, tmp_path: Path) -> None:
    run = prepared(sharded(LAYOUT, sharding="ddp"), tmp_path)
    dying = {"PYTHONPATH": str(Path(__file__).parent / "dying_rank")}
    assert worked(run, 2, BUDGETS, more={1: dying})[0] == 1
    state = read_state(run)
    assert state is not None
    assert state.status == "failed"
    (only,) = complete_checkpoints(run.attempt_checkpoints(1))
    assert worked(run, 1, BUDGETS) == [0]
    assert resumed_steps(run) == [0, only]
    assert reproducible(run) == reproducible(straight)
