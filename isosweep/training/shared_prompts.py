"""Forward and backward passes that read the prompt of a problem's rollouts once.

The rollouts of one prompt make one sequence: the prompt but for its last token, then of every
rollout that last token and its completion, which sees the prompt and itself alone. Each is where it
would be by itself, so that log-probabilities and gradients are the same but for rounding.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from isosweep.training.microbatches import by_prompt

# Of a token in a sequence: that of the prompt, or that fills a row up; a rollout's are 1 and up.
_PROMPT, _FILLER = 0, -1


class SharedPrompts:
    """In the place of a model with TRL's fused head: scores a micro-batch, its prompts once each.

    Called as TRL calls that, with prompts padded on the left to one width, and completions of
    `completion` positions padded on the right. What comes back has those positions alone.
    """

    def __init__(self, model: Any, completion: int) -> None:
        self._model, self._completion = model, completion

    def __call__(
        self, *, input_ids: Any, attention_mask: Any, labels: Any, fused_lm_head: bool
    ) -> SimpleNamespace:
        """`log_probs` and, where the head computes it, `entropy`: (rollouts, completion)."""
        start = input_ids.size(1) - self._completion
        packed = _packed(input_ids, attention_mask.bool(), start)
        out = self._model(
            input_ids=packed.ids,
            attention_mask=packed.mask,
            position_ids=packed.positions,
            shift_labels=packed.labels,
            fused_lm_head=fused_lm_head,
        )
        wanted = labels[:, start:] != -100

        def of_rollouts(values: Any | None) -> Any | None:
            if values is None:
                return None
            return values.new_zeros(wanted.shape).masked_scatter(
                wanted, values[packed.rows, packed.columns]
            )

        return SimpleNamespace(
            log_probs=of_rollouts(out.log_probs), entropy=of_rollouts(out.entropy), aux_loss=None
        )


def _packed(ids: Any, mask: Any, start: int) -> SimpleNamespace:
    """The sequences, (prompts, tokens), and where each rollout's tokens are in them."""
    device = ids.device
    columns: dict[str, list[Any]] = {"ids": [], "positions": [], "labels": [], "owners": []}
    places: list[tuple[int, int, int]] = []
    groups = by_prompt({"prompt_ids": ids[:, :start], "prompt_mask": mask[:, :start]})
    for number, (prompt, rows) in enumerate(groups.items()):
        prefix = len(prompt) - 1
        sequence, positions = list(prompt[:-1]), list(range(prefix))
        labels, owners = [-100] * prefix, [_PROMPT] * prefix
        for owner, row in enumerate(rows, start=1):
            if not (answer := ids[row, start:][mask[row, start:]].tolist()):
                continue
            places += [(row, number, len(sequence) + at) for at in range(len(answer))]
            sequence += [prompt[-1], *answer[:-1]]
            positions += range(prefix, prefix + len(answer))
            labels += answer
            owners += [owner] * len(answer)
        for name, values in zip(columns, (sequence, positions, labels, owners), strict=True):
            columns[name].append(torch.tensor(values, device=device))
    fill = {"ids": 0, "positions": 0, "labels": -100, "owners": _FILLER}
    made = {
        name: pad_sequence(values, batch_first=True, padding_value=fill[name])
        for name, values in columns.items()
    }
    # In the order of rollouts, each from its first token to its last.
    _, at_rows, at_columns = torch.tensor(sorted(places), device=device).view(-1, 3).long().T
    return SimpleNamespace(
        ids=made["ids"],
        positions=made["positions"],
        labels=made["labels"],
        mask=_seen(made["owners"]),
        rows=at_rows,
        columns=at_columns,
    )


def _seen(owners: Any) -> Any:
    """Which tokens each token attends to: those before it of the prompt and of its own rollout.

    (sequences, 1, tokens, tokens)
    """
    own, other = owners[:, :, None], owners[:, None, :]
    tokens = torch.arange(owners.size(1), device=owners.device)
    before = tokens[None, :, None] >= tokens[None, None, :]
    return (((other == own) | (other == _PROMPT)) & before)[:, None]
