"""What TRL's GRPOConfig and vLLM's engine are given, as far as it can be checked without vLLM."""

import os
from dataclasses import fields
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.config.recipe import RecipeConfig, grpo_config_fields, require_known
from isosweep.costs.flops import head_flops_per_token, prefill_flops
from isosweep.errors import SettingError
from isosweep.preflight.machine import missing_vllm
from isosweep.training.arguments import engine_arguments, trl_arguments
from isosweep.training.changed import changed
from isosweep.training.ledger import Ledger
from isosweep.training.seeds import RunSeeds, seeds_by_place
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


def test_seeds_follow_the_step_and_count_calls_within_it() -> None:
    step, prompts, spec = 5, [[7], [7], [8]], replaced(spec_of(), seed=1)
    seeds = RunSeeds(spec, 3, lambda: step)
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 0, 3), 3)
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 1, 3), 3)
    with changed(seeds, evaluation=(9, 2)):
        assert [seeds.of_requests(prompts) for _ in range(2)] == [seeds_by_place((1, 9, 3), 3)] * 2
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 2, 3), 3)
    step = 6
    later = seeds.of_requests(prompts)
    # A process that starts at that step asks for the same.
    assert RunSeeds(spec, 3, lambda: 6).of_requests(prompts) == later
    assert RunSeeds(replaced(spec, seed=2), 3, lambda: 6).of_requests(prompts) != later


def test_rollouts_that_wait_and_answers_beside_them_have_seeds_of_any_number_of_engines() -> None:
    def of_all(engines: int, prompts: list[list[int]], k: int | None = None) -> list[int]:
        found: list[int] = []
        count, spec = len(prompts) // engines, spec_of("recipe.rollout_lag=1")
        for number in range(engines):
            seeds = RunSeeds(spec, number, lambda: 5)
            seeds.begin(count)
            seeds.evaluation = None if k is None else (9, k)
            found += seeds.of_requests(prompts[number * count :][:count])
        return found

    prompts = [[at] for at in range(4) for _ in range(2)]
    rollouts, answers = of_all(1, prompts), of_all(1, prompts, k=2)
    assert of_all(2, prompts) == of_all(4, prompts) == rollouts
    assert of_all(2, prompts, k=2) == of_all(4, prompts, k=2) == answers
    assert len({*rollouts, *answers}) == 16
    assert all(0 <= seed < 2**62 for seed in answers)
    # The processes of one engine sample at the places of all of them.
    spec = spec_of("recipe.rollout_lag=1")
    pairs = replaced(spec, generation=replaced(spec.generation, name="vllm", tensor_parallel=2))
    every = [RunSeeds(pairs, process, lambda: 5) for process in range(4)]
    for each in every:
        each.begin(2)
    found = [each.of_rollouts() for each in every]
    assert found == [rollouts[:4], rollouts[:4], rollouts[4:], rollouts[4:]]
    # What fills up the share of another process of the engine moves nothing.
    assert of_all(1, prompts[2:4] + prompts, k=2)[2:] == answers


def test_what_vllm_lacks_here_is_named() -> None:
    assert any("the package vllm" in what for what, _ in missing_vllm(make_config(*GPU)))


def test_records_count_a_prompt_n_times_where_no_block_shares_it() -> None:
    """The built-in task's prompts have 8 tokens; a block has 128 on a CPU, and 16 on a GPU."""
    spec = spec_of("generation=vllm")
    n, arch = spec.num_generations, spec.model.architecture
    head = head_flops_per_token(arch)
    for run, length, shared in ((spec, 8, 0), (replaced(spec, device="cuda"), 40, 32)):
        ledger = Ledger(run)
        ledger.sampled([length] * 16, [7] * 16)
        whole = 16 * float(prefill_flops(arch, length))
        cached = float(prefill_flops(arch, shared)) - head if shared else 0.0
        assert ledger.spent.prefill_flops == pytest.approx(whole - 16 * (1 - 1 / n) * cached)
