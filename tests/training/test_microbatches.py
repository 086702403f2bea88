"""Micro-batches that pad little: the update's gradient, its metrics and its books."""

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from isosweep.config.recipe import ImportanceSamplingMode
from isosweep.plan.spec import RunSpec
from tests.conftest import in_ci
from tests.models.families import configuration, language_model
from tests.training.builders import spec_of, train, trainer_of
from tests.training.test_recipes import RECIPES

pytestmark = pytest.mark.train

N, B, MICRO = 4, 4, 2
# Prompts of several lengths, and room for answers of many.
MIXED = (
    *("task.sort.levels=[3,5,7]", "task.num_train_problems=48", "task.num_eval_problems=12"),
    "task.max_completion_tokens=24",
)


def mixed_spec(*overrides: str, micro: int = MICRO) -> RunSpec:
    return spec_of(*MIXED, *overrides, n=N, B=B, micro=micro)


def answers(trainer: Any, lengths: Callable[[int], int]) -> None:
    """Let the i-th completion have `lengths(i)` tokens; one shorter than allowed has an end."""
    import torch

    limit, end = trainer.spec.task.completion_limit, trainer.processing_class.eos_token_id

    def sample(prompt_ids: list[list[int]], num_generations: int) -> Any:
        made = [torch.randint(3, 13, (lengths(i),)).tolist() for i in range(len(prompt_ids))]
        return [ids if len(ids) == limit else [*ids[:-1], end] for ids in made], None

    trainer.sample = sample


def mixed(i: int) -> int:
    return (5 * i) % 23 + 1


def batch_of(trainer: Any) -> dict[str, Any]:
    """A generation of mixed lengths with spread of rewards, an older policy and a reference."""
    import torch

    flat = [float(i % 3 == 0) for i in range(N * B)]
    trainer.reward_funcs[0] = lambda completions, **_: flat[: len(completions)]
    answers(trainer, mixed)
    batch: dict[str, Any] = trainer.make_batch(N * B)
    logs = trainer.log_probabilities(batch)
    noise = torch.randn(2, *logs.shape, generator=torch.Generator().manual_seed(2))
    batch["old_per_token_logps"] = logs + 0.3 * noise[0]
    batch["ref_per_token_logps"] = logs + 0.3 * noise[1]
    return batch


def corrected(trainer: Any, batch: dict[str, Any], mode: str) -> None:
    """As if vLLM had sampled: ratios of tokens, or one of each rollout, by TRL's shapes."""
    import torch

    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    shape = (N * B, 1) if mode.startswith("sequence") else batch["completion_ids"].shape
    batch["importance_sampling_ratio"] = torch.rand(shape) * 2
    batch["sampling_per_token_logps"] = batch["old_per_token_logps"] + 0.1


def updates(trainer: Any, batch: dict[str, Any], kind: Any = None) -> list[Any]:
    """Gradients of every update made with `batch`, by the methods of `kind`: the trainer's own."""
    import torch

    kind = kind or type(trainer)
    trainer.make_batch = lambda count: dict(batch)
    trainer._buffered_inputs, trainer._step = None, 0
    accumulated = trainer.args.gradient_accumulation_steps
    trainer.current_gradient_accumulation_steps = accumulated
    trainer._metrics["train"].clear()
    torch.manual_seed(5)
    gradients = []
    for step in range(trainer.args.steps_per_generation):
        inputs = kind._prepare_inputs(trainer, [{}] * (N * B))
        kind.compute_loss(trainer, trainer.model, inputs).backward()
        trainer._step += 1
        if trainer._step % accumulated == 0:
            parameters = [p for p in trainer.model.parameters() if p.grad is not None]
            gradients.append(torch.cat([p.grad.flatten() for p in parameters]))
            trainer.model.zero_grad()
        assert step < 100
    return gradients


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest distance of two gradients over the norm of one."""
    assert len(ours) == len(theirs)
    assert all(gradient.norm() > 1e-4 for gradient in theirs)
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def positions(parts: list[dict[str, Any]]) -> int:
    """Positions that micro-batches compute."""
    return sum(part["prompt_ids"].numel() + part["completion_ids"].numel() for part in parts)


def compared(trainer: Any, batch: dict[str, Any]) -> float:
    """How far the update's gradient is from TRL's own, untrimmed and in TRL's order."""
    from trl import GRPOTrainer

    theirs = updates(trainer, batch, GRPOTrainer)
    untrimmed = positions(trainer._buffered_inputs)
    ours = updates(trainer, batch)
    assert positions(trainer._buffered_inputs) < 0.8 * untrimmed
    return apart(ours, theirs)


PLAIN = ("recipe.interruption=null", "recipe.micro_batch=null", "recipe.entropy_coef=0")
KEPT = ("recipe.zero_variance=keep", "recipe.max_draws=1", "recipe.planned_draws=1")


MODES = [
    f"{mode} of a {level}"
    for mode, level in product(get_args(ImportanceSamplingMode), ("token", "sequence"))
]
# What a recipe does to a batch, besides its loss.
VARIANTS = {
    "by problem, dropped": ("recipe=scalerl",),
    "masked": ("++recipe.trl.mask_truncated_completions=true", "task.max_completion_tokens=20"),
    "adapters": ("recipe.lora_rank=4",),
    "lagging": ("recipe.rollout_lag=1",),
    "used twice": ("recipe.num_iterations=2",),
    "a phrase without loss": (),
}


