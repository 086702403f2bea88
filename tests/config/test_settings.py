"""Bad input: one message that names the setting, the rule and the nearest choice."""

from dataclasses import MISSING, fields

import pytest
from hydra import compose, initialize_config_dir

from isosweep.config.axes import combinations
from isosweep.config.hydra import config_directory
from isosweep.config.recipe import RecipeConfig
from isosweep.config.sweep import sweep_config
from isosweep.errors import SettingError
from tests.conftest import make_config


@pytest.mark.parametrize(
    ("override", "setting", "nearest"),
    [
        ("budget=0", "budget", "budget=1e11"),
        ("budget=-1", "budget", "budget=1"),
        ("budget=nan", "budget", "budget=1e11"),
        ("budget=inf", "budget", "budget=1e11"),
        ("budget=plenty", "budget", "budget=1e11"),
        ("budget=true", "budget", "budget=1e11"),
        ("budget=[]", "budget", "budget=1e11"),
        ("budget=[1e10,1e10]", "budget", "budget=[1e+10]"),
        ("budget_unit=flop", "budget_unit", "budget_unit=flops"),
        ("mode=pln", "mode", "mode=plan"),
        ("grid.num_generations=[1,2]", "grid.num_generations", "grid.num_generations=[2]"),
        ("grid.problems_per_batch=[0]", "grid.problems_per_batch", "=[1]"),
        ("grid.seeds=[1.5]", "grid.seeds", "grid.seeds=[0,1,2]"),
        ("grid.tolerance=1", "grid.tolerance", "grid.tolerance=0.01"),
        ("+grid.tolerence=1", "grid.tolerence", "grid.tolerance"),
        ("recipe.loss_type=bnpo", "recipe.loss_type", "recipe.loss_type=grpo"),
        (
            "recipe.loss_type=my_lab.losses.mine",
            "recipe.loss_type",
            "recipe.loss_type=my_lab.losses:mine",
        ),
        ("recipe.loss_type=my_lab/losses.py:mine", "recipe.loss_type", "=my_lab.losses:mine"),
        ("task.sort.levels=[2]", "task.num_train_problems", "task.sort.levels=[4]"),
        ("task.sort.levels=[2,8]", "task.num_train_problems", "task.sort.levels=[4,8]"),
        ("task.template=sort", "task.template", "{digits}"),
        ("task=math task.prompt_tokens=null", "task.prompt_tokens", "task.prompt_tokens=200"),
        ("task=math task.max_completion_tokens=null", "task.max_completion_tokens", "=1024"),
        ("task=math task.template=Solve", "task.template", "{problem}"),
        ("task=math task.math.path=a.csv", "task.math.path", "task.math.path="),
        ("task=math task.math.dataset=null", "task.math.path", "task.math.path=FILE.jsonl"),
        ("task=custom", "task.custom.function", "task.custom.function=VALUE"),
        ("task=custom task.custom.function=f", "task.custom.function", "my_tasks:my_function"),
        ("task.kind=math", "task.sort", "task=math"),
        ("task.kind=chess", "task.kind", "task.kind="),
        ("task.success_at=0", "task.success_at", "task.success_at=1"),
        (
            "task=reasoning_gym task.reasoning_gym.parameters={seed:1}",
            "task.reasoning_gym.parameters.seed",
            "task.data_seed",
        ),
        ("launcher.max_parallel=0", "launcher.max_parallel", "launcher.max_parallel=1"),
        ("hardware.training_utilization=2", "hardware.training_utilization", "utilization=0.3"),
        ("recipe=scalerl", "recipe.interruption_tokens", "recipe.interruption=null"),
        ("recipe.loss_type=grpo recipe.aggregation=problem", "recipe.aggregation", "=loss"),
        ("recipe.zero_variance=filter", "recipe.zero_variance", "recipe.zero_variance="),
        ("recipe.planned_draws=3", "recipe.planned_draws", "recipe.planned_draws=1"),
        ("recipe.retire_at=90", "recipe.retire_at", "recipe.retire_at=0.9"),
        ("recipe.overlong_share=0", "recipe.overlong_share", "recipe.overlong_share=0.2"),
        ("recipe.importance_sampling_mode=token", "recipe.importance_sampling_mode", "token_"),
        (
            "hardware.devices_per_run=2 hardware.interconnect_bandwidth=1e10"
            " hardware.sharding=fsdp",
            "hardware.sharding",
            "hardware.sharding=ddp",
        ),
    ],
)
def test_a_wrong_value_names_setting_rule_and_nearest_choice(
    override: str, setting: str, nearest: str
) -> None:
    with pytest.raises(SettingError) as caught:
        make_config(*override.split())
    assert caught.value.setting == setting
    assert "Nearest choice that works" in str(caught.value)
    assert nearest in str(caught.value)


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingError, match=r"budget=: has no value"):
        sweep_config({"mode": "plan"})


def _options(group: str) -> list[str]:
    """Files that can be chosen: `_llm` is only included, the others need a value of the user's."""
    names = sorted(path.stem for path in (config_directory() / group).glob("*.yaml"))
    return [
        name
        for name in names
        if not name.startswith("_") and name not in ("local", "custom", "mixture")
    ]


@pytest.mark.parametrize(
    "choice",
    [
        f"{path.name}={name}"
        for path in sorted(config_directory().iterdir())
        # Whole experiments are no group of settings: tests/plan/test_experiments.py plans them.
        if path.is_dir() and path.name != "experiment"
        for name in _options(path.name)
    ],
)
def test_every_shipped_config_file_is_valid(choice: str) -> None:
    group, name = choice.split("=")
    # Recipes of the papers are for models that have something to write.
    model = ("model=qwen-1.5b",) if group == "recipe" else ()
    assert getattr(make_config(choice, *model), group) is not None
    assert name in _options(group)


def test_a_model_brings_its_grid_and_the_command_line_overrides_it() -> None:
    assert make_config("model=qwen-1.5b").grid.name == "joint"
    assert make_config("model=qwen-1.5b", "grid=tiny").grid.name == "tiny"


@pytest.mark.parametrize("budget", ["logspace:1e10:1.0001e10:4", "logspace:1000:1005:9"])
def test_a_range_too_narrow_for_its_digits_is_refused(budget: str) -> None:
    with pytest.raises(SettingError, match="gives a value twice") as caught:
        make_config(f"budget={budget}")
    nearest = str(caught.value).split()[-1]
    assert len(make_config(nearest).budgets) > 1


def test_an_axis_without_values_is_refused() -> None:
    with pytest.raises(SettingError, match="lists no value"):
        combinations(make_config("grid.axes={recipe.num_iterations:[]}"))


def test_a_default_that_is_declared_needs_no_line_in_conf() -> None:
    declared = {item.name for item in fields(RecipeConfig) if item.default is not MISSING}
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        assert declared <= set(compose("config").recipe)
        assert compose("config", overrides=["~recipe"]).recipe.num_iterations == 1
