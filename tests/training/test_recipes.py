"""Every recipe's loss against its paper's formula written out, and that a short run learns.

Sequences are B groups of n rollouts. `A` are advantages (B x n,), `logp`, `old`, `reference` and
`entropy` are (B x n, tokens), `mask` says which tokens are the rollout's.
"""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.plan.spec import RunSpec
from tests.conftest import in_ci
from tests.training.builders import spec_of, train, trainer_of

pytestmark = pytest.mark.train

N, B = 4, 4
LIMIT = 7
# Right answers of each problem's rollouts; the last two groups teach nothing.
SCORES = ((1, 0, 0, 1), (0, 0, 0, 1), (1, 1, 1, 1), (0, 0, 0, 0))
RECIPES = (
    *("isocompute_easy", "isocompute_hard", "grpo", "dr_grpo", "dapo"),
    *("gspo", "cispo", "tis", "scalerl", "sapo", "vespo"),
)


def recipe_spec(recipe: str, *more: str, n: int = N, problems: int = B) -> RunSpec:
    # The built-in model has no words to be interrupted with, and its answers no room.
    plain = ("recipe.interruption=null", "recipe.micro_batch=null", "recipe.rollout_lag=0", *more)
    return spec_of(f"recipe={recipe}", *plain, n=n, B=problems)


def rollouts(trainer: Any) -> dict[str, Any]:
    """A real generation of the trainer's, with given scores in place of the verifier's."""
    import torch

    flat = [float(score) for group in SCORES for score in group]
    trainer.reward_funcs[0] = lambda completions, **_: flat
    trainer.model.train()
    torch.manual_seed(1)
    batch: dict[str, Any] = trainer.make_batch(N * B)
    # An older policy, and a sampler, that differ from the learner.
    logp, _ = policy(trainer, trainer.model, batch)
    noise = torch.randn(logp.shape, generator=torch.Generator().manual_seed(2))
    batch["old_per_token_logps"] = logp.detach() + 0.3 * noise
    return batch


