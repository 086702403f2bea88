"""What a plan warns of: cells read too soon after warm-up, repeats, and rates for old rollouts."""

import pytest

import isosweep
from isosweep.errors import SettingError
from isosweep.plan.cautions import Caution, cautions
from isosweep.plan.study import Study, resolve
from tests.conftest import make_config

REAL = "model=qwen-1.5b hardware=h100 budget=1e19 task=math recipe=grpo"
OLD = f"{REAL} grid.seeds=[0,1] recipe.rollout_lag="


def warned(typed: str) -> tuple[Study, dict[str, Caution]]:
    study = resolve(make_config(*typed.split()))
    return study, {each.kind: each for each in cautions(study.candidates)}


def test_cells_shorter_than_three_warm_ups_are_counted_and_the_shortest_is_named() -> None:
    study, found = warned("recipe.warmup_steps=10")
    below = [cell for cell in study.plan.cells if cell.num_steps < 30]
    short = found["short_of_warmup"]
    assert (short.cells, short.of_cells) == (len(below), len(study.plan.cells)) == (9, 54)
    assert (short.value, short.limit, short.num_generations, short.problems_per_batch) == (
        *(10, 30, 128, 4),
    )
    (line,) = [n for n in isosweep.make_plan("recipe.warmup_steps=10").notes if "warm-up" in n]
    assert "9 of 54 cells have fewer than 30 updates" in line
    for remedy in ("", *short.mends.split(" or ")):
        assert "short_of_warmup" not in warned(remedy)[1]


def test_a_budget_that_passes_over_few_problems_again_and_again_is_warned_of() -> None:
    axes = "grid.axes={recipe.num_iterations:[1,2]}"
    study, found = warned(f"model=qwen-1.5b budget=1e20 {axes}")
    once = [cell for cell in study.plan.cells if cell.axes["recipe.num_iterations"] == 1]
    passes = [cell.num_steps * cell.problems_per_batch / 4096 for cell in once]
    often = found["repeated"]
    assert (often.cells, often.of_cells) == (sum(each > 16 for each in passes), len(once))
    assert often.value == pytest.approx(max(passes))
    assert (often.combinations, often.limit, often.mends) == (2, 16, "grid.max_epochs=16")


def test_rates_beyond_what_is_published_for_old_rollouts_are_told() -> None:
    study, found = warned(f"{OLD}31 recipe.learning_rate=1e-6")
    old = found["stale"]
    assert (old.value, old.limit) == (1e-6, 16e-6 / 32)
    assert old.cells == old.of_cells == len(study.plan.cells)
    assert "stale" not in warned(f"{OLD}31 {old.mends}")[1]


@pytest.mark.parametrize(
    "fine",
    [
        "model=tiny recipe.rollout_lag=31",
        f"{OLD}15 recipe.learning_rate=1e-6",
        f"{OLD}0 recipe.learning_rate=1e-3",
        f"{OLD}31 recipe.lora_rank=16",
        "model=qwen-1.5b hardware=h100 budget=1e20 task=math recipe=scalerl",
    ],
)
def test_published_recipes_and_models_of_another_kind_are_not_warned_of(fine: str) -> None:
    assert "stale" not in warned(fine)[1]


def test_sampling_that_biases_a_correction_is_refused() -> None:
    vllm = ("generation=vllm", "task.max_completion_tokens=4")
    with pytest.raises(SettingError, match=r"recipe\.top_p=0\.9: biases the importance") as no:
        resolve(make_config(*vllm, "recipe.top_p=0.9"))
    off = "generation.importance_sampling_correction=false"
    assert off in str(no.value)
    assert resolve(make_config(*vllm, "recipe.top_p=0.9", off)).plan.runs
