"""The gradient's noise: against exact values, in the trainer's units, and that nothing moves."""

import itertools
import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.gradient_noise import GradientNoise
from isosweep.plan.spec import RunSpec
from isosweep.store.records import read_records
from isosweep.training.ranks import Group, Ranks
from tests.training.builders import (
    broken_off,
    metrics,
    parameters,
    spec_of,
    train,
    trained,
    trainer_of,
)
from tests.training.noise_shared import UPDATES

pytestmark = pytest.mark.train

FAST = ("evaluation.noise_every=1", "recipe.learning_rate=1e-3")


def books_of(spec: RunSpec) -> Any:
    from isosweep.training.noise import NoiseBooks

    return NoiseBooks(spec)


class LinearPolicy:
    """A softmax over three answers to each of three problems, linear in four features of these."""

    answers, problems, n = 3, 3, 4

    def __init__(self) -> None:
        import torch

        draw = torch.Generator().manual_seed(3)
        self.features = 0.5 + torch.randn(self.problems, 4, generator=draw).double()
        self.weights = torch.randn(4, self.answers, generator=draw).double().requires_grad_()
        self.rewards = torch.tensor([[1.0, 0, 0], [1, 0, 1], [1, 0, 0]]).double()

    def log_probs(self) -> Any:
        return (self.features @ self.weights).log_softmax(-1)

    def advantages(self, problem: int, answers: Any) -> Any:
        """Of a group, by GRPO: (n,)."""
        rewards = self.rewards[problem, answers]
        return (rewards - rewards.mean()) / (rewards.std() + 1e-4)

    def exact(self) -> tuple[float, float, float]:
        """E|g|^2, E<g, g'> within a problem, and |G|^2, over all groups there can be."""
        import torch

        logs = self.log_probs().detach()
        square = inner = 0.0
        mean = torch.zeros_like(self.weights)
        for problem in range(self.problems):
            # Of log p(answer): feature x (one-hot - p); (answers, 4, answers).
            away = torch.eye(self.answers).double() - logs[problem].exp()
            scores = self.features[problem][None, :, None] * away[:, None, :]
            for group in itertools.product(range(self.answers), repeat=self.n):
                at = torch.tensor(group)
                chance = logs[problem, at].sum().exp().item() / self.problems
                terms = -self.advantages(problem, at)[:, None, None] * scores[at]
                own, whole = terms.square().sum().item(), terms.sum(0).square().sum().item()
                square += chance * own / self.n
                inner += chance * (whole - own) / (self.n * (self.n - 1))
                mean += chance * terms.mean(0)
        return square, inner, mean.square().sum().item()

    def measured(self, problems: int, draw: Any) -> list[float]:
        """An update of so many problems, measured."""
        import torch

        from isosweep.training.noise import norms_of_parts, squared_norm

        rollouts = problems * self.n
        asked = torch.randint(self.problems, (problems,), generator=draw)
        probs = self.log_probs().detach().exp()[asked]
        answers = torch.multinomial(probs, self.n, replacement=True, generator=draw)
        advantages = torch.stack(
            [self.advantages(p, own) for p, own in zip(asked.tolist(), answers, strict=True)]
        ).flatten()
        of, answers = asked.repeat_interleave(self.n), answers.flatten()

        def backward(places: list[int]) -> None:
            at = torch.tensor(places)
            chosen = self.log_probs()[of[at], answers[at]]
            (-(advantages[at] * chosen).sum() / rollouts).backward()

        weights = [self.weights]
        groups = [list(range(k, k + self.n)) for k in range(0, rollouts, self.n)]
        sums = norms_of_parts(weights, groups, 64, draw, backward)
        assert self.weights.grad is None
        backward(list(range(rollouts)))
        update, self.weights.grad = squared_norm(weights), None
        same = problems * self.n * (self.n - 1)
        sums[0], sums[3] = sums[0] * rollouts**2, sums[3] * rollouts**2
        return [*sums, update * rollouts**2, rollouts, same, rollouts * (rollouts - 1) - same]


def test_estimates_are_those_of_a_policy_whose_gradient_is_enumerated() -> None:
    import torch

    policy, draw = LinearPolicy(), torch.Generator().manual_seed(0)
    square, inner, gradient = policy.exact()
    exact = {
        "gradient": gradient,
        "between_problems": inner - gradient,
        "within_problems": square - inner,
    }
    assert min(exact.values()) > 0
    whole, blocks = books_of(spec_of()), []
    for _ in range(40):
        block = books_of(spec_of())
        for _ in range(20):
            sums = policy.measured(16, draw)
            whole.add(sums)
            block.add(sums)
        blocks.append(vars(block.taken()))
    found = whole.taken()
    for name, value in exact.items():
        own = torch.tensor([block[name] for block in blocks])
        error = own.std().item() / math.sqrt(len(blocks))
        assert abs(getattr(found, name) - value) < 4 * error, (name, value, error)
        # Of what was measured no more is left to chance than lets 5% be seen.
        assert error < 0.03 * value, (name, value, error)
        assert abs(getattr(found, name) / value - 1) < 0.05, name
    trace = exact["within_problems"] + policy.n * exact["between_problems"]
    assert found.rollouts == pytest.approx(trace / gradient, rel=0.05)
    assert found.problems == found.rollouts / policy.n
    # All is forgotten once it is taken.
    assert whole.taken() is None