def policy(trainer: Any, model: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Log-probabilities of the tokens and entropies, by a plain forward pass."""
    import torch

    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits.float() / trainer.temperature
    start = batch["prompt_ids"].shape[1]
    logs = torch.log_softmax(logits[:, start - 1 : -1], dim=-1)
    taken = logs.gather(2, batch["completion_ids"][:, :, None])[:, :, 0]
    return taken, -(logs.exp() * logs).sum(-1)


def advantages(rewards: Any, scale: str) -> Any:
    import torch

    groups = rewards.view(B, N)
    A = groups - groups.mean(1, keepdim=True)
    if scale == "group":
        A = A / (groups.std(1, keepdim=True) + 1e-4)
    if scale == "batch":
        # Of advantages: the spread of rewards has that between problems in it.
        A = A / (torch.std(A) + 1e-4)
    return A.flatten()


def formula(recipe: str, trainer: Any, batch: dict[str, Any]) -> Any:
    """The loss of the recipe's paper."""
    import torch

    mask = batch["completion_mask"].float()
    logp, entropy = policy(trainer, trainer.model, batch)
    ratio = torch.exp(logp - batch["old_per_token_logps"])
    rewards = torch.tensor([float(s) for group in SCORES for s in group])

    def clipped(A: Any, ratio: Any, low: float, high: float) -> Any:
        return -torch.min(ratio * A, ratio.clamp(1 - low, 1 + high) * A)

    def rollout_mean(losses: Any) -> Any:
        return ((losses * mask).sum(1) / mask.sum(1)).mean()

    def token_mean(losses: Any) -> Any:
        return (losses * mask).sum() / mask.sum()

    match recipe:
        case "isocompute_easy" | "isocompute_hard" | "grpo":
            loss = rollout_mean(clipped(advantages(rewards, "group")[:, None], ratio, 0.2, 0.2))
            kl = {"isocompute_easy": 1e-3, "isocompute_hard": 0.0, "grpo": 0.04}[recipe]
            with torch.no_grad():
                reference = policy(trainer, trainer.ref_model, batch)[0] if kl else logp
            difference = reference - logp
            bonus = {"isocompute_easy": 1e-3}.get(recipe, 0.0) * token_mean(entropy)
            return loss + kl * rollout_mean(torch.exp(difference) - difference - 1) - bonus
        case "dr_grpo":
            losses = clipped(advantages(rewards, "none")[:, None], ratio, 0.2, 0.2)
            return (losses * mask).sum() / (N * B * LIMIT)
        case "dapo" | "cispo":
            # Paid 1 and -1; the last fifth of 7 tokens is 1: answers of 7 are punished by -1.
            paid = 2 * rewards - 1 if recipe == "dapo" else rewards
            punished = paid - (mask.sum(1) == LIMIT).float()
            informative = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat_interleave(N)[:, None]
            A = advantages(punished, "group")[:, None]
            weighted = -ratio.clamp(max=5.0).detach() * A * logp
            losses = clipped(A, ratio, 0.2, 0.28) if recipe == "dapo" else weighted
            return (losses * informative * mask).sum() / (informative * mask).sum()
        case "gspo":
            by_rollout = torch.exp(
                ((logp - batch["old_per_token_logps"]) * mask).sum(1) / mask.sum(1)
            )
            return clipped(advantages(rewards, "group"), by_rollout, 3e-4, 4e-4).mean()
        case "sapo":
            A = advantages(rewards, "group")[:, None]
            sharp = torch.where(A > 0, 1.0, 1.05)
            return rollout_mean(-4 / sharp * torch.sigmoid(sharp * (ratio - 1)) * A)
        case "vespo":
            A = advantages(rewards, "group")[:, None]
            w = torch.exp(((logp - batch["old_per_token_logps"]) * mask).sum(1, keepdim=True))
            k, rate = torch.where(A >= 0, 2.0, 3.0), torch.where(A >= 0, 3.0, 2.0)
            return token_mean(-(w**k * torch.exp(rate * (1 - w))).detach() * A * logp)
        case "tis":
            A = advantages(rewards, "group")[:, None]
            truncated = batch["importance_sampling_ratio"].clamp(max=2.0)
            return token_mean(truncated * clipped(A, ratio, 0.2, 0.2))
        case "scalerl":
            A = advantages(2 * rewards - 1, "batch")[:, None]
            losses = -ratio.clamp(max=5.0).detach() * A * logp * mask
            groups, tokens = losses.view(B, -1), mask.view(B, -1)
            kept = [0, 1]
            return (groups.sum(1) / tokens.sum(1))[kept].mean()
    raise AssertionError(recipe)


# A recipe for each formula in every run, of several micro-batches.
CASES = in_ci(
    product(RECIPES, (1, 2)),
    *product(
        ("isocompute_easy", "dr_grpo", "dapo", "gspo", "cispo", "tis", "scalerl", "sapo", "vespo"),
        (2,),
    ),
)


@pytest.mark.parametrize(("recipe", "micro_batches"), CASES)
def test_a_step_uses_the_recipes_loss(recipe: str, micro_batches: int, tmp_path: Path) -> None:
    import torch

    more = ("recipe.zero_variance=drop", "recipe.max_draws=1", "recipe.planned_draws=1")
    resampled = recipe in ("dapo", "cispo")
    spec = recipe_spec(recipe, "recipe.mini_batches=1", *(more if resampled else ()))
    spec = replaced(spec, micro_batch=N * B // micro_batches)
    trainer = trainer_of(spec, tmp_path)
    assert trainer.args.steps_per_generation == micro_batches
    trainer.current_gradient_accumulation_steps = micro_batches
    batch = rollouts(trainer)
    # What is logged is the task's score, whatever a right answer is paid.
    assert trainer._metrics["train"]["rewards/correctness/mean"][-1] == 7 / 16
    if recipe == "tis":
        # A sampler that is not the learner, as vLLM is one.
        trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
        sampled = torch.rand(batch["completion_mask"].shape) * 3
        batch["importance_sampling_ratio"] = sampled.clamp(max=2.0)
        batch["importance_sampling_ratio"][0, 0] = 2.0
    if trainer.beta:
        # The policy has moved away from its reference.
        torch.manual_seed(3)
        batch["ref_per_token_logps"] = policy(trainer, trainer.ref_model, batch)[0].detach()
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
    size = spec.micro_batch
    parts = [
        {name: value[at : at + size] if value.dim() else value for name, value in batch.items()}
        for at in range(0, N * B, size)
    ]
    theirs = sum(trainer.compute_loss(trainer.model, part) for part in parts)
    expected = formula(recipe, trainer, batch)
    assert theirs.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    parameters = list(trainer.model.parameters())
    gradient = torch.autograd.grad(theirs, parameters, retain_graph=True)
    ours = torch.autograd.grad(expected, parameters)
    norm = torch.stack([g.norm() for g in ours]).norm()
    apart = torch.stack([(a - b).norm() for a, b in zip(gradient, ours, strict=True)]).norm()
    assert norm > 1e-3
    assert apart < 1e-3 * norm


# The others take as long.
@pytest.mark.slow
@pytest.mark.parametrize("recipe", in_ci(RECIPES, "isocompute_easy"))
def test_a_short_run_learns(recipe: str, tmp_path: Path) -> None:
    from isosweep.training.evaluate import Evaluator

    settings = ("recipe.learning_rate=2e-4", "recipe.learning_rate_rule=constant")
    # As many problems that a run learns to sort, and not by heart the default's 32.
    evaluation = (
        *("task.num_train_problems=1024", "task.num_eval_problems=256"),
        "evaluation.samples_per_problem=4",
    )
    clip = ("recipe.overlong_share=null", "recipe.warmup_steps=5")
    spec = recipe_spec(recipe, *settings, *evaluation, *clip, n=4, problems=8)
    # Of 32 rollouts sixteen mini-batches would be two each, of one problem.
    updates = min(4, spec.recipe.mini_batches)
    cut = replaced(spec.recipe, mini_batches=updates)
    spec = replaced(spec, recipe=cut, micro_batch=32 // updates)
    trainer = trainer_of(spec, tmp_path)
    evaluate = Evaluator(spec, trainer.processing_class)
    before = sum(evaluate(trainer.model).successes) / 1024
    assert len(train(trainer, 150 * updates)) == 150 * updates
    after = sum(evaluate(trainer.model).successes) / 1024
    # Three standard errors of a difference of two means of 1,024 answers.
    assert after > before + 0.06, (before, after)
    spent = trainer.ledger.spent
    assert spent.generations == 150
    if spec.recipe.zero_variance == "resample":
        # What dynamic sampling threw away is in the books.
        assert spent.rollouts > 150 * 32
    else:
        assert spent.rollouts == 150 * 32


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo"])
def test_groups_that_are_left_out_are_left_out_of_a_mean_over_rollouts(loss_type: str) -> None:
    import torch

    from isosweep.training.weights import advantage_weights

    kept = torch.tensor([True, False, True, True])
    losses = torch.rand(12, generator=torch.Generator().manual_seed(0))
    weights = advantage_weights(kept, torch.ones(12), loss_type, by_problem=False)
    left = losses[kept.repeat_interleave(3)]
    assert (losses * weights).mean().item() == pytest.approx(left.mean().item())
    for by_problem in (False, True):
        # Where nothing is kept nothing weighs.
        weights = advantage_weights(torch.zeros_like(kept), torch.ones(12), loss_type, by_problem)
        assert (weights == 0).all()


def test_advantages_are_divided_by_their_own_spread_over_all_processes() -> None:
    import torch

    from isosweep.training.weights import by_their_spread

    centred: Any = torch.tensor([0.5, 0.5, 0.5, -1.5, -0.5, -0.5, 1.5, -0.5, 0.0, 0.0, 0.0, 0.0])
    scaled = by_their_spread(centred[:4], lambda local: centred)
    expected = centred[:4] / (((centred**2).sum() / 11).sqrt() + 1e-4)
    assert torch.allclose(scaled, expected)
