"""The adapter to TRL's GRPOTrainer: settings, reward, counters, evaluation, checkpoints."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from isosweep.compute import Compute
from isosweep.files import write_json
from isosweep.flops import rollout_flops
from isosweep.lag import lagged
from isosweep.paths import CHECKPOINT_COUNTERS
from isosweep.spec import RunSpec, passes_of
from isosweep.tasks import Problem, is_correct, training_problems

# Far beyond any plan: a run ends by measured compute, and with a constant rate after warm-up its
# steps do not depend on this number.
_ENDLESS = 10**9

# TRL's metric names and ours.
_METRICS = {
    "reward": "reward",
    "reward_std": "reward_std",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "kl": "kl",
    "learning_rate": "learning_rate",
    "completions/mean_length": "completion_tokens",
    "completions/clipped_ratio": "truncated_share",
    "frac_reward_zero_std": "zero_variance_share",
}


class Ledger:
    """Compute spent on training rollouts, counted where TRL hands them to the reward."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._passes = passes_of(spec.recipe, spec.generation, float(spec.num_generations))
        self.spent = Compute()

    def add(self, prompt_tokens: list[int], completion_tokens: list[int]) -> None:
        """Count rollouts: `prompt_tokens`, `completion_tokens`: (rollouts,)."""
        prompts = np.asarray(prompt_tokens, dtype=np.float64)
        completions = np.asarray(completion_tokens, dtype=np.float64)
        flops = rollout_flops(self._spec.model.architecture, prompts, completions, self._passes)
        self.spent += Compute(
            generations=1,
            rollouts=len(prompt_tokens),
            prompt_tokens=sum(prompt_tokens),
            completion_tokens=sum(completion_tokens),
            prefill_flops=float(np.sum(flops.prefill)),
            decode_flops=float(np.sum(flops.decode)),
            old_policy_flops=float(np.sum(flops.old_policy)),
            reference_flops=float(np.sum(flops.reference)),
            training_flops=float(np.sum(flops.training)),
        )

    def add_seconds(self, seconds: float) -> None:
        self.spent += Compute(device_seconds=seconds)


def load_policy(spec: RunSpec, directory: str) -> tuple[Any, Any]:
    """Model and tokenizer from a directory or hub name, in the precision it is trained in."""
    tokenizer = AutoTokenizer.from_pretrained(directory, revision=spec.model.revision)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(
        directory, revision=spec.model.revision, dtype=getattr(torch, spec.weights_dtype)
    )
    return model, tokenizer


def prompt_text(tokenizer: Any, problem: Problem) -> str:
    """The problem as the model reads it: through its chat template where it has one."""
    if tokenizer.chat_template is None:
        return problem.prompt
    messages = [{"role": "user", "content": problem.prompt}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def _dataset(spec: RunSpec, tokenizer: Any) -> Dataset:
    rows = []
    for problem in training_problems(spec.task):
        text = prompt_text(tokenizer, problem)
        tokens = len(tokenizer(text)["input_ids"])
        rows.append({"prompt": text, "answer": problem.answer, "prompt_tokens": tokens})
    return Dataset.from_list(rows)


def _reward(spec: RunSpec, ledger: Ledger) -> Callable[..., list[float]]:
    """TRL's reward function: 1 for a correct completion, 0 otherwise; counts what it is shown."""

    def correctness(
        completions: list[str],
        completion_ids: list[list[int]],
        answer: list[str],
        prompt_tokens: list[int],
        **_: Any,
    ) -> list[float]:
        ledger.add(prompt_tokens, [len(ids) for ids in completion_ids])
        return [
            float(is_correct(spec.task, right, text))
            for right, text in zip(answer, completions, strict=True)
        ]

    return correctness


def _arguments(spec: RunSpec, checkpoints: Path) -> GRPOConfig:
    """TRL's settings: each update uses all n x B completions of one generation.

    One generation serves `num_iterations` updates.
    """
    recipe = spec.recipe
    cuda = spec.device == "cuda"
    return GRPOConfig(
        output_dir=str(checkpoints),
        seed=spec.seed,
        max_steps=_ENDLESS,
        per_device_train_batch_size=spec.micro_batch,
        gradient_accumulation_steps=spec.completions_per_step // spec.micro_batch,
        num_generations=spec.num_generations,
        num_iterations=recipe.num_iterations,
        max_completion_length=spec.task.completion_limit,
        temperature=recipe.temperature,
        top_p=recipe.top_p,
        top_k=0,
        loss_type=recipe.loss_type,
        beta=recipe.beta,
        epsilon=recipe.epsilon,
        epsilon_high=recipe.epsilon_high,
        scale_rewards=recipe.scale_rewards,
        learning_rate=spec.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.adam_beta2,
        max_grad_norm=recipe.max_grad_norm,
        bf16=cuda and spec.dtype == "bfloat16",
        gradient_checkpointing=spec.gradient_checkpointing,
        use_cpu=not cuda,
        dataloader_pin_memory=cuda,
        logging_steps=1,
        save_strategy="steps",
        save_steps=_ENDLESS,
        save_total_limit=2,
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class Follower(TrainerCallback):  # type: ignore[misc]
    """Calls back after every step, keeps time, and completes every checkpoint with the counters.

    `on_step(step) -> (save, stop)` decides whether the step is checkpointed and is the last.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_step: Callable[[int], tuple[bool, bool]],
        on_metrics: Callable[[int, dict[str, float]], None],
    ) -> None:
        self._ledger = ledger
        self._on_step = on_step
        self._on_metrics = on_metrics
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
        if values:
            self._on_metrics(state.global_step, values)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        write_json(checkpoint / CHECKPOINT_COUNTERS, asdict(self._ledger.spent))


def read_counters(checkpoint: Path) -> Compute:
    """Compute spent up to a complete checkpoint."""
    return Compute(**json.loads((checkpoint / CHECKPOINT_COUNTERS).read_text()))


def make_trainer(
    spec: RunSpec, model: Any, tokenizer: Any, ledger: Ledger, checkpoints: Path
) -> GRPOTrainer:
    """A GRPOTrainer for `spec` that counts compute in `ledger`."""
    trainer = lagged(GRPOTrainer, spec.recipe.rollout_lag)(
        model=model,
        reward_funcs=_reward(spec, ledger),
        args=_arguments(spec, checkpoints),
        train_dataset=_dataset(spec, tokenizer),
        processing_class=tokenizer,
    )
    # It would print every step's metrics, which metrics.jsonl holds.
    trainer.remove_callback(PrinterCallback)
    return trainer
