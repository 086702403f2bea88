"""Losses of one's own: TRL's formulas written out, and functions that are none."""

from typing import Any

import torch

from isosweep.training.loss import LossInputs, LossOutputs


def _per_token(given: LossInputs) -> tuple[Any, dict[str, Any]]:
    """GRPO's clipped loss with its KL term (R, L), and the share of tokens that is clipped."""
    recipe, advantages = given.recipe, given.advantages[:, None]
    ratio = torch.exp(given.log_probs - given.old_log_probs)
    low, high = 1 - recipe.epsilon, 1 + recipe.epsilon_high
    losses = -torch.min(ratio * advantages, ratio.clamp(low, high) * advantages)
    if given.sampler_ratio is not None:
        losses = losses * given.sampler_ratio
    if given.reference_log_probs is not None:
        gap = given.reference_log_probs - given.log_probs
        losses = losses + recipe.beta * (gap.exp() - gap - 1)
    beyond = ((ratio < low) & (advantages < 0)) | ((ratio > high) & (advantages > 0))
    clipped = (beyond * given.mask).sum() / given.mask.sum()
    return losses * given.mask, {"clipped": clipped}


def dapo(given: LossInputs) -> LossOutputs:
    losses, metrics = _per_token(given)
    return LossOutputs(loss=losses.sum() / given.update_tokens, metrics=metrics)


def grpo(given: LossInputs) -> LossOutputs:
    losses, metrics = _per_token(given)
    means = losses.sum(1) / given.mask.sum(1).clamp(min=1)
    return LossOutputs(loss=means.sum() / given.update_rollouts, metrics=metrics)


def takes_nothing() -> None: ...


def number(given: LossInputs) -> float:
    return given.step + 1.0


def fixed(given: LossInputs) -> LossOutputs:
    return LossOutputs(loss=given.advantages.sum())


def misspelt(given: Any) -> LossOutputs:
    return LossOutputs(loss=given.logprobs.sum())


def of_several(given: LossInputs) -> LossOutputs:
    return LossOutputs(loss=given.log_probs.sum(), metrics={"advantages": given.advantages})


def later(given: LossInputs) -> LossOutputs:
    if given.step > 2:
        raise ValueError("no more")
    return grpo(given)


def not_a_number(given: LossInputs) -> LossOutputs:
    return LossOutputs(loss=given.log_probs.sum() * float("nan"))
