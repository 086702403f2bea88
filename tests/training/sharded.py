"""Runs of two processes that share a model by FSDP2, on a CPU, and the same run by DDP.

As a program it is a process of test_sharded.py.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trl

from isosweep.config.base import replaced
from isosweep.config.study import CheckpointConfig
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from tests.conftest import missing
from tests.runs import reproducible
from tests.training.builders import attempted, metrics, prepared, spec_of, train, trainer_of

TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")
# What a plan may add to sharded weights: how the model is trained, and in which precision.
LAYOUTS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "kl": ("recipe.beta=0.04",),
    "lora": ("recipe.lora_rank=4", "recipe.beta=0.04"),
    "mini-batches and lag": ("recipe.mini_batches=2", "recipe.rollout_lag=1"),
    "bfloat16": ("hardware.dtype=bfloat16", "recipe.beta=0.04", "recipe.mini_batches=2"),
    "bfloat16 weights": (
        *("hardware.dtype=bfloat16", "hardware.weights_dtype=bfloat16"),
        *("recipe.beta=0.04", "recipe.mini_batches=2"),
    ),
}
BUDGETS = (1e9, 2e9)
# By gloo a sum of two is the same in any order, and a float32 run the same to rounding. Of
# bfloat16 DDP sums gradients of float32 weights, FSDP of copies in bfloat16.
SAME = {"float32": 1e-4, "bfloat16": 0.05}


def let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ranks that are started within a test share a model on a CPU (sharded_on_cpu)."""
    _find_first(Path(__file__).parent / "sharded_on_cpu", monkeypatch)


def let_torchao_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have them find torchao, which lies beside the first environment."""
    place = Path(trl.__file__).parents[4] / "sharding"
    if not place.is_dir():
        missing("sharding", "torchao is not there: make setup-weights installs it")
    _find_first(place, monkeypatch)


def _find_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", paths)


def sharded(layout: str, *more: str) -> RunSpec:
    """The run with its model shared: a config of a CPU refuses it, so that its spec is changed."""
    return replaced(replicated(layout, *more), sharding="fsdp")


def replicated(layout: str, *more: str) -> RunSpec:
    """The run by DDP, of two micro-batches in each process."""
    # One process has a problem less to answer, which is a batch less.
    spec = spec_of(*TWO, "task.num_eval_problems=7", *LAYOUTS[layout], *more)
    micro_batch = spec.completions_per_step // spec.devices // 2
    return replaced(spec, micro_batch=micro_batch, evaluation_batch=6)


def to_both(spec: RunSpec, root: Path) -> RunPaths:
    """The run taken to both budgets in one attempt, of which weights alone are kept."""
    run = prepared(spec, root)
    attempted(run, BUDGETS, saving=CheckpointConfig(keep="weights"))
    return run


def as_replicated(layout: str, root: Path, *more: str) -> tuple[RunPaths, RunPaths]:
    """Both runs, which have the same records; what their steps log is the same to the precision."""
    ours = to_both(sharded(layout, *more), root / "sharded")
    theirs = to_both(replicated(layout, *more), root / "replicated")
    same = SAME["bfloat16" if "bfloat16" in layout else "float32"]
    (first, *_), (other, *_) = reproducible(ours), reproducible(theirs)
    assert first == other
    assert len(first["successes"]) == 7
    steps = list(zip(metrics(ours), metrics(theirs), strict=True))
    assert len(steps) > 3
    # Once rounding has let another token be drawn, the two are runs of their own.
    for mine, its in steps[:2] if same > SAME["float32"] else steps:
        for name in {"loss", "grad_norm", "reward", "kl"} & its.keys():
            assert mine[name] == pytest.approx(its[name], rel=same, abs=same / 10), name
    if same == SAME["float32"]:
        assert reproducible(ours) == reproducible(theirs)
    return ours, theirs


def held(tensors: Any) -> int:
    """Bytes of this process's parts of them."""
    parts = [each.to_local() if hasattr(each, "to_local") else each for each in tensors]
    return sum(part.numel() * part.element_size() for part in parts)


def report(spec: RunSpec, directory: Path) -> dict[str, Any]:
    """What this process holds of a model, and how gradients are summed."""
    from accelerate.state import AcceleratorState
    from torch.distributed.fsdp import fully_shard

    # The run before may have had another precision.
    AcceleratorState._reset_state()
    trainer = trainer_of(spec, directory)
    found: dict[str, Any] = {}
    step = trainer.training_step

    def training_step(*given: Any) -> Any:
        made = step(*given)
        # Before the first update: the gradients of a micro-batch that others follow.
        gradients = [each.grad for each in trainer.model.parameters() if each.grad is not None]
        found.setdefault("gradients", held(gradients))
        return made

    trainer.training_step = training_step
    train(trainer, 2)
    states = [state for each in trainer.optimizer.state.values() for state in each.values()]
    reference = trainer.ref_model
    found |= {"weights": held(trainer.model.parameters()), "optimizer": held(states)}
    found["reference"] = 0 if reference is None else held(reference.parameters())
    return {**found, "summed in": str(fully_shard.state(trainer.model)._mp_policy.reduce_dtype)}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    specs = [RunSpec.from_json(json.loads(Path(file).read_text())) for file in sys.argv[2:]]
    made = [report(spec, out / "checkpoints") for spec in specs]
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(made))
