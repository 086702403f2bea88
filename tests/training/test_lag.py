"""Rollouts that wait: whose log-probabilities they bring."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.builders import spec_of, trainer_of

pytestmark = pytest.mark.train
LAG = 2


def test_rollouts_are_trained_on_with_the_log_probabilities_of_the_policy_that_made_them(
    tmp_path: Path,
) -> None:
    import torch

    steps = LAG + 3
    more = ("recipe.learning_rate=1e-3", "task.num_train_problems=1024")
    trainer = trainer_of(spec_of(f"recipe.rollout_lag={LAG}", *more, micro=8), tmp_path)
    trainer.args.max_steps, trainer.args.save_strategy = steps, "no"
    policies: list[dict[str, Any]] = []
    trained: list[dict[str, Any]] = []
    booked: list[list[int]] = []
    prepare, loss, book = trainer.make_batch, trainer.compute_loss, trainer.ledger.trained

    def generate(count: int) -> Any:
        policies.append({n: v.clone() for n, v in trainer.model.state_dict().items()})
        batch = prepare(count)
        trained.append(batch)
        return batch

    def listen(prompts: list[int], completions: list[int]) -> None:
        booked.append(completions)
        book(prompts, completions)

    seen: list[Any] = []

    def compute_loss(model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        seen.append(inputs["old_per_token_logps"])
        return loss(model, inputs, *given, **named)

    trainer.make_batch, trainer.ledger.trained = generate, listen
    trainer.compute_loss = compute_loss
    trainer.train()
    assert len(trained) == steps
    # What is trained on is booked, and not what waits.
    assert booked == [batch["completion_mask"].sum(1).tolist() for batch in trained]
    assert booked[0] == booked[LAG] != booked[LAG + 1]
    # Two micro-batches a step: what is shuffled and split are these very numbers.
    for step, batch in enumerate(trained):
        used = torch.cat([logs.flatten() for logs in seen[2 * step : 2 * step + 2]])
        assert torch.equal(used.sort()[0], batch["old_per_token_logps"].flatten().sort()[0])
    mask = [batch["completion_mask"].bool() for batch in trained]
    for step, batch in enumerate(trained):
        made_by = step if step < LAG else step - LAG
        for policy in {step, made_by}:
            trainer.model.load_state_dict(policies[policy])
            logs = trainer.log_probabilities(batch)
            gap = (logs - batch["old_per_token_logps"])[mask[step]].abs().max().item()
            assert (gap < 1e-5) == (policy == made_by), (step, policy, gap)
    # The first ones have no older ones to wait for, and come again in their turn.
    again = [trained[step] is trained[step + LAG] for step in range(steps - LAG)]
    assert again == [True, True, False]
