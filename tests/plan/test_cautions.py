"""What a plan warns of: cells read too soon after warm-up, repeats, and rates for old rollouts."""

import json
from dataclasses import asdict

import pytest

import isosweep
from isosweep.errors import SettingError
from isosweep.plan.cautions import repeated, short_of_warmup, stale
from isosweep.plan.cells import plan_from_document
from isosweep.plan.study import plan_document, resolve
from tests.conftest import make_config


def test_the_default_sweep_is_long_enough_for_its_warm_up() -> None:
    config = make_config()
    assert 3 * config.recipe.warmup_steps <= config.grid.min_steps
    assert not list(short_of_warmup(resolve(config).candidates))


def test_cells_shorter_than_three_warm_ups_are_counted_and_the_shortest_is_named() -> None:
    study = resolve(make_config("recipe.warmup_steps=10"))
    (short,) = short_of_warmup(study.candidates)
    below = [cell for cell in study.plan.cells if cell.num_steps < 30]
    least = min(below, key=lambda cell: cell.num_steps)
    assert (short.cells, short.of_cells) == (len(below), len(study.plan.cells)) == (9, 54)
    found = (short.num_steps, short.num_generations, short.problems_per_batch, short.budget)
    assert found == (10, 128, 4, 8.1e10)
    assert found == (
        *(least.num_steps, least.num_generations, least.problems_per_batch, least.budget),
    )
    document = json.loads(json.dumps(plan_document(study)))
    assert document["short_of_warmup"] == [asdict(short)]
    assert plan_from_document(document) == study.plan


@pytest.mark.parametrize("remedy", ["recipe.warmup_steps=3", "grid.min_steps=30"])
def test_what_the_warning_says_mends_it(remedy: str) -> None:
    said = isosweep.make_plan("recipe.warmup_steps=10").notes
    (line,) = [line for line in said if "warm-up updates" in line]
    assert "9 of 54 cells have fewer than 3 x 10 warm-up updates. " in line
    assert "The shortest has T = 10 (n = 128, B = 4, 8.1e10 FLOPs)." in line
    assert remedy in line
    assert not list(short_of_warmup(resolve(make_config(remedy)).candidates))


OFTEN = ("model=qwen-1.5b", "budget=1e20")


def test_a_budget_that_passes_over_few_problems_again_and_again_is_warned_of() -> None:
    study = resolve(make_config(*OFTEN))
    (found,) = repeated(study.candidates)
    passes = {
        cell.num_generations: cell.num_steps * cell.problems_per_batch / 4096
        for cell in study.plan.cells
    }
    often = [cell for cell in study.plan.cells if passes[cell.num_generations] > 16]
    assert (found.cells, found.of_cells) == (len(often), len(study.plan.cells))
    assert found.epochs == pytest.approx(max(passes.values()), rel=1e-2)
    assert found.num_generations == min(passes)
    assert (found.problems, found.part) == (4096, "")
    document = json.loads(json.dumps(plan_document(study)))
    assert document["repeated"] == [asdict(found)]


def test_repeats_are_told_once_with_the_budget_that_has_none() -> None:
    said = isosweep.make_plan([*OFTEN, "grid.axes={recipe.num_iterations:[1,2]}"]).notes
    (line,) = [line for line in said if "training problems up to" in line]
    assert line.startswith("at 1e20 FLOPs runs see the 4,096 training problems up to 97 times")
    assert "(so in 2 combinations of grid.axes)" in line
    assert "To repeat less: more problems" in line


def test_sampling_that_biases_a_correction_is_refused() -> None:
    vllm = ("generation=vllm", "task.max_completion_tokens=4")
    with pytest.raises(
        SettingError, match=r"recipe\.top_p=0\.9: biases the importance ratio"
    ) as no:
        resolve(make_config(*vllm, "recipe.top_p=0.9"))
    assert "generation.importance_sampling_correction=false" in str(no.value)
    with pytest.raises(SettingError, match=r"recipe\.top_p=0\.8: biases"):
        resolve(make_config(*vllm, "grid.axes={recipe.top_p:[1.0,0.8]}"))
    off = "generation.importance_sampling_correction=false"
    assert resolve(make_config(*vllm, "recipe.top_p=0.9", off)).plan.runs
    assert resolve(make_config("recipe.top_p=0.9")).plan.runs


REAL = "model=qwen-1.5b hardware=h100 budget=1e19 task=math recipe=grpo"
OLD = f"{REAL} grid.seeds=[0,1] recipe.rollout_lag="


def test_rates_beyond_what_is_published_for_old_rollouts_are_told() -> None:
    study = resolve(make_config(*f"{OLD}31 recipe.learning_rate=1e-6".split()))
    (found,) = stale(study.candidates)
    assert (found.staleness, found.rollout_lag) == (32, 31)
    assert found.largest == pytest.approx(16e-6 / 32)
    assert found.cells == found.of_cells == len(study.plan.cells)
    document = json.loads(json.dumps(plan_document(study)))
    assert document["stale"] == [asdict(found)]
    said = isosweep.make_plan(f"{OLD}31 recipe.learning_rate=1e-6").notes
    (line,) = [line for line in said if "1 / age" in line]
    assert "a learning rate above 5e-07, with rollouts up to 32 updates old" in line
    assert "recipe.learning_rate=5e-07 or less" in line
    mended = make_config(*f"{OLD}31 recipe.learning_rate={found.mended}".split())
    assert not list(stale(resolve(mended).candidates))


@pytest.mark.parametrize(
    "fine",
    [
        "model=tiny recipe.rollout_lag=31",
        f"{OLD}15 recipe.learning_rate=1e-6",
        f"{OLD}0 recipe.learning_rate=1e-3",
        f"{OLD}31 recipe.lora_rank=16",
        "model=qwen-1.5b hardware=h100 budget=1e20 task=math recipe=dapo",
        "model=qwen-1.5b hardware=h100 budget=1e20 task=math recipe=scalerl",
    ],
)
def test_published_recipes_and_models_of_another_kind_are_not_warned_of(fine: str) -> None:
    assert not list(stale(resolve(make_config(*fine.split())).candidates))
