"""TRL's settings of a run: the recipe, the device, and what isosweep does itself switched off."""

from tempfile import gettempdir
from typing import Any, assert_never

from trl import GRPOConfig

from isosweep.config.hardware import Optimizer
from isosweep.config.recipe import own_loss
from isosweep.plan.spec import RunSpec
from isosweep.training.trl_adapter import ENDLESS
from isosweep.training.vllm import vllm_arguments


def trl_arguments(spec: RunSpec, context: int) -> GRPOConfig:
    """TRL's settings: each update uses one of `mini_batches` equal parts of a generation.

    TRL draws at random which rollouts are in which part; each serves `num_iterations` updates.
    Rewards are the task's score times `reward_scale`, and what the recipe adds. `context`: tokens
    of the longest prompt and completion together.
    """
    penalised = spec.recipe.overlong_share is not None
    return GRPOConfig(
        seed=spec.seed,
        **spec.recipe.for_trl(),
        # Of a loss of one's own TRL knows nothing: its name here only passes TRL's checks.
        loss_type="grpo" if own_loss(spec.recipe.loss_type) else spec.recipe.loss_type,
        **vllm_arguments(spec, context),
        num_generations=spec.num_generations,
        max_completion_length=spec.task.completion_limit,
        top_k=0,
        reward_weights=[spec.recipe.reward_scale, *([1.0] if penalised else [])],
        vllm_importance_sampling_correction=spec.generation.importance_sampling_correction,
        learning_rate=spec.learning_rate,
        # Read for the reference model of a KL term alone.
        model_init_kwargs=_reference(spec),
        **_device(spec),
        **_sharding(spec),
        **_LEFT_TO_THE_LOOP,
    )


def _device(spec: RunSpec) -> dict[str, Any]:
    cuda = spec.device == "cuda"
    micro_batches = spec.completions_per_step // spec.micro_batch // spec.devices
    return {
        "per_device_train_batch_size": spec.micro_batch,
        "gradient_accumulation_steps": micro_batches // spec.recipe.mini_batches,
        "steps_per_generation": micro_batches,
        "bf16": cuda and spec.dtype == "bfloat16",
        "gradient_checkpointing": spec.gradient_checkpointing,
        "torch_compile": spec.compile,
        **_optimizer(spec),
        "use_cpu": not cuda,
    }


def _optimizer(spec: RunSpec) -> dict[str, Any]:
    """transformers' name of the optimiser; none for its own default, torch's AdamW."""
    names: dict[Optimizer, str] = {
        "adamw_8bit": "adamw_8bit",
        "adamw_torch_8bit": "adamw_torch_8bit",
        "paged_adamw": "paged_adamw_32bit",
        "paged_adamw_8bit": "paged_adamw_8bit",
    }
    return {"optim": names[spec.optimizer]} if spec.optimizer in names else {}


# When training ends, what is logged and when a checkpoint is written are the loop's decisions.
_LEFT_TO_THE_LOOP: dict[str, Any] = {
    # A trainer makes this directory when it is made itself: a run's, where that is away for a
    # while, would be made anew in its place. `make_trainer` gives it the run's afterwards.
    "output_dir": gettempdir(),
    "max_steps": ENDLESS,
    "ignore_data_skip": True,
    "logging_steps": 1,
    # A loss that is not a number is for the health rules to see.
    "logging_nan_inf_filter": False,
    "save_strategy": "steps",
    "save_steps": ENDLESS,
    "eval_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


def adapters(spec: RunSpec) -> Any:
    """LoRA on every linear map of the layers (arXiv 2106.09685), scaled by 2; or None."""
    rank = spec.recipe.lora_rank
    if rank is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _reference(spec: RunSpec) -> dict[str, Any] | None:
    """The policy's own revision, which TRL would not pass on to the reference model."""
    pinned = spec.recipe.beta > 0 and spec.model.revision is not None
    return {"revision": spec.model.revision} if pinned else None


def _sharding(spec: RunSpec) -> dict[str, Any]:
    """How the processes of a run share its model, as accelerate learns through TRL."""
    if spec.devices == 1:
        return {}
    backend = {"ddp_backend": "nccl" if spec.device == "cuda" else "gloo"}
    match spec.sharding:
        case "ddp":
            return {**backend, "ddp_find_unused_parameters": False}
        case "fsdp":
            # Rank 0 reads the weights and sends the others theirs, instead of each reading all.
            settings: dict[str, Any] = {"version": 2, "cpu_ram_efficient_loading": True}
            if spec.offload_optimizer:
                settings["cpu_offload"] = True
            return {**backend, "fsdp": True, "fsdp_config": settings}
        case "zero1" | "zero2" | "zero3":
            automatic = (
                *("train_batch_size", "train_micro_batch_size_per_gpu"),
                *("gradient_accumulation_steps", "gradient_clipping"),
            )
            zero: dict[str, Any] = {"stage": int(spec.sharding.removeprefix("zero"))}
            settings = {"bf16": {"enabled": "auto"}, "zero_allow_untested_optimizer": True}
            if spec.offload_optimizer:
                zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
                # DeepSpeed's own AdamW for CPUs, with the numbers of TRL's.
                names = ("lr", "betas", "eps", "weight_decay")
                adam = {"type": "AdamW", "params": dict.fromkeys(names, "auto")}
                settings["optimizer"] = adam
            automatic_values = dict.fromkeys(automatic, "auto")
            return {"deepspeed": {**automatic_values, "zero_optimization": zero, **settings}}
        case unknown:
            assert_never(unknown)
