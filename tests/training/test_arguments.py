"""What TRL's GRPOConfig and vLLM's engine are given: one table of settings, argument and value."""

import os
from dataclasses import fields
from typing import Any

import pytest

from isosweep.config.recipe import RecipeConfig, grpo_config_fields, require_known
from isosweep.errors import SettingError
from isosweep.training.arguments import engine_arguments, trl_arguments
from isosweep.training.vllm import prepare_vllm
from tests.conftest import make_config
from tests.training.builders import spec_of

# Settings of a recipe that TRL knows under the same name and must not be given as they are: the
# rate is resolved for n x B, and the loss may be a function.
OURS = {"learning_rate", "loss_type"}
GPU = ("model=qwen-0.5b", "budget=1e18")
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10", "budget=1e18")
FSDP = ("hardware.sharding=fsdp", *TWO)

# Of a run with n = B = 4 and micro-batches of 4; None: it is not given.
TRL = [
    (("recipe=tis",), "vllm_importance_sampling_mode", "token_truncate"),
    (("recipe.loss_type=tests.training.own_losses:dapo",), "loss_type", "grpo"),
    ((*GPU, "model.revision=abc", "recipe.beta=0.1"), "model_init_kwargs", {"revision": "abc"}),
    (GPU, "bf16", True),
    (("recipe.mini_batches=2",), "gradient_accumulation_steps", 2),
    (("++recipe.trl={delta:4.0}",), "delta", 4.0),
    (("recipe=sapo",), "sapo_temperature_neg", 1.05),
    ((), "use_vllm", None),
    # TRL's default weights the KL by the ratio.
    (("recipe.beta=0.1",), "use_bias_correction_kl", False),
    (("++recipe.trl={use_bias_correction_kl:true}",), "use_bias_correction_kl", True),
    (GPU, "vllm_max_model_length", 64),
    ((*GPU, "generation.sleep=true"), "vllm_enable_sleep_mode", True),
    ((*GPU, *FSDP), "fsdp_config.cpu_ram_efficient_loading", True),
    ((*GPU, *FSDP, "hardware.weights_dtype=bfloat16"), "bf16", False),
    ((*GPU, *FSDP, "recipe.beta=0.1"), "model_init_kwargs", {"device_map": None}),
]
VLLM = [
    # An engine computes as training does, and no sampling settings of a model's own act.
    (("generation=vllm",), "dtype", "float32"),
    (GPU, "dtype", "bfloat16"),
    (GPU, "enforce_eager", False),
    (GPU, "enable_prefix_caching", True),
    (GPU, "generation_config", "vllm"),
    ((*GPU, "model.revision=abc"), "revision", "abc"),
    ((*GPU, "model.revision=abc"), "tokenizer_revision", "abc"),
    (GPU, "hf_overrides", None),
    ((*GPU, "recipe.cast_lm_head_to_fp32=true"), "hf_overrides.head_dtype", "float32"),
]


def given(overrides: tuple[str, ...], of_trl: bool) -> dict[str, Any]:
    spec = spec_of(*overrides, micro=4)
    return trl_arguments(spec, 64) if of_trl else engine_arguments(spec)


@pytest.mark.parametrize(
    ("overrides", "argument", "value", "of_trl"),
    [*((*row, True) for row in TRL), *((*row, False) for row in VLLM)],
)
def test_trl_and_vllm_are_given_what_the_settings_say(
    overrides: tuple[str, ...], argument: str, value: Any, of_trl: bool
) -> None:
    found: Any = given(overrides, of_trl)
    for part in argument.split("."):
        found = found.get(part)
    assert found == value


def test_a_field_that_trl_lacks_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingError) as error:
        require_known({"sapo_temperature": 1.1})
    assert (error.value.setting, error.value.value) == ("recipe.trl.sapo_temperature", 1.1)
    assert error.value.nearest == "recipe.trl.sapo_temperature_pos=1.1"
    # Where there is no TRL, who trains looks.
    monkeypatch.setattr("isosweep.config.recipe.grpo_config_fields", frozenset)
    require_known({"sapo_temperature": 1.1})


@pytest.mark.train
def test_engines_that_start_together_on_one_machine_meet_at_ports_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody listens yet: whoever looks for a free port of four finds the same as the others.
    from trl.trainer.utils import ensure_master_addr_port

    monkeypatch.setenv("MASTER_ADDR", "localhost")
    ports = set()
    for _ in range(4):
        # That of the user's shell is nobody's.
        monkeypatch.setenv("MASTER_PORT", "29500")
        for name in ("VLLM_NO_USAGE_STATS", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_LOGGING_LEVEL"):
            monkeypatch.setenv(name, "")
        prepare_vllm(spec_of(*GPU))
        ensure_master_addr_port()
        ports.add(os.environ["MASTER_PORT"])
    assert len(ports) == 4


@pytest.mark.train
def test_trl_knows_every_argument_and_no_setting_of_its_name_is_left_unmarked() -> None:
    from trl import GRPOConfig

    known, recipe = {item.name for item in fields(GRPOConfig)}, make_config().recipe
    # As it is told without importing TRL, where a plan is made.
    assert grpo_config_fields() == known
    arguments = given((), of_trl=True).keys() | given(GPU, of_trl=True).keys()
    arguments |= given((*GPU, *FSDP, "recipe.beta=0.1"), of_trl=True).keys()
    assert arguments <= known
    for name in arguments - {"use_bias_correction_kl"}:
        with pytest.raises(SettingError, match="isosweep sets this field of GRPOConfig itself"):
            make_config(f"++recipe.trl={{{name}:1}}")
    shared = {*RecipeConfig.model_fields} & known
    assert shared - recipe.for_trl().keys() == OURS
