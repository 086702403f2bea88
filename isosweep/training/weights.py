"""How groups of rollouts share a step: zero-variance groups, and who weighs how much.

TRL sums a per-token loss that is linear in the advantages' size, over tokens (`dapo`, `cispo`,
`vespo`), over each rollout and then rollouts (`grpo`, `sapo`, `luspo`), or over a constant length
(`dr_grpo`). Leaving groups out or giving every problem the same weight is therefore a factor on the
advantages; the KL and entropy terms keep TRL's own mean.
"""

from collections.abc import Callable
from typing import Any

# TRL's own, in its division by the rewards' spread (grpo_trainer.py).
_LEAST_SPREAD = 1e-4


def by_their_spread(advantages: Any, of_all: Callable[[Any], Any]) -> Any:
    """`advantages` (rollouts,) of this process divided by the standard deviation of everyone's.

    ScaleRL's batch-level normalisation (arXiv 2510.13786, section 4): of advantages, not of
    rewards, whose spread holds the difference between problems as well. All groups of the batch
    count, also those without spread. `of_all` gathers the processes' rows.
    """
    return advantages / (of_all(advantages).std() + _LEAST_SPREAD)


def varied(scores: Any, n: int) -> Any:
    """Which groups of `n` rollouts have different `scores` (rollouts,): (groups,) bool."""
    groups = scores.view(-1, n)
    return (groups != groups[:, :1]).any(1)


def advantage_weights(kept: Any, tokens: Any, loss_type: str, by_problem: bool) -> Any:
    """Factors (rollouts,) on the advantages that leave out groups and set their weights.

    `kept`: (groups,) bool; `tokens`: (rollouts,) that bear loss. The result makes TRL's mean over
    all rollouts or tokens the mean over those of kept groups. `by_problem` (a token mean only)
    makes it the mean over kept problems of the mean over their tokens, as ScaleRL does
    (arXiv 2510.13786). Zero everywhere where nothing is kept.
    """
    problems, n = kept.sum(), len(tokens) // len(kept)
    kept = kept.to(tokens.dtype).repeat_interleave(n)
    if not problems:
        return kept
    if by_problem:
        own = tokens.view(-1, n).sum(1).repeat_interleave(n).clamp(min=1)
        return kept * tokens.sum() / (problems * own)
    match loss_type:
        case "dapo" | "cispo" | "vespo":
            return kept * tokens.sum() / (kept * tokens).sum().clamp(min=1)
        case "grpo" | "dr_grpo" | "sapo" | "luspo":
            return kept * kept.numel() / kept.sum()
        case _:
            # What a loss of one's own divides by is its own to say.
            return kept