def settings_of(case: str) -> tuple[str, ...]:
    if case in RECIPES:
        return (f"recipe={case}", *PLAIN, *KEPT, "recipe.mini_batches=2")
    if case in MODES:
        level = f"recipe.importance_sampling_level={case.split()[-1]}"
        return ("recipe=grpo", *PLAIN, level, "recipe.beta=0.01")
    return (*VARIANTS[case], *PLAIN)


@pytest.mark.parametrize(
    "case",
    in_ci(
        [*RECIPES, *MODES, *VARIANTS],
        *("grpo", "dapo", "gspo", "cispo"),
        *("token_truncate of a token", "sequence_mask of a sequence", *VARIANTS),
    ),
)
def test_an_update_has_the_gradient_of_trls_own(case: str, tmp_path: Path) -> None:
    import torch

    trainer = trainer_of(mixed_spec(*settings_of(case)), tmp_path)
    batch = batch_of(trainer)
    if case in MODES:
        # Ratios are given: what the mode changes of the loss is their shape.
        corrected(trainer, batch, case.split()[0])
    if case == "adapters":
        with torch.no_grad():
            for name, parameter in trainer.model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.1)
    if case == "a phrase without loss":
        batch["tool_mask"] = (batch["completion_ids"] % 3 > 0).long()
    trainer.model.double()
    assert compared(trainer, batch) < 1e-6


def test_the_entropy_bonus_is_the_mean_over_an_updates_tokens(tmp_path: Path) -> None:
    from trl import GRPOTrainer

    bonus = ("recipe.entropy_coef=1", "recipe.beta=0.1")
    trainer = trainer_of(mixed_spec(*PLAIN, *bonus), tmp_path / "parts")
    batch = batch_of(trainer)
    trainer.model.double()
    ours = updates(trainer, batch)
    means = {name: trainer._metrics["train"][name] for name in ("entropy", "kl")}
    assert all(len(values) == N * B // MICRO for values in means.values())
    whole = trainer_of(mixed_spec(*PLAIN, *bonus, micro=N * B), tmp_path / "whole")
    whole.model.double()
    assert apart(ours, updates(whole, batch, GRPOTrainer)) < 1e-6
    # As the log takes it, the mean of a metric is that over tokens, however they are split.
    for name, values in means.items():
        (together,) = whole._metrics["train"][name]
        assert math.fsum(values) / len(values) == pytest.approx(together, rel=1e-5)


def test_a_mixture_keeps_trls_micro_batches_for_its_load_balancing_loss(tmp_path: Path) -> None:
    more: dict[str, Any] = {"router_aux_loss_coef": 0.5, "experts_implementation": "eager"}
    model = language_model(configuration("Qwen3Moe", vocab_size=32, eos_token_id=1, **more))
    trainer = trainer_of(mixed_spec(*PLAIN), tmp_path, model)
    assert trainer.aux_loss_enabled
    batch = batch_of(trainer)
    trainer.model.double()
    assert compared(trainer, batch) < 1e-6


SMALL = {"hidden_size": 64, "intermediate_size": 160, "head_dim": 32, "vocab_size": 80}


def counted(step: Callable[[], Any]) -> int:
    """What torch counts, and the products that the fused head adds up in place."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def added(total: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
        return int(2 * a[0] * a[1] * b[1])

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: added}) as counter:
        step()
    return int(counter.get_total_flops())


def network_of(directory: Path, sizes: dict[str, int]) -> Any:
    """A new model of these sizes, loaded from where a reference model is loaded, too. Its eager
    attention is the one that torch's counter sees."""
    from transformers import Qwen2ForCausalLM

    heads = {f"num_{part}": 2 for part in ("hidden_layers", "attention_heads", "key_value_heads")}
    shape = configuration("Qwen2", **sizes, **heads, tie_word_embeddings=True, eos_token_id=1)
    language_model(shape).save_pretrained(directory / "model")
    return Qwen2ForCausalLM.from_pretrained(directory / "model", attn_implementation="eager")


def shaped(sizes: dict[str, int]) -> list[str]:
    return [f"model.architecture.{name}={value}" for name, value in sizes.items()]


COSTS = {
    "padding": (),
    "checkpointing": ("hardware.gradient_checkpointing=true",),
    "adapters": ("recipe.lora_rank=8",),
    "adapters, checkpointing": ("recipe.lora_rank=8", "hardware.gradient_checkpointing=true"),
    "two passes": ("recipe=grpo", "recipe.rollout_lag=1"),
    "twice": ("recipe.num_iterations=2",),
    "truncated": ("++recipe.trl.mask_truncated_completions=true", "task.max_completion_tokens=23"),
}


@pytest.mark.parametrize("cost", in_ci(COSTS, "adapters, checkpointing", "two passes"))
def test_what_devices_compute_is_booked(cost: str, tmp_path: Path) -> None:
    spec = mixed_spec(*shaped(SMALL), *PLAIN, *COSTS[cost], micro=4)
    trainer = trainer_of(spec, tmp_path, network_of(tmp_path, SMALL))
    answers(trainer, mixed)
    flops = counted(lambda: train(trainer, 1))
    spent = trainer.ledger.spent
    updates = trainer.num_iterations
    learner = (spent.scoring_hardware_flops or 0) + spent.training_hardware_flops / updates
    assert flops == pytest.approx(learner, rel=0.01)
    assert (spent.scoring_hardware_flops is not None) == (updates > 1 or cost == "two passes")
    if spent.scoring_hardware_flops is not None:
        # A forward and a backward pass of every rollout an update, and one forward pass before.
        assert spent.training_flops == pytest.approx(3 * updates * spent.old_policy_flops)
    # Rollouts that bear no loss are in the budget, and not computed.
    if cost != "truncated":
        assert spent.flops < spent.hardware_flops
