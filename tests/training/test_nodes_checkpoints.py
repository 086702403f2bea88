"""Checkpoints of runs on several nodes: who wrote what, who reads it, on which number of nodes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isosweep.files import write_json
from isosweep.training.ranks import Group, Ranks, free_port
from tests.training.builders import spec_of
from tests.training.sharded import TWO

pytestmark = [pytest.mark.train, pytest.mark.slow]


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
