"""Micro-batches that pad little: an update's rollouts ordered by length, each part cut to its own.

TRL pads the rollouts of a generation to its longest prompt and completion, splits them at random
into micro-batches and keeps that width. Here the rollouts of one update are ordered by length
before the split, and every micro-batch loses the columns that pad all of its rows. None moves to
another update, and the update's gradient stays the same: the losses that a recipe can have are
sums over rollouts or tokens with a divisor that no micro-batch changes. The entropy bonus, a mean
over each micro-batch's tokens, is weighed to be the mean over the update's. A mixture's
load-balancing loss is a product of means of a micro-batch: its rollouts stay where TRL put them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

# A generation's tensors by TRL's names, a row a rollout of this process.
Batch = dict[str, Any]
# A batch's tensors with a column for every position, by TRL's names; prompts are padded on the
# left, completions on the right. A ratio of whole rollouts has one column, which stays.
_PROMPT = frozenset({"prompt_ids", "prompt_mask"})
_COMPLETION = frozenset(
    {
        *("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps"),
        *("ref_per_token_logps", "sampling_per_token_logps", "importance_sampling_ratio"),
    }
)
# Means over a micro-batch's tokens that the log takes the plain mean of.
TOKEN_MEANS = ("entropy", "kl")

# Rollouts, positions of prompts and of completions, and tokens of all completions.
Shape = tuple[int, int, int, int]


def lengths_of(batch: Batch) -> tuple[list[int], list[int]]:
    """Tokens of each rollout's prompt and completion that are attended to."""
    return batch["prompt_mask"].sum(1).tolist(), batch["completion_mask"].sum(1).tolist()


def ordered(prompts: Sequence[int], completions: Sequence[int], size: int) -> list[int]:
    """Places of rollouts of these lengths, longest first, so that parts of `size` pad little.

    By completion and then prompt or the other way round, whichever pads less; rollouts of equal
    lengths keep their order.
    """
    lengths = list(zip(prompts, completions, strict=True))
    places = range(len(lengths))
    orders = [
        sorted(places, key=lambda at: lengths[at][::-1], reverse=True),
        sorted(places, key=lambda at: lengths[at], reverse=True),
    ]

    def padded(order: list[int]) -> int:
        parts = [order[at : at + size] for at in places[::size]]
        longest = (map(max, zip(*(lengths[at] for at in part), strict=True)) for part in parts)
        return sum(map(sum, longest))

    return min(orders, key=padded)


def cut(batch: Batch) -> Batch:
    """`batch` without the columns that pad every one of its rollouts."""
    prompt, completion = (max(1, *lengths) for lengths in lengths_of(batch))
    start = batch["prompt_ids"].size(1) - prompt
    return {
        name: value[:, start:]
        if name in _PROMPT
        else value[:, :completion]
        if name in _COMPLETION
        else value
        for name, value in batch.items()
    }


def shape_of(batch: Batch) -> Shape:
    """What is computed of a micro-batch."""
    rows, prompt = batch["prompt_ids"].shape
    return rows, prompt, batch["completion_ids"].shape[1], int(batch["completion_mask"].sum())


def repacked(
    parts: Sequence[Batch], update: int, *, reorder: bool
) -> tuple[list[Batch], list[Shape]]:
    """The micro-batches `parts`, cut, and their shapes; with `reorder`, each `update` of them
    ordered by length."""
    size = len(parts[0]["prompt_ids"])
    made = [] if reorder else [cut(part) for part in parts]
    for at in range(0, len(parts), update) if reorder else ():
        whole = joined(parts[at : at + update])
        order = ordered(*lengths_of(whole), size)
        made += [cut(rows_of(whole, order[i : i + size])) for i in range(0, len(order), size)]
    return made, [shape_of(part) for part in made]


def joined(parts: Sequence[Batch]) -> Batch:
    """Batches of the same width as one; what has no rows is the first one's."""
    return {
        name: torch.cat([part[name] for part in parts]) if value.dim() else value
        for name, value in parts[0].items()
    }


def rows_of(batch: Batch, places: Sequence[int]) -> Batch:
    """The rollouts of `batch` at `places`."""
    at = torch.tensor(places, device=batch["prompt_ids"].device)
    return {name: value[at] if value.dim() else value for name, value in batch.items()}


def bearing(batch: Batch) -> Any:
    """1 for every token that bears loss: (rollouts, tokens)."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def with_shares(parts: Sequence[Batch], update: int, of_all: Callable[[Any], Any]) -> list[Batch]:
    """`parts` with what their token means count for, so that an update's mean is its tokens'.

    `token_share` of a mean over all processes, whose rows `of_all` gathers; `entropy_share` of one
    over this process.
    """
    own = torch.stack([bearing(part).sum() for part in parts])
    everyones = of_all(own).view(-1, len(parts))
    together = everyones.sum(0)
    whole = together.view(-1, update).sum(1).repeat_interleave(update).clamp(min=1)
    shares = (update * together / whole).tolist()
    entropy = (update * len(everyones) * own / whole).tolist()
    return [
        {**part, "token_share": shares[at], "entropy_share": entropy[at]}
        for at, part in enumerate(parts)
    ]


def scored(
    score: Callable[..., tuple[Any, Any, Any]],
    input_ids: Any,
    attention_mask: Any,
    logits_to_keep: int,
    size: int,
) -> tuple[Any, list[Shape]]:
    """Log-probabilities of the completions' tokens, of which `score` is given `size` rollouts at
    once, ordered and cut: (rollouts, `logits_to_keep`), and the shapes that it was given."""
    start = input_ids.size(1) - logits_to_keep
    batch = {
        "prompt_ids": input_ids[:, :start],
        "prompt_mask": attention_mask[:, :start],
        "completion_ids": input_ids[:, start:],
        "completion_mask": attention_mask[:, start:],
    }
    order = ordered(*lengths_of(batch), size)
    logs = input_ids.new_zeros(batch["completion_ids"].shape, dtype=torch.float32)
    shapes = []
    for at in range(0, len(order), size):
        places = order[at : at + size]
        part = cut(rows_of(batch, places))
        ids = torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1)
        mask = torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1)
        width = part["completion_ids"].size(1)
        own, *_ = score(ids, mask, width)
        logs[places, :width] = own
        shapes.append(shape_of(part))
    return logs, shapes
