"""What TRL is given of a recipe."""

from dataclasses import fields, replace
from typing import Any

import pytest

from isosweep.plan.spec import run_spec
from tests.conftest import make_config

# Settings of a recipe that TRL knows under the same name and must not be given as they are: the
# rate is resolved for n x B, and the loss may be a function.
OURS = {"learning_rate", "loss_type"}


def test_trl_knows_every_setting_that_is_marked_for_it() -> None:
    from trl import GRPOConfig

    known = {item.name for item in fields(GRPOConfig)}
    assert make_config().recipe.for_trl().keys() <= known


def test_no_setting_of_trls_name_is_left_unmarked() -> None:
    from trl import GRPOConfig

    recipe = make_config().recipe
    shared = {item.name for item in fields(recipe)} & {item.name for item in fields(GRPOConfig)}
    assert shared - recipe.for_trl().keys() == OURS


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("epsilon_high", 0.4, "epsilon_high"),
        ("max_grad_norm", 0.25, "max_grad_norm"),
        ("importance_sampling_cap", 3.0, "vllm_importance_sampling_clip_max"),
    ],
)
def test_trl_trains_with_the_recipes_setting(setting: str, value: Any, name: str) -> None:
    from isosweep.training.arguments import trl_arguments

    config = make_config()
    config = replace(config, recipe=replace(config.recipe, **{setting: value}))
    spec = run_spec(config, num_generations=4, problems_per_batch=4, seed=3, micro_batch=8)
    arguments = trl_arguments(spec, 64)
    assert getattr(arguments, name) == value
    assert arguments.learning_rate == spec.learning_rate


def test_trl_is_given_the_hardwares_optimizer_and_compilation() -> None:
    from isosweep.training.arguments import trl_arguments

    plain = run_spec(make_config(), num_generations=4, problems_per_batch=4, seed=3, micro_batch=8)
    assert trl_arguments(plain, 64).optim == "adamw_torch_fused"
    eight_bit = replace(plain, optimizer="adamw_torch_8bit", compile=True)
    arguments = trl_arguments(eight_bit, 64)
    assert arguments.optim == "adamw_torch_8bit"
    assert arguments.torch_compile
    names = {plain.run_id, eight_bit.run_id, replace(plain, attention="flash_attention_2").run_id}
    assert len(names) == 3


@pytest.mark.parametrize("offloaded", [False, True])
def test_states_are_offloaded_by_the_library_that_shards(offloaded: bool) -> None:
    from isosweep.training.arguments import _sharding

    plain = run_spec(make_config(), num_generations=4, problems_per_batch=4, seed=3, micro_batch=8)
    spread = replace(plain, devices=2, device="cuda", offload_optimizer=offloaded)
    zero = _sharding(replace(spread, sharding="zero2"))["deepspeed"]
    away = {"device": "cpu", "pin_memory": True} if offloaded else None
    assert zero["zero_optimization"].get("offload_optimizer") == away
    assert ("optimizer" in zero) == offloaded
    fsdp = _sharding(replace(spread, sharding="fsdp"))["fsdp_config"]
    assert fsdp.get("cpu_offload", False) == offloaded
    assert fsdp["cpu_ram_efficient_loading"]
