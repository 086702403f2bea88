"""What is wrong with a value reads the same wherever the value comes from."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass, replace
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BeforeValidator, TypeAdapter

from isosweep.config.grid import GridConfig
from isosweep.config.settings import read
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.task import SortConfig
from isosweep.config.values import Says
from isosweep.errors import SettingError
from isosweep.plan.spec import RunSpec
from tests.conftest import make_config

CONFIG = make_config()


def message_of(setting: str, value: Any) -> str:
    """What the config says with `value` at a dotted setting; setting and nearest choice aside."""
    plain: Any = asdict(CONFIG)
    *parents, name = setting.split(".")
    group = plain
    for parent in parents:
        group = group[parent]
    group[name] = value
    with pytest.raises(SettingError) as caught:
        sweep_config(plain)
    return str(caught.value).replace(". Nearest choice that works: ", " | ")


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (
            "recipe.lora_rank",
            "8",
            "recipe.lora_rank=8: must be a whole number | recipe.lora_rank=1",
        ),
        ("grid.min_steps", True, "grid.min_steps=True: must be a whole number | grid.min_steps=1"),
        ("grid.min_steps", 1.5, "grid.min_steps=1.5: must be a whole number | grid.min_steps=1"),
        ("grid.seeds", ["1"], "grid.seeds=1: must be a whole number | grid.seeds=[1]"),
        ("grid.seeds", None, "grid.seeds=None: must be a list of seeds | grid.seeds=[0]"),
        # How many, or which?
        (
            "grid.seeds",
            3,
            "grid.seeds=3: must be a list: 3 seeds, or the seed 3 | grid.seeds=[0,1,2], or [3]",
        ),
        ("grid.seeds", 0, "grid.seeds=0: must be a list of seeds | grid.seeds=[0]"),
        ("grid.seeds", 42, "grid.seeds=42: must be a list of seeds | grid.seeds=[42]"),
        ("grid.seeds", [], "grid.seeds=[]: must list at least one value | grid.seeds=[0]"),
        ("grid.seeds", [0, 0], "grid.seeds=[0, 0]: lists a value twice | grid.seeds=[0]"),
        ("recipe.top_p", "1", "recipe.top_p=1: must be a number | recipe.top_p=1.0"),
        ("recipe.top_p", True, "recipe.top_p=True: must be a number | recipe.top_p=1.0"),
        ("model.name", 3, "model.name=3: must be text | model.name=name"),
        (
            "hardware.calibrated",
            1,
            "hardware.calibrated=1: must be true or false | hardware.calibrated=true",
        ),
        (
            "grid.axes",
            {1: [2]},
            "grid.axes=1: must have names that are text | grid.axes=null, or names in quotes",
        ),
        ("recipe", 3, "recipe=3: must be a group of settings | recipe={}"),
        ("grid.axes", 3, "grid.axes=3: must be a group of settings | grid.axes={}"),
        ("recipe.beta", float("inf"), "must be a finite number, 0 or more | recipe.beta=0"),
        ("recipe.beta", float("nan"), "must be a finite number, 0 or more | recipe.beta=0"),
        ("evaluation.temperature", float("inf"), "must be a finite number above 0"),
        ("health.entropy_rise", float("inf"), "must be a number above 1, or null to switch"),
        ("health.truncated_share", 1, "must be a number above 0 and below 1, or null to"),
        ("health.stop", ["colapse"], "gradient_spike | health.stop=collapse"),
        ("hardware.attention", "eager", "flash_attention_3, auto | hardware.attention="),
        ("analysis.confidence", float("nan"), "between 0.5 and 1 | analysis.confidence=0.9"),
        ("analysis.compute_axis", "flop", "must be one of flops, rollouts, tokens, device_hours"),
        ("simulation.worlds", [], "names no world | simulation.worlds=[easy]"),
        ("model.architecture.num_heads", 0, "model.architecture.num_heads=0: must be a finite"),
        ("model.architecture.num_kv_heads", 3, "must divide num_heads=2"),
        ("launcher.slurm.mem_gb", 0, "launcher.slurm.mem_gb=0: must be a finite number above 0"),
        (
            "task.sort.answers",
            "exact",
            "no such setting; here are levels, answer | task.sort.answer",
        ),
    ],
)
def test_a_refusal_names_setting_value_rule_and_a_choice(
    setting: str, value: Any, message: str
) -> None:
    said = message_of(setting, value)
    assert said.startswith(f"{setting}=")
    assert message in said


def test_values_are_taken_as_a_user_writes_them() -> None:
    plain: Any = asdict(CONFIG)
    plain["grid"] |= {"problems_per_batch": 4, "max_steps": 1e5, "tolerance": 0.02, "max_epochs": 7}
    plain["budget"] = "logspace:1e10:1e12:3"
    plain["analysis"]["difficulty"] = "hard"
    config = sweep_config(plain)
    assert (config.grid.problems_per_batch, config.grid.max_steps) == ([4], 100_000)
    assert isinstance(config.grid.max_steps, int)
    assert isinstance(config.grid.max_epochs, float)
    assert config.budget == (1e10, 1e11, 1e12)
    assert config.analysis.difficulty == (0.0, 0.0625)


def test_a_replaced_value_is_checked_under_its_full_name() -> None:
    with pytest.raises(SettingError, match=r"^recipe\.learning_rate=-1: must be a finite number"):
        replace(CONFIG.recipe, learning_rate=-1)
    with pytest.raises(SettingError, match=r"^task\.sort\.levels=1: sorting needs at least 2"):
        SortConfig(levels=[1], answer="exact")
    with pytest.raises(SettingError, match=r"^mode=pln: must be one of"):
        replace(CONFIG, mode="pln")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"^grid\.name=: has no value and no default"):
        read(GridConfig, {})


def test_a_misspelt_name_comes_before_the_name_it_leaves_missing() -> None:
    plain: Any = asdict(CONFIG)
    plain["grid"]["tolerence"] = plain["grid"].pop("tolerance")
    plain["model"]["architecture"]["hidden_size"] = 0
    with pytest.raises(SettingError, match=r"^grid\.tolerence=.* works: grid\.tolerance$"):
        sweep_config(plain)
    plain["grid"] = asdict(CONFIG.grid)
    plain["grid"][3] = 4
    with pytest.raises(SettingError, match=r"^grid\.3=.*: no such setting; here are name, "):
        sweep_config(plain)


POSITIVE = {
    "recipe": "learning_rate reference_completions temperature top_p max_grad_norm micro_batch "
    "max_micro_batch num_iterations lora_rank max_draws importance_sampling_cap retire_at "
    "overlong_share reward_scale retire_window adam_epsilon mini_batches",
    "grid": "min_steps max_steps max_completions_per_step max_epochs tolerance",
    "hardware": "peak_flops memory_gb memory_bandwidth interconnect_bandwidth devices_per_run "
    "training_utilization generation_utilization",
    "evaluation": "samples_per_problem records_per_decade batch_size temperature",
    "difficulty": "samples_per_problem max_problems batch_size temperature",
    "task": "num_train_problems num_eval_problems prompt_tokens completion_tokens "
    "max_completion_tokens success_at",
    "launcher": "max_parallel stop_grace_s",
    "tracking": "interval_s max_points",
    "analysis": "margin",
    "simulation": "sweeps midpoint",
    "search": "max_compute",
}
NOT_NEGATIVE = {
    "recipe": "beta entropy_coef warmup_steps weight_decay rollout_lag",
    "hardware": "step_overhead_s token_overhead_s memory_reserve",
    "launcher": "max_retries",
    "simulation": "seed",
    "search": "seed",
}


@pytest.mark.parametrize(
    ("setting", "value"),
    [(f"{group}.{name}", 0) for group, names in POSITIVE.items() for name in names.split()]
    + [(f"{group}.{name}", -1) for group, names in NOT_NEGATIVE.items() for name in names.split()],
)
def test_bounds_are_kept(setting: str, value: int) -> None:
    group, name = setting.split(".")
    settings = getattr(CONFIG, group)
    with pytest.raises(SettingError, match=rf"^{group}\.{name}={value}: .*works: {group}\.{name}="):
        replace(settings, **{name: value})
    with pytest.raises(SettingError, match=rf"^{group}\.{name}=nan: "):
        replace(settings, **{name: float("nan")})


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        CONFIG.grid.tolerance = 0.1  # type: ignore[misc]


def parts(declared: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """A declared type and all types that it is made of, each with what `Annotated` adds to it."""
    if get_origin(declared) is Annotated:
        declared, *marks = get_args(declared)
    else:
        marks = []
    yield declared, tuple(marks)
    for option in get_args(declared):
        yield from parts(option)


def groups(kind: Any) -> Iterator[Any]:
    """A settings class and all those in it."""
    yield kind
    for item in fields(kind):
        for option, _ in parts(item.type):
            if isinstance(option, type) and is_dataclass(option):
                yield from groups(option)


GROUPS = sorted({*groups(SweepConfig), *groups(RunSpec)}, key=lambda kind: kind.__name__)
EVERY_GROUP = pytest.mark.parametrize("kind", GROUPS, ids=lambda kind: kind.__name__)


@EVERY_GROUP
def test_every_setting_has_a_line_that_says_what_it_is(kind: Any) -> None:
    (body,) = (node.body for node in ast.parse(textwrap.dedent(inspect.getsource(kind))).body)  # type: ignore[attr-defined]
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            line = after.value if isinstance(after, ast.Expr) else None
            assert isinstance(line, ast.Constant), ast.unparse(node)
            assert isinstance(line.value, str), ast.unparse(node)


@EVERY_GROUP
def test_bounds_have_words_and_the_choice_they_name_works(kind: Any) -> None:
    for item in fields(kind):
        declared: Any = item.type
        for _, marks in parts(declared):
            own = [mark for mark in marks if isinstance(mark, Says)]
            if any(type(mark).__module__ == "annotated_types" for mark in marks):
                assert own, item.name
            if own:
                nearest = own[-1].nearest
                value = nearest.strip("[]").split(",") if nearest.startswith("[") else nearest
                TypeAdapter(declared).validate_python(value)


@EVERY_GROUP
def test_every_whole_number_may_be_written_with_a_point(kind: Any) -> None:
    # A plain `int` would refuse 8.0, which YAML makes of 8e0.
    for item in fields(kind):
        for declared, marks in parts(item.type):
            converted = any(isinstance(mark, BeforeValidator) for mark in marks)
            assert declared is not int or converted, item.name


def test_answers_longer_than_a_models_positions_are_refused_where_vllm_would_not_start() -> None:
    long = ("model=qwen-0.5b", "task.max_completion_tokens=40000")
    with pytest.raises(SettingError, match=r"at most the 32768 positions of the model qwen-0\.5b"):
        make_config(*long)
    assert make_config(*long, "generation=transformers")
    assert make_config(*long[:1], "task.max_completion_tokens=32618")
