"""`mode=difficulty` samples as training does: what a model is asked, and what is drawn from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.models.weights import weights
from isosweep.modes.difficulty import measure, measured_configs
from isosweep.plan.spec import run_spec
from tests.conftest import make_config
from tests.models.checkpoints import save_family
from tests.models.test_prompts import THINKING
from tests.modes.looked_after import terminal
from tests.training.builders import train, trainer_of

pytestmark = pytest.mark.train
# Of `sort` there are so few problems of two digits that both see all of them.
TASK = (
    "task=sort",
    "task.sort.levels=[2]",
    "task.num_train_problems=6",
    "task.num_eval_problems=4",
)
ASKED = (
    *("recipe.temperature=0.7", "recipe.top_p=0.9", "task.max_completion_tokens=5"),
    *("model.system_prompt=Sort.", "model.chat_template_kwargs={enable_thinking: false}"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = save_family(tmp_path_factory.mktemp("qwen2"), "Qwen2")
    (directory / "chat_template.jinja").write_text(THINKING)
    return directory


def config_of(model: Path, root: Path, *more: str) -> SweepConfig:
    local = ("model=local", f"model.path={model}", "generation=transformers", "hardware=cpu")
    settings = (*local, "recipe=tiny", "grid=tiny", *TASK, f"sweeps_dir={root / 'sweeps'}")
    small = ("difficulty.samples_per_problem=2", "budget=1e10")
    return make_config(*settings, *small, *ASKED, *more)


def sampled(does: Callable[[], object]) -> tuple[set[str], set[tuple[int, ...]]]:
    """What is sampled while `does` runs: by which settings, and after which prompts."""
    from isosweep.training.sampling import Sampler

    settings: set[str] = set()
    prompts: set[tuple[int, ...]] = set()
    plain = Sampler.sample

    def heard(self: Any, model: Any, asked: Any, streams: Any = None) -> Any:
        settings.add(repr({**vars(self), "ends": sorted(self.ends)}))
        prompts.update(map(tuple, asked))
        return plain(self, model, asked, streams)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "sample", heard)
        does()
    return settings, prompts


@pytest.fixture(scope="module")
def training(
    model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[set[str], set[tuple[int, ...]]]:
    root = tmp_path_factory.mktemp("training")
    config = config_of(model, root)
    sizes = {"num_generations": 2, "problems_per_batch": 6, "seed": 0, "micro_batch": 12}
    return sampled(lambda: train(trainer_of(run_spec(config, **sizes), root), 1))


def test_problems_are_measured_as_training_samples_them(
    model: Path, training: tuple[set[str], set[tuple[int, ...]]], tmp_path: Path
) -> None:
    (single,) = measured_configs(config_of(model, tmp_path))
    settings, prompts = sampled(lambda: measure(single, terminal()))
    assert settings == training[0]
    assert len(settings) == 1
    assert training[1] <= prompts
    assert len(training[1]) == 6


def test_a_measurement_is_what_an_evaluation_before_training_would_find(tmp_path: Path) -> None:
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.policy import load_policy

    sizes = ("difficulty.max_problems=24", "difficulty.samples_per_problem=4")
    same = ("evaluation.samples_per_problem=4", "evaluation.temperature=0.7")
    folder = f"sweeps_dir={tmp_path / 'sweeps'}"
    config = make_config("recipe.temperature=0.7", *sizes, *same, folder)
    (single,) = measured_configs(config)
    measured = measure(single, terminal())
    spec = run_spec(config, num_generations=2, problems_per_batch=1, seed=0, micro_batch=1)
    policy, tokenizer = load_policy(spec, weights(spec.model))
    found = Evaluator(spec, tokenizer, problems=measured.problems)(policy)
    assert found.successes == measured.successes
    assert 0 < sum(found.successes) < 4 * 24
