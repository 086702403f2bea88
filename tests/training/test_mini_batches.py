"""A generation cut into mini-batches: every rollout is trained on once, one update a part."""

from pathlib import Path
from typing import Any

import pytest

from isosweep.plan.spec import resolve_learning_rate
from tests.conftest import make_config
from tests.training.builders import listen, spec_of, train, trainer_of

pytestmark = pytest.mark.train
PARTS = 4


def test_each_update_uses_a_part_of_its_own(tmp_path: Path) -> None:
    parts_of = (f"recipe.mini_batches={PARTS}", "recipe.learning_rate=1e-2")
    trainer = trainer_of(spec_of(*parts_of, micro=2), tmp_path)
    heard, used, ratios = listen(trainer), [], []
    compute = trainer.compute_loss

    def watched(model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
        used.append((trainer.steps_done, inputs["completion_ids"].tolist()))
        new = trainer.log_probabilities(inputs)
        ratios.append((new - inputs["old_per_token_logps"]).abs().max().item())
        return compute(model, inputs, *rest, **more)

    trainer.compute_loss = watched
    train(trainer, 2 * PARTS)
    assert len(heard) == trainer._ledger.spent.generations == 2
    for generation, given in enumerate(heard):
        steps = range(generation * PARTS, (generation + 1) * PARTS)
        parts = [[row for at, rows in used if at == step for row in rows] for step in steps]
        assert [len(part) for part in parts] == [4] * PARTS
        # Rows are padded: each begins with a completion of its own, the longest looked for first.
        left = sorted(given["ids"], key=len, reverse=True)
        for row in (row for part in parts for row in part):
            left.remove(next(ids for ids in left if row[: len(ids)] == ids))
        assert not left
    # The first update's rollouts are the policy's own; the last one's an older one's.
    assert ratios[0] < 1e-5 < ratios[2 * PARTS - 1]


def test_training_costs_no_more_and_old_log_probabilities_are_counted(tmp_path: Path) -> None:
    parts = trainer_of(spec_of("recipe.mini_batches=2", micro=8), tmp_path)
    train(parts, 2)
    spent = parts._ledger.spent
    assert (spent.generations, spent.rollouts) == (1, 16)
    # A forward and a backward pass of every rollout, and one forward pass before.
    assert spent.training_flops == 3 * spent.old_policy_flops


def test_the_rate_is_that_of_an_update() -> None:
    whole = make_config("recipe.learning_rate_rule=sqrt").recipe
    parts = make_config("recipe.learning_rate_rule=sqrt", "recipe.mini_batches=4").recipe
    assert resolve_learning_rate(parts, 64) == resolve_learning_rate(whole, 16)