RECIPES = (
    ("recipe=tiny",),
    ("recipe=tiny", "recipe.entropy_coef=0.01", "recipe.beta=0.1"),
    ("recipe=tiny", "recipe.loss_type=grpo"),
    ("recipe=tiny", "recipe.loss_type=grpo", "recipe.entropy_coef=0.01"),
    ("recipe=tiny", "recipe.loss_type=dr_grpo", "recipe.mini_batches=2"),
    ("recipe=tiny", "recipe.loss_type=cispo", "recipe.mini_batches=2"),
    ("recipe=tiny", "recipe.mini_batches=2", "recipe.num_iterations=2"),
)


@pytest.mark.parametrize("micro", [4, 8])
@pytest.mark.parametrize("recipe", RECIPES, ids=" ".join)
def test_a_problem_adds_to_an_update_what_the_trainer_adds(
    recipe: tuple[str, ...], micro: int, tmp_path: Path
) -> None:
    # Halves of an update are as large as a micro-batch, and smaller.
    spec = spec_of(*FAST, *recipe, n=8, B=1, micro=micro // (2 if "mini" in str(recipe) else 1))
    trainer = trainer_of(spec, tmp_path, noise=books_of(spec))
    seen: list[list[float]] = []
    trainer.noise_measured = seen.append
    train(trainer, 6)
    assert len(seen) == 6
    for half, _, _, problem, *counts, update, rollouts, same, apart in seen:
        # One problem is the whole update.
        assert problem == pytest.approx(update, rel=1e-4)
        assert (counts, apart) == ([rollouts, same], 0)
        assert half > 0 or problem == 0
    assert max(problem for _, _, _, problem, *_ in seen) > 0


def test_numbers_of_a_run_do_not_depend_on_whether_noise_is_measured(tmp_path: Path) -> None:
    import torch

    ended = []
    for every in (1, None):
        own = f"evaluation.noise_every={'null' if every is None else every}"
        spec = spec_of(own, "recipe.learning_rate=1e-3", micro=8)
        trainer = trainer_of(spec, tmp_path / str(every), noise=books_of(spec))
        ended.append((train(trainer, 5), parameters(trainer), torch.get_rng_state()))
        measured = trainer._noise.taken()
        assert (measured is not None) == (every is not None)
    (told, weights, state), (told_without, weights_without, state_without) = ended
    assert all(torch.equal(a, b) for a, b in zip(weights, weights_without, strict=True))
    assert told == told_without
    assert torch.equal(state, state_without)
    assert spec.run_id == spec_of("recipe.learning_rate=1e-3", micro=8).run_id


def test_records_have_the_noise_and_a_killed_run_the_same(tmp_path: Path) -> None:
    spec = spec_of("evaluation.noise_every=2")
    straight = trained(spec, tmp_path / "straight", (2e9,))
    killed = broken_off(spec, tmp_path / "killed", (2e9,), signal.SIGKILL)
    records = read_records(straight.records).records
    assert [x.reproducible() for x in read_records(killed.records).records] == [
        x.reproducible() for x in records
    ]
    assert metrics(killed) == metrics(straight)
    noises = [record.noise for record in records]
    assert noises[0] is None
    assert sum(noise.updates for noise in noises if noise) == records[-1].step // 2
    assert all(noise.gradient is not None for noise in noises if noise)


@pytest.mark.slow
def test_devices_add_to_one_estimate(tmp_path: Path) -> None:
    """Two processes that share the rollouts of one measure what that one does."""
    found = []
    for processes in (1, 2):
        file = tmp_path / f"{processes}.json"
        arguments = ["-m", "tests.training.noise_shared", str(processes), str(file)]
        assert set(Ranks(Group.alone(processes), arguments).run(lambda: None)) == {0}
        found.append(json.loads(file.read_text()))
    alone, shared = found
    assert len(alone) == UPDATES
    for one, two in zip(alone, shared, strict=True):
        assert one[0] > 0
        assert two == pytest.approx(one, rel=1e-3)


def test_one_problem_a_step_tells_the_variance_within_it_alone() -> None:
    books = books_of(spec_of())
    # Two halves of two, a problem of four: c = 10 and b = 2.
    books.add([2 * (2 * 10 + 2 * 2), 4, 4, 4 * 10 + 12 * 2, 4, 12, 64.0, 4, 12, 0])
    assert books.taken() == GradientNoise(updates=1, num_generations=4, within_problems=8.0)


def test_a_noise_has_a_scale_and_a_negative_one_has_none() -> None:
    noise = GradientNoise(
        updates=3, num_generations=4, gradient=0.5, between_problems=1.0, within_problems=2.0
    )
    assert (noise.rollouts, noise.problems) == (12.0, 3.0)
    negative = GradientNoise(
        updates=3, num_generations=4, gradient=-0.5, between_problems=1.0, within_problems=2.0
    )
    assert "rollouts" not in negative.to_json()
    # What is left of two squares that are equal but for their last digits is no gradient.
    assert replace(noise, gradient=1e-8).rollouts is None
