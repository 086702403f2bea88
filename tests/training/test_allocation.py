"""Groups of many sizes: which, and that what is made of them is right."""

import itertools
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.costs.flops import rollout_flops
from isosweep.errors import SettingError
from isosweep.store.checkpoints import states_of
from isosweep.store.records import read_records
from isosweep.training.allocation import LEAST, MOST_OF_N, Knapsack, allocate, needed, value
from tests.conftest import make_config
from tests.training.builders import (
    broken_off,
    listen,
    metrics,
    spec_of,
    train,
    trained,
    trainer_of,
)

KNAPSACK = "recipe.allocation=knapsack"
# Of the built-in model five digits are easy and nine are hard.
HALF_HARD = "task.sort.levels=[5,9]"


def test_no_other_sizes_are_worth_more() -> None:
    n, rates = 6, (0.05, 0.3, 0.9, 0.5)
    sizes = allocate(rates, n)
    assert sum(sizes) == n * len(rates)
    assert min(sizes) >= LEAST

    def worth(sizes: Any) -> float:
        return sum(value(rate, size) for rate, size in zip(rates, sizes, strict=True))

    everything = itertools.product(range(LEAST, n * len(rates)), repeat=len(rates))
    best = max(worth(other) for other in everything if sum(other) == n * len(rates))
    assert worth(sizes) == pytest.approx(best, rel=1e-12)
    assert worth(sizes) > worth([n] * 4)


@pytest.mark.parametrize(
    ("rates", "sizes"),
    [
        # Nothing is known; all are always solved; none ever is.
        ((None, None, None), [8, 8, 8]),
        ((1.0, 1.0, None), [8, 8, 8]),
        ((0.0, 0.0, None), [8, 8, 8]),
        # One that is always solved gives to those that never are, evenly.
        ((1.0, 0.0, 0.0), [2, 11, 11]),
        # What one that is sometimes solved needs is its own, and the rest goes to the unsolved.
        ((0.5, 0.0, 1.0), [5, 17, 2]),
        ((0.5, 0.5, 1.0), [11, 11, 2]),
    ],
)
def test_what_is_spared_goes_where_it_may_teach(rates: Any, sizes: list[int]) -> None:
    assert allocate(rates, 8) == sizes


def test_every_size_is_within_bounds_and_they_make_the_whole() -> None:
    kinds = (None, 0.0, 1.0, 0.01, 0.5, 0.99)
    for n, rates in itertools.product((2, 3, 16), itertools.product(kinds, repeat=4)):
        sizes = allocate(rates, n)
        assert sum(sizes) == 4 * n, (n, rates)
        assert min(LEAST, n) <= min(sizes) <= max(sizes) <= MOST_OF_N * n, (n, rates)
    # One of a hundred that can use them all may not have them all.
    assert max(allocate((0.01, *[1.0] * 99), 8)) == MOST_OF_N * 8
    assert needed(0.5) == pytest.approx(3.32, abs=0.01)


def test_a_rate_is_of_the_newest_rollouts() -> None:
    known = Knapsack(8)
    known.scored([(0, [True] * 4)])
    assert known._rate(0) is None  # 4 are too few
    known.scored([(0, [False] * 4)])
    assert known._rate(0) == 0.5
    known.scored([(0, [False] * 10)])
    assert known._rate(0) == 2 / 16  # the newest 16
    known.scored([(0, [True] * 15 + [False] * 5)])
    assert known._rate(0) == 0.75  # a group of more is a rate of its own
    again = Knapsack(8)
    again.restore(known.to_json())
    assert again.to_json() == known.to_json()
    assert again._rate(0) == 0.75
    assert again._rate(1) is None


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("recipe.zero_variance=resample", "recipe.zero_variance=drop"),
        ("hardware.shared_prompts=true", "hardware.shared_prompts=false"),
        ("trainer=verl", "recipe.allocation=uniform"),
    ],
)
def test_what_needs_groups_of_one_size_refuses_others(override: str, nearest: str) -> None:
    with pytest.raises(SettingError, match=r"^recipe\.allocation=knapsack: ") as refused:
        make_config(KNAPSACK, override)
    assert nearest in refused.value.nearest
    make_config(override)


def test_the_default_is_no_part_of_what_a_run_is() -> None:
    plain = spec_of()
    assert spec_of("recipe.allocation=uniform").run_id == plain.run_id
    assert spec_of(KNAPSACK).run_id != plain.run_id


@pytest.mark.train
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_groups_of_one_size_have_the_advantages_of_trl(scale: str, tmp_path: Path) -> None:
    import torch

    from isosweep.training.weights import group_advantages

    trainer = trainer_of(
        spec_of(f"recipe.scale_rewards={scale}", "recipe.overlong_share=0.5"), tmp_path
    )
    batch = trainer.make_batch(16)
    total = trainer.total_rewards(trainer._rewards)
    assert total.unique().numel() > 2  # two rewards, one of them a penalty
    ours = group_advantages(total, trainer._groups, scale)
    assert torch.allclose(ours, batch["advantages"], atol=1e-5)


# What a step does with its rollouts beside learning from them once.
STEPS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "drop": ("recipe.zero_variance=drop", "recipe.scale_rewards=batch"),
    "problem": ("recipe.aggregation=problem", "recipe.zero_variance=drop"),
    "later": ("recipe.rollout_lag=1", "recipe.mini_batches=2", "recipe.retire_at=0.9"),
    "grpo": ("recipe.loss_type=grpo", "recipe.beta=0.01", "generation.prefix_sharing=true"),
}


