"""What a refusal names can be typed, and works at once."""

import pytest

from isosweep.config.axes import combinations
from isosweep.errors import SettingError
from isosweep.models.builtin import DIRECTORY
from isosweep.plan.study import resolve
from tests.conftest import make_config

QWEN_7B = ("model=qwen-7b", "hardware=h100", "budget=1e21")


def refused(*overrides: str) -> str:
    """The nearest choice that a plan of `overrides` is refused with."""
    with pytest.raises(SettingError) as caught:
        resolve(make_config(*overrides))
    return str(caught.value).partition(". Nearest choice that works: ")[2]


def typed(overrides: tuple[str, ...], nearest: str) -> list[str]:
    """`overrides` with those of `nearest` in their places."""
    changes = nearest.split()
    names = {change.partition("=")[0] for change in changes}
    return [item for item in overrides if item.partition("=")[0] not in names] + changes


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ((*QWEN_7B, "recipe=scalerl"), "recipe.interruption=null"),
        # All that it takes is named, and nothing that is so already.
        (
            (
                *("model=qwen-0.5b", "hardware=h100", "hardware.memory_gb=12", "budget=1e18"),
                *("hardware.gradient_checkpointing=false", "grid.tolerance=0.1"),
            ),
            "hardware.gradient_checkpointing=true hardware.optimizer=adamw_8bit",
        ),
        ((*QWEN_7B, "hardware.optimizer=adamw_8bit"), "optimizer=adamw_torch_8bit"),
        ((*QWEN_7B, "hardware.optimizer=paged_adamw", "hardware.memory_gb=48"), "optimizer=adamw"),
        # Eight GPUs are a node.
        (
            ("model=qwen-72b", "hardware=h100", "budget=1e22", "recipe=grpo"),
            "hardware.devices_per_run=8 hardware.sharding=fsdp hardware.offload_optimizer=true",
        ),
        (
            (
                *("model=qwen-1.5b", "hardware=h100", "budget=1e20", "hardware.devices_per_run=3"),
                *("hardware.sharding=fsdp", "hardware.offload_optimizer=true"),
            ),
            "hardware.devices_per_run=1 hardware.sharding=ddp",
        ),
        (
            (
                *(*QWEN_7B, "hardware.devices_per_run=6"),
                *("hardware.sharding=fsdp", "generation.tensor_parallel=2"),
            ),
            "hardware.devices_per_run=2",
        ),
    ],
)
def test_what_would_fit_can_be_typed(overrides: tuple[str, ...], part: str) -> None:
    nearest = refused(*overrides)
    assert part in nearest
    config = make_config(*typed(overrides, nearest))
    # Fewer devices, which share n x B evenly, may have less memory than it takes.
    assert "devices_per_run=6" in " ".join(overrides) or resolve(config).plan.cells


def test_no_remedy_is_itself_refused() -> None:
    # Adapters beside a tied head in float32 are.
    head = ("model=llama-1b", "hardware=rtx4090", "budget=1e19", "recipe.cast_lm_head_to_fp32=true")
    nothing = refused(*head, "hardware.memory_gb=6", "hardware.interconnect_bandwidth=null")
    assert nothing.startswith("a smaller model, or hardware with more memory")


def test_several_rules_are_mended_at_once() -> None:
    plan = ("model=qwen-3b", "hardware=mi300x", "budget=1e21", "generation=transformers")
    nearest = refused(*plan, "recipe.mini_batches=3")
    assert nearest.startswith("recipe.mini_batches=1 ")


def test_what_offloads_is_named_with_all_that_it_takes() -> None:
    one = ("model=qwen-1.5b", "hardware=h100", "budget=1e20", "hardware.offload_optimizer=true")
    nearest = refused(*one)
    assert nearest == "hardware.offload_optimizer=false hardware.optimizer=paged_adamw"
    for choice in refused(*one, "hardware.devices_per_run=8").split(", or "):
        assert resolve(make_config(*typed((*one, "hardware.devices_per_run=8"), choice))).plan.cells
    assert refused("hardware=cpu", *one[3:]) == "hardware.offload_optimizer=false"


@pytest.mark.parametrize("unit", ["flops", "device_hours"])
def test_a_budget_of_another_unit_is_told_what_it_would_buy(unit: str) -> None:
    plan = ("model=qwen-0.5b", "hardware=h100", f"budget_unit={unit}")
    with pytest.raises(SettingError, match=r"T = 1000000000000 exceeds 100000") as caught:
        resolve(make_config(*plan, "budget=1e40"))
    nearest = str(caught.value).partition(". Nearest choice that works: ")[2]
    assert resolve(make_config(*plan, *nearest.split())).plan.cells


def test_a_directory_as_an_axis_brings_its_own_shape() -> None:
    axes = f"grid.axes={{model.path:[{DIRECTORY}]}}"
    config = make_config(axes, "model=qwen-0.5b", "generation=transformers")
    (variant,) = combinations(config)
    assert variant.config.model.architecture == make_config("model=tiny").model.architecture
