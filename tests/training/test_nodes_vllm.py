"""Two nodes of a device each, with an engine of vLLM in each process: as one node of two."""

from pathlib import Path

import pytest

from isosweep.config.hardware import Sharding
from tests.runs import reproducible
from tests.training.builders import metrics, prepared
from tests.training.engines import require_vllm
from tests.training.noded import worked
from tests.training.sharded import BUDGETS, let_in, sharded

pytestmark = [
    pytest.mark.vllm,
    # vLLM's own.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("sharding", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
def test_engines_of_two_nodes_sample_as_those_of_one(
    sharding: Sharding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_vllm()
    let_in(monkeypatch)
    spec = sharded("plain", "generation=vllm", sharding=sharding)
    one, two = (prepared(spec, tmp_path / name) for name in ("one", "two"))
    assert worked(one, 1, BUDGETS) == [0]
    assert worked(two, 2, BUDGETS) == [0, 0]
    assert reproducible(two) == reproducible(one)
    assert metrics(two) == metrics(one)