@pytest.mark.train
@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_as_many_rollouts_of_the_same_problems(step: str, tmp_path: Path) -> None:
    import torch

    n, B, steps = 8, 8, 7
    more = (HALF_HARD, "task.num_train_problems=8", *STEPS[step])
    spec = spec_of(KNAPSACK, *more, n=n, B=B, micro=16)
    trainer = trainer_of(spec, tmp_path / "knapsack")
    seen: list[tuple[list[int], Any, Any]] = []
    made = trainer.trl_batch

    def trl_batch(rows: Any) -> Any:
        return {**made(rows), "advantages": torch.full((n * B,), torch.nan)}

    weighed = trainer._weigh_groups

    def weigh_groups(batch: Any) -> None:
        centred = batch["advantages"].clone()
        seen.append((list(trainer._groups.sizes), trainer._scores.clone(), centred))
        weighed(batch)
        seen[-1] = (*seen[-1][:2], batch["advantages"].clone())

    trainer.trl_batch, trainer._weigh_groups = trl_batch, weigh_groups
    heard = listen(trainer)
    logged = train(trainer, steps * spec.recipe.updates_per_generation)
    logged = logged[:: spec.recipe.updates_per_generation]
    plain = trainer_of(spec_of(*more, n=n, B=B, micro=16), tmp_path / "uniform")
    met = listen(plain)
    train(plain, steps * spec.recipe.updates_per_generation)

    sizes = [own for own, *_ in seen]
    assert sizes[0] == [n] * B
    assert len({tuple(own) for own in sizes}) > 2
    for place, (own, scores, advantages) in enumerate(seen):
        asked = heard[place]["problem"]
        assert len(asked) == n * B == sum(own)
        starts = [sum(own[:at]) for at in range(B)]
        order = [asked[start] for start in starts]
        assert asked == [p for p, size in zip(order, own, strict=True) for _ in range(size)]
        if step != "later":
            assert order == met[place]["problem"][::n]
        groups = scores.split(own)
        shares = [(g != g[0]).any().item() for g in groups]
        # What teaches nothing has no advantage, and of others they add up to none.
        for group, teaches, A in zip(groups, shares, advantages.split(own), strict=True):
            assert A.sum().item() == pytest.approx(0, abs=1e-4)
            assert (A.abs().sum() > 0).item() == teaches
            assert len(A) == len(group)
        values = logged[place]
        mean = sum(g.mean().item() for g in groups) / B
        assert values["reward"] == pytest.approx(mean, abs=1e-6)
        assert values["zero_variance_share"] == pytest.approx(1 - sum(shares) / B)
        wasted = sum(size for size, teaches in zip(own, shares, strict=True) if not teaches)
        assert values["zero_variance_rollout_share"] == pytest.approx(wasted / (n * B))
        assert (values["group_size_min"], values["group_size_max"]) == (min(own), max(own))
    spent = trainer._ledger.spent
    assert spent.rollouts == steps * n * B
    prompts = [len(trainer._questions[i].tokens) for heard in heard for i in heard["problem"]]
    assert spent.prompt_tokens == sum(prompts)


@pytest.mark.train
def test_a_prompt_is_booked_as_shared_by_its_own_rollouts(tmp_path: Path) -> None:
    more = (KNAPSACK, HALF_HARD, "task.num_train_problems=8", "generation.prefix_sharing=true")
    spec = spec_of(*more, n=8, B=8, micro=16)
    trainer = trainer_of(spec, tmp_path)
    heard = listen(trainer)
    train(trainer, 3)
    expected, sizes = 0.0, set()
    for problem, own in (pair for step in heard for pair in itertools.groupby(step["problem"])):
        size, prompt = len(list(own)), len(trainer._questions[problem].tokens)
        passes = replace(spec.passes, prompt_sharing=float(size))
        each = rollout_flops(spec.model.architecture, float(prompt), 1.0, passes).prefill
        expected += size * float(each)
        sizes.add(size)
    assert trainer._ledger.spent.prefill_flops == pytest.approx(expected, rel=1e-12)
    assert len(sizes) > 2


@pytest.mark.train
def test_a_server_is_sent_every_prompt_as_often_as_it_has_rollouts(tmp_path: Path) -> None:
    asked = []
    for name in ("uniform", "knapsack"):
        trainer = trainer_of(spec_of(f"recipe.allocation={name}"), tmp_path / name)
        own = trainer.trl_sample

        def trl_sample(prompts: Any, count: int, own: Any = own) -> Any:
            asked.append(count)
            return own(prompts, count)

        trainer.trl_sample = trl_sample
        trainer.make_batch(16)
    assert asked == [4, 1]


@pytest.mark.train
def test_a_run_that_is_killed_goes_on_with_the_same_sizes(tmp_path: Path) -> None:
    more = (KNAPSACK, HALF_HARD, "task.num_train_problems=4", "recipe.rollout_lag=1")
    spec = spec_of(*more, n=8, B=4, micro=16)
    straight = trained(spec, tmp_path / "straight", [4e9])
    killed = broken_off(spec, tmp_path / "killed", [4e9], signal.SIGKILL)
    found, expected = metrics(killed), metrics(straight)
    assert found == expected
    assert len(found) > 4
    assert {values["group_size_max"] for values in found} > {8.0}
    results = [
        [(record.step, record.successes) for record in read_records(run.records).records]
        for run in (straight, killed)
    ]
    assert results[0] == results[1]
    # Where weights alone are kept, what only a resumed run reads goes.
    (kept,) = straight.attempt_checkpoints(1).glob("checkpoint-*")
    assert {"waiting-0.safetensors", "isosweep-allocation.json"} <= {
        state.name for state in states_of(kept)
    }
