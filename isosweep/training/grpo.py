"""The adapter to TRL: settings, rewards, prompts, callbacks, checkpoints."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig
from trl.models import unwrap_model_for_generation
from trl.rewards import get_soft_overlong_punishment

from isosweep.compute import Compute
from isosweep.files import write_json
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import CHECKPOINT_PROGRESS
from isosweep.tasks import Problem, heldout_problems, scores, training_problems
from isosweep.training.lag import LaggedGRPOTrainer
from isosweep.training.ledger import Ledger
from isosweep.training.stream import ProblemStream
from isosweep.training.trainer import ENDLESS, CountedGRPOTrainer, Question
from isosweep.training.vllm import vllm_arguments, vllm_engine

# Names in the trainer's log and ours. The reward is the task's score, without what a recipe adds.
# TRL's own `frac_reward_zero_std` is of the whole batch where scores are scaled by the batch, so
# the share of groups without spread is logged beside it.
_METRICS = {
    "rewards/correctness/mean": "reward",
    "rewards/correctness/std": "reward_std",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "kl": "kl",
    "learning_rate": "learning_rate",
    "completions/mean_length": "completion_tokens",
    "completions/clipped_ratio": "truncated_share",
    "zero_variance_share": "zero_variance_share",
    "sampling/sampling_logp_difference/mean": "logp_difference",
    "sampling/sampling_logp_difference/max": "logp_difference_max",
}


def load_policy(spec: RunSpec, directory: str) -> tuple[Any, Any]:
    """Model and tokenizer from a directory or hub name, in the precision it is trained in.

    Under LoRA the model is frozen, and held in the precision it is computed in.
    """
    tokenizer = AutoTokenizer.from_pretrained(directory, revision=spec.model.revision)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = spec.weights_dtype if spec.recipe.lora_rank is None else spec.dtype
    model = AutoModelForCausalLM.from_pretrained(
        directory, revision=spec.model.revision, dtype=getattr(torch, dtype)
    )
    return model, tokenizer


def prompt_tokens(tokenizer: Any, problem: Problem) -> list[int]:
    """The problem as the model reads it: through its chat template where it has one."""
    if tokenizer.chat_template is None:
        return list(tokenizer(problem.prompt)["input_ids"])
    messages = [{"role": "user", "content": problem.prompt}]
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
    )


def _rewards(spec: RunSpec, problems: Sequence[Problem]) -> list[Callable[..., list[float]]]:
    """TRL's reward functions: the task's score of a completion, then what the recipe adds."""

    def correctness(completions: list[str], problem: list[int], **_: Any) -> list[float]:
        return scores(spec.task, [problems[index] for index in problem], completions)

    rewards: list[Callable[..., list[float]]] = [correctness]
    if spec.recipe.overlong_share is not None:
        limit = spec.task.completion_limit
        penalised = max(1, round(spec.recipe.overlong_share * limit))
        rewards.append(get_soft_overlong_punishment(limit, penalised))
    return rewards


def trl_arguments(spec: RunSpec, checkpoints: Path, context: int) -> GRPOConfig:
    """TRL's settings: each update uses all n x B completions of one generation.

    One generation serves `num_iterations` updates. `context`: tokens of the longest prompt and
    completion together.
    """
    recipe = spec.recipe
    cuda = spec.device == "cuda"
    return GRPOConfig(
        output_dir=str(checkpoints),
        seed=spec.seed,
        max_steps=ENDLESS,
        per_device_train_batch_size=spec.micro_batch,
        gradient_accumulation_steps=spec.completions_per_step // spec.micro_batch // spec.devices,
        num_generations=spec.num_generations,
        num_iterations=recipe.num_iterations,
        max_completion_length=spec.task.completion_limit,
        temperature=recipe.temperature,
        top_p=recipe.top_p,
        top_k=0,
        loss_type=recipe.loss_type,
        beta=recipe.beta,
        use_bias_correction_kl=recipe.use_bias_correction_kl,
        entropy_coef=recipe.entropy_coef,
        epsilon=recipe.epsilon,
        epsilon_high=recipe.epsilon_high,
        scale_rewards=recipe.scale_rewards,
        importance_sampling_level=recipe.importance_sampling_level,
        vllm_importance_sampling_correction=spec.generation.importance_sampling_correction,
        vllm_importance_sampling_mode=recipe.importance_sampling_mode,
        vllm_importance_sampling_clip_max=recipe.importance_sampling_cap,
        mask_truncated_completions=recipe.mask_truncated_completions,
        cast_lm_head_to_fp32=recipe.cast_lm_head_to_fp32,
        **vllm_arguments(spec, context),
        learning_rate=spec.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.adam_beta2,
        max_grad_norm=recipe.max_grad_norm,
        bf16=cuda and spec.dtype == "bfloat16",
        gradient_checkpointing=spec.gradient_checkpointing,
        use_cpu=not cuda,
        # Read for the reference model of a KL term alone.
        model_init_kwargs=_reference(spec),
        **_sharding(spec),
        ignore_data_skip=True,
        logging_steps=1,
        # A loss that is not a number is for the health rules to see.
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=ENDLESS,
        save_total_limit=2,
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _adapters(spec: RunSpec) -> Any:
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
    """How the processes of a run share its model, as accelerate is told through TRL."""
    if spec.devices == 1:
        return {}
    backend = {"ddp_backend": "nccl" if spec.device == "cuda" else "gloo"}
    match spec.sharding:
        case "ddp":
            return {**backend, "ddp_find_unused_parameters": False}
        case "fsdp":
            return {**backend, "fsdp": True, "fsdp_config": {"version": 2}}
        case _:
            automatic = (
                *("train_batch_size", "train_micro_batch_size_per_gpu"),
                *("gradient_accumulation_steps", "gradient_clipping"),
            )
            stage = {"zero_optimization": {"stage": int(spec.sharding.removeprefix("zero"))}}
            precision = {"bf16": {"enabled": "auto"}, "zero_allow_untested_optimizer": True}
            return {"deepspeed": {**dict.fromkeys(automatic, "auto"), **stage, **precision}}


@contextmanager
def whole_policy(trainer: CountedGRPOTrainer) -> Iterator[Any]:
    """The policy with all its weights on every process, to sample from or to look at."""
    if not (trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled):
        yield trainer.model
        return
    with (
        unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as policy,
        trainer._dist.summon_full_params(trainer.model_wrapped, recurse=False),
    ):
        yield policy


class Follower(TrainerCallback):  # type: ignore[misc]
    """Calls back after every step, keeps time, and completes every checkpoint with the progress.

    `on_step(step) -> (save, stop)` decides whether the step is checkpointed and is the last. The
    step's metrics come after it: `on_metrics` gives None to leave it at that, or whether to
    checkpoint and to end there. `on_save(checkpoint)` adds to a checkpoint what has to be in it.
    """

    def __init__(
        self,
        ledger: Ledger,
        stream: ProblemStream,
        on_step: Callable[[int], tuple[bool, bool]],
        on_metrics: Callable[[int, dict[str, float]], tuple[bool, bool] | None],
        on_save: Callable[[Path], None],
    ) -> None:
        self._ledger, self._stream = ledger, stream
        self._on_step = on_step
        self._on_metrics = on_metrics
        self._on_save = on_save
        self._began = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._on_step(state.global_step)
        self._began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._ledger.add_seconds(time.perf_counter() - self._began)
        control.should_save, control.should_training_stop = self._on_step(state.global_step)
        self._began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        values = {ours: logs[trl] for trl, ours in _METRICS.items() if logs.get(trl) is not None}
        decided = self._on_metrics(state.global_step, values) if values else None
        if decided is not None:
            control.should_save, control.should_training_stop = decided

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        # The progress completes a checkpoint: every process has to have written its part.
        PartialState().wait_for_everyone()
        if not state.is_world_process_zero:
            return
        self._on_save(checkpoint)
        progress = {"compute": asdict(self._ledger.spent), "stream": self._stream.to_json()}
        write_json(checkpoint / CHECKPOINT_PROGRESS, progress)


def restore_progress(checkpoint: Path, ledger: Ledger, stream: ProblemStream) -> None:
    """Put the books and the order of problems where a complete checkpoint left them."""
    progress = json.loads((checkpoint / CHECKPOINT_PROGRESS).read_text())
    ledger.spent = Compute(**progress["compute"])
    stream.restore(progress["stream"])


def make_stream(spec: RunSpec) -> ProblemStream:
    return ProblemStream(spec.task.num_train_problems, spec.seed, least=spec.problems_per_batch)


def make_trainer(
    spec: RunSpec,
    model: Any,
    tokenizer: Any,
    ledger: Ledger,
    stream: ProblemStream,
    checkpoints: Path,
) -> CountedGRPOTrainer:
    """A GRPOTrainer for `spec` that draws from `stream` and counts compute in `ledger`."""
    problems = training_problems(spec.task)
    tokens = [prompt_tokens(tokenizer, problem) for problem in problems]
    heldout = [prompt_tokens(tokenizer, problem) for problem in heldout_problems(spec.task)]
    longest = max(map(len, [*tokens, *heldout]))
    kind = LaggedGRPOTrainer if spec.recipe.rollout_lag else CountedGRPOTrainer
    with vllm_engine(spec):
        trainer = kind(
            spec,
            ledger,
            stream,
            [Question(p.problem_id, tuple(ids)) for p, ids in zip(problems, tokens, strict=True)],
            model=model,
            reward_funcs=_rewards(spec, problems),
            args=trl_arguments(spec, checkpoints, longest + spec.task.completion_limit),
            # TRL asks for a dataset; which problems come next is the stream's to say.
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=tokenizer,
            peft_config=_adapters(spec),
        )
    # It would print every step's metrics, which metrics.jsonl holds.
    trainer.remove_callback(PrinterCallback)
    return trainer
