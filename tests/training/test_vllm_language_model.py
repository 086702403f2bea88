"""vLLM on a CPU with a language model of 135M parameters: a run from end to end, and its engine.

In float32 its 30 layers and 49,152 tokens round ten times as coarsely as the built-in model.
"""

import shutil
from pathlib import Path

import pytest

from isosweep.plan.study import resolve
from isosweep.store.records import read_records
from tests import language_model
from tests.conftest import isosweep, make_config
from tests.training.builders import metrics
from tests.training.engines import VLLM, only_run, require_vllm

pytestmark = VLLM
# Sums of one digit, of which the base model is right in one of five: with this seed some rollouts
# of both problems of the first step are. Prompts as short as its chat template allows.
RUN = (
    *("model=smollm2-135m", "model.system_prompt='You add.'", "hardware=cpu", "generation=vllm"),
    *("task=arithmetic", 'task.custom.parameters={levels:["2..9 + 2..9"]}'),
    *("task.num_train_problems=32", "task.num_eval_problems=6"),
    *("task.prompt_tokens=25", "task.completion_tokens=12"),
    *("evaluation.samples_per_problem=2", "evaluation.records_per_decade=1"),
    *("grid.num_generations=[4]", "grid.problems_per_batch=[2]", "grid.seeds=[2]"),
    *("budget_unit=rollouts", "budget=16", "grid.min_steps=2"),
    *("recipe.learning_rate=2e-5", "recipe.learning_rate_rule=constant", "recipe.warmup_steps=0"),
    "tracking=none",
)
STEPS, ROLLOUTS = 2, 16
# Measured: means of at most 4.2e-6 a step, and 3.3e-5 for the token furthest off.
SAME, SAME_TOKEN = 2e-5, 2e-4


@pytest.fixture(autouse=True, scope="module")
def _needs() -> None:
    require_vllm()
    language_model.weights()


def test_a_run_is_recorded_and_counted_as_planned_and_its_learner_agrees_with_its_sampler(
    tmp_path: Path,
) -> None:
    isosweep(*RUN, cwd=tmp_path)
    run = only_run(tmp_path)
    first, *_, last = read_records(run.records).records
    assert (first.step, last.step) == (0, STEPS)
    spent = last.compute
    assert (spent.rollouts, spent.generations) == (ROLLOUTS, STEPS)
    # The chat template and the problem; answers end by its end token, or at 12.
    assert 15 * ROLLOUTS < spent.prompt_tokens < 30 * ROLLOUTS
    assert 6 * ROLLOUTS < spent.completion_tokens <= 12 * ROLLOUTS
    assert 6 < (first.completion_tokens or 0) < 12
    planned = resolve(make_config(*RUN)).plan.runs[0].planned_flops
    assert spent.flops == pytest.approx(planned, rel=0.1)
    assert 0 < sum(first.successes or ()) < 12
    steps = metrics(run)
    assert len(steps) == STEPS
    assert steps[0]["grad_norm"] > 0
    assert 0 < max(line["logp_difference"] for line in steps) < SAME
    assert max(line["logp_difference_max"] for line in steps) < SAME_TOKEN
    # pytest would keep its checkpoint of 1.6 GB.
    shutil.rmtree(run.checkpoints)
