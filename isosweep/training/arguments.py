"""What TRL and vLLM are given of a run: by name, as their own classes take it."""

from collections.abc import Sequence
from tempfile import gettempdir
from typing import Any

from isosweep.config.recipe import own_loss, require_known
from isosweep.plan.spec import RunSpec
from isosweep.training.distributed import COLLECTIVE_S

# Far beyond any plan: a run ends by measured compute, and with a constant rate after warm-up its
# steps do not depend on this number.
ENDLESS = 10**9


def trl_arguments(
    spec: RunSpec, context: int, stop: Sequence[int] = (), *, engine: bool = True
) -> dict[str, Any]:
    """Settings of TRL's GRPOConfig: the recipe, the device, and what isosweep does itself switched
    off. Each update uses one of `mini_batches` equal parts of a generation.

    TRL draws at random which rollouts are in which part; each serves `num_iterations` updates.
    Rewards are the task's score times `reward_scale`, and what the recipe adds. `context`: tokens
    of the longest prompt and completion together. `stop`: tokens that end an answer, besides the
    model's own. Without `engine` another process has it.
    """
    require_known(spec.recipe.trl)
    penalised = spec.recipe.overlong_share is not None
    micro_batches = spec.completions_per_step // spec.micro_batch // spec.devices
    whole = spec.recipe.lora_rank is None
    held_as_computed = spec.sharding == "fsdp" and whole and spec.weights_dtype == spec.dtype
    return {
        # TRL's default multiplies the KL by the ratio of probabilities (arXiv 2512.02556).
        "use_bias_correction_kl": False,
        **spec.recipe.trl,
        "seed": spec.seed,
        **spec.recipe.for_trl(),
        # Of a loss of one's own TRL knows nothing: its name here only passes TRL's checks.
        "loss_type": "grpo" if own_loss(spec.recipe.loss_type) else spec.recipe.loss_type,
        **(_generation(spec, context, stop) if engine else {}),
        "num_generations": spec.num_generations,
        "per_device_train_batch_size": spec.micro_batch,
        "gradient_accumulation_steps": micro_batches // spec.recipe.mini_batches,
        "steps_per_generation": micro_batches,
        "learning_rate": spec.learning_rate,
        "max_completion_length": spec.task.completion_limit,
        "reward_weights": [spec.recipe.reward_scale, *([1.0] if penalised else [])],
        "vllm_importance_sampling_correction": spec.generation.importance_sampling_correction,
        "model_init_kwargs": _reference(spec),
        # FSDP's weights may be in the precision that is computed in, and are not cast to it. Where
        # accelerate casts, it holds what is trained in float32.
        "bf16": spec.dtype == "bfloat16" and not held_as_computed,
        "gradient_checkpointing": spec.gradient_checkpointing,
        # Else transformers' own default, torch's AdamW.
        **({} if spec.optimizer == "adamw" else {"optim": spec.optimizer}),
        "use_cpu": spec.device != "cuda",
        **_sharding(spec),
        **_LEFT_TO_THE_LOOP,
    }


def _reference(spec: RunSpec) -> dict[str, Any] | None:
    """How TRL reads a reference model: the policy's own revision, which it would not pass on, and
    where its processes share it, by each of them."""
    if not spec.recipe.beta:
        return None
    revision = {"revision": spec.model.revision} if spec.model.revision else {}
    # TRL would put whole layers on one device or another.
    return revision | ({"device_map": None} if spec.sharding == "fsdp" else {}) or None


def _generation(spec: RunSpec, context: int, stop: Sequence[int]) -> dict[str, Any]:
    """How TRL uses vLLM; nothing for another backend."""
    generation = spec.generation
    if generation.name != "vllm":
        return {}
    share = {"vllm_gpu_memory_utilization": spec.vllm_share} if spec.device == "cuda" else {}
    return {
        "use_vllm": True,
        # An engine knows the ends that lie beside the weights, and no others.
        "generation_kwargs": {"stop_token_ids": list(stop)} if stop else None,
        "vllm_max_model_length": context,
        "vllm_enable_sleep_mode": generation.sleep,
        "vllm_tensor_parallel_size": generation.tensor_parallel,
        **share,
    }


def engine_arguments(spec: RunSpec) -> dict[str, Any]:
    """Arguments of `vllm.LLM` that TRL does not pass, or passes otherwise.

    Left alone, vLLM turns a float32 checkpoint into bfloat16 and reads the newest revision. TRL
    asks for as many requests at once as an engine has rollouts, with 4096 tokens of a forward
    pass: vLLM refuses more requests than tokens.
    """
    cpu, float32_head = spec.device == "cpu", spec.recipe.cast_lm_head_to_fp32
    optional = {
        # The head as the trainer computes it (arXiv 2510.13786).
        "hf_overrides": {"head_dtype": "float32"} if float32_head else None,
        # Left to itself vLLM shuffles experts for some GPUs (B200), and weights that are sent later
        # are taken for shuffled ones.
        "moe_backend": "triton" if spec.model.architecture.num_experts else None,
        "max_num_seqs": spec.vllm_max_num_seqs,
        "max_num_batched_tokens": spec.vllm_max_num_batched_tokens,
        "kv_cache_memory_bytes": spec.vllm_cache_bytes,
    }
    return {
        **{name: value for name, value in optional.items() if value},
        # Of what a model ships, where its answers end alone: that is read under this name as well.
        "generation_config": "vllm",
        # On a CPU nothing is autocast: training computes in the precision of the weights.
        "dtype": spec.weights_dtype if cpu else spec.dtype,
        "revision": spec.model.revision,
        "tokenizer_revision": spec.model.revision,
        "enable_prefix_caching": spec.generation.prefix_sharing,
        # Compiling takes longer than a run of a model that a CPU can train.
        "enforce_eager": cpu,
    }


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
    "save_steps": ENDLESS,
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


def _sharding(spec: RunSpec) -> dict[str, Any]:
    """How the processes of a run share its model, as accelerate learns through TRL."""
    if spec.devices == 1:
        return {}
    backend: dict[str, Any] = {
        "ddp_backend": "nccl" if spec.device == "cuda" else "gloo",
        "ddp_timeout": COLLECTIVE_S,
    }
    if spec.sharding == "ddp":
        return {**backend, "ddp_find_unused_parameters": False}
    # Rank 0 reads the weights and sends the others theirs, instead of each reading all.
    settings: dict[str, Any] = {
        "version": 2,
        "cpu_ram_efficient_loading": True,
        # Each process writes its own part, and nothing is gathered.
        "state_dict_type": "SHARDED_STATE_DICT",
    }
    # Gradients are given away after every micro-batch: else all are kept whole.
    each = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    return {**backend, "fsdp": True, "fsdp_config": settings, "accelerator_config": each}
