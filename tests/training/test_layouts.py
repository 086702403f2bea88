"""Every layout that is planned has been run: the smallest twin of each, on two processes of a CPU.

A twin shares weights, samples, adapts and computes as its plan does, with the built-in model: two
devices for as many as there are, and 16 rollouts a step.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import resolve
from isosweep.store.records import read_records
from tests.conftest import make_config
from tests.training.builders import broken_off, metrics, spec_of
from tests.training.engines import require_vllm
from tests.training.sharded import TWO, let_in, let_torchao_in
from tests.training.test_engine_configs import GRID, PLANS

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op` is deprecated"),
]
GPUS = "hardware=h200 task=math hardware.devices_per_run"
FURTHER = (
    f"model=qwen-7b {GPUS}=4 hardware.sharding=fsdp recipe.beta=0.04 budget=1e21",
    f"model=qwen-14b {GPUS}=2 recipe.lora_rank=32 recipe.beta=0.04 budget=1e20",
    f"model=qwen-32b {GPUS}=8 hardware.sharding=fsdp recipe.lora_rank=64 budget=1e21 "
    "generation.tensor_parallel=4 generation.sleep=true",
    f"model=qwen-14b {GPUS}=8 hardware.sharding=fsdp recipe.lora_rank=64 budget=1e21",
    f"model=qwen-7b {GPUS}=8 hardware.sharding=fsdp recipe=dapo recipe.mini_batches=4 budget=1e21",
    f"model=qwen-7b {GPUS}=8 hardware.sharding=fsdp recipe=scalerl recipe.interruption=null "
    "budget=1e21",
    f"model=qwen-1.5b {GPUS}=2 hardware.sharding=fsdp generation=transformers "
    "hardware.weights_dtype=bfloat16 budget=1e20",
    f"model=qwen-72b {GPUS}=8 hardware.sharding=fsdp hardware.optimizer=adamw_torch_8bit "
    "generation.tensor_parallel=8 generation.sleep=true budget=1e22",
    f"model=qwen-1.5b {GPUS}=2 recipe.mini_batches=2 recipe.rollout_lag=1 budget=1e20",
)
# Of a recipe, what a twin takes over.
_RECIPE = (
    *("loss_type", "beta", "mini_batches", "num_iterations", "rollout_lag", "zero_variance"),
    *("scale_rewards", "cast_lm_head_to_fp32"),
)


def twin(config: SweepConfig) -> RunSpec:
    """The smallest run of the layout."""
    hardware, recipe, generation = config.hardware, config.recipe, config.generation
    two = TWO if hardware.devices_per_run > 1 else ()
    tiny = spec_of(
        *two, f"hardware.dtype={hardware.dtype}", "task.num_eval_problems=8", n=4, B=4, micro=4
    )
    parts = 2 if recipe.mini_batches > 1 else 1
    taken = {name: getattr(recipe, name) for name in _RECIPE} | {"mini_batches": parts}
    engine = replace(
        generation,
        sleep=False,
        tensor_parallel=min(generation.tensor_parallel, tiny.devices),
    )
    return replace(
        tiny,
        sharding=hardware.sharding,
        optimizer=hardware.optimizer,
        weights_dtype=hardware.weights_dtype,
        gradient_checkpointing=hardware.gradient_checkpointing,
        generation=engine,
        recipe=replace(tiny.recipe, **taken, lora_rank=4 if recipe.lora_rank else None),
    )


@pytest.mark.parametrize("plan", [*PLANS, *FURTHER])
def test_the_twin_of_a_plan_trains(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_vllm()
    config = make_config(*plan.split(), GRID, "grid.seeds=[0]")
    assert resolve(config).plan.runs
    spec = twin(config)
    let_in(monkeypatch)
    if spec.optimizer != "adamw":
        let_torchao_in(monkeypatch)
    rollouts = 16.0 * 3
    run = broken_off(spec, tmp_path, [rollouts], unit="rollouts")
    assert len(metrics(run)) == 3 * spec.recipe.updates_per_generation
    assert read_records(run.records).records[-1].compute.rollouts == rollouts
