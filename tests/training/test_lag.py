"""Rollouts that wait: whose log-probabilities they bring, and that a resumed run is the same."""

from pathlib import Path
from typing import Any

import pytest

from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec, passes_of, run_spec
from tests.conftest import make_config

pytestmark = pytest.mark.train
LAG = 2


def spec(lag: int, *more: str) -> RunSpec:
    config = make_config(
        f"recipe.rollout_lag={lag}",
        "recipe.learning_rate=1e-3",
        "task.num_train_problems=1024",
        *more,
    )
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=8)


def trainer_of(run: RunSpec, directory: Path, steps: int) -> Any:
    import torch

    from isosweep.training.grpo import load_policy, make_stream, make_trainer
    from isosweep.training.ledger import Ledger

    torch.manual_seed(run.seed)
    trainer = make_trainer(
        run, *load_policy(run, weights(run.model)), Ledger(run), make_stream(run), directory
    )
    trainer.args.max_steps = steps
    trainer.args.save_strategy = "no"
    return trainer


def parameters(trainer: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def test_rollouts_are_trained_on_with_the_log_probabilities_of_the_policy_that_made_them(
    tmp_path: Path,
) -> None:
    import torch

    steps = LAG + 3
    trainer = trainer_of(spec(LAG), tmp_path, steps)
    policies: list[dict[str, Any]] = []
    trained: list[dict[str, Any]] = []
    prepare, loss = trainer.make_batch, trainer.compute_loss

    def generate(count: int) -> Any:
        policies.append(parameters(trainer))
        batch = prepare(count)
        trained.append(batch)
        return batch

    seen: list[Any] = []

    def compute_loss(model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        seen.append(inputs["old_per_token_logps"])
        return loss(model, inputs, *given, **named)

    trainer.make_batch = generate
    trainer.compute_loss = compute_loss
    trainer.train()
    assert len(trained) == steps
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
    assert [trained[step] is trained[step + LAG] for step in range(steps - LAG)] == [
        True,
        True,
        False,
    ]


def test_what_is_trained_on_is_booked_and_not_what_waits(tmp_path: Path) -> None:
    trainer = trainer_of(spec(LAG), tmp_path, LAG + 3)
    booked: list[list[int]] = []
    trained: list[list[int]] = []
    book, generate = trainer._ledger.trained, trainer.make_batch

    def listen(prompts: list[int], completions: list[int]) -> None:
        booked.append(sorted(completions))
        book(prompts, completions)

    def prepare(count: int) -> Any:
        batch = generate(count)
        trained.append(sorted(batch["completion_mask"].sum(1).tolist()))
        return batch

    trainer._ledger.trained, trainer.make_batch = listen, prepare
    trainer.train()
    assert booked == trained
    assert booked[0] == booked[LAG]
    assert booked[LAG] != booked[LAG + 1]


def test_a_resumed_run_trains_on_what_was_waiting(tmp_path: Path) -> None:
    import torch

    straight = trainer_of(spec(LAG), tmp_path / "straight", 7)
    straight.train()
    first = trainer_of(spec(LAG), tmp_path / "resumed", 4)
    first.args.save_strategy = "steps"
    first.args.save_steps = 4
    first.train()
    again = trainer_of(spec(LAG), tmp_path / "resumed", 7)
    # Four steps' problems have been met; a worker restores that from the checkpoint.
    again._stream.draw(4 * 4)
    again.train(resume_from_checkpoint=str(tmp_path / "resumed" / "checkpoint-4"))
    after, expected = parameters(again), parameters(straight)
    assert all(torch.equal(after[name], value) for name, value in expected.items())
    # The lag matters: on-policy training ends elsewhere.
    plain = trainer_of(spec(0), tmp_path / "plain", 7)
    plain.train()
    assert any(not torch.equal(value, expected[name]) for name, value in parameters(plain).items())


def test_a_lag_costs_one_more_pass_and_is_part_of_what_a_run_is() -> None:
    on_policy, off_policy = spec(0), spec(LAG)
    passes = [
        passes_of(run.model.architecture, run.recipe, run.generation, run.device, 4.0).old_policy
        for run in (on_policy, off_policy)
    ]
    assert passes == [False, True]
    assert on_policy.run_id != off_policy.run_id
