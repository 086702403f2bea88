"""Every refusal of a config is a row: what is typed, the setting that is named, and its rule."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from isosweep.config.base import Settings, group_in, load, meanings, replaced
from isosweep.config.compose import config_of
from isosweep.config.study import GridConfig
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.task import SortConfig
from isosweep.errors import SettingError
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import resolve
from tests.conftest import make_config

CONFIG = make_config()

# What rows below begin with.
GPU = "model=qwen-0.5b budget=1e18 "
EIGHT = GPU + "hardware.devices_per_run=8 hardware.sharding=fsdp "
OVERLAP = "generation.overlap=true recipe.rollout_lag=1 "
SIXTEEN = GPU + "hardware.devices_per_run=16 hardware.sharding=fsdp launcher=slurm "
MATH = "task=math task.math."
PARTS = "task.mixture.parts"
SET = "evaluation.sets.a.task"
TWO = f"task=mixture +task@{PARTS}.a=sort +task@{PARTS}.b=sort {PARTS}.b.sort.levels=[4] "
COMMANDED = "trainer=command \"trainer.command='train "
REFUSED = [
    # What Hydra does not compose.
    ("model=_llm", "model", "is only a part of other choices: llama-1b, "),
    ("experiment=playbook_joint", "experiment", "is chosen beside the defaults"),
    ("model.path=${foo}", "overrides", "Interpolation key 'foo' not found"),
    ("sweeps_dir=a,b", "sweeps_dir", "is one directory, which holds all sweeps"),
    ("=3", "overrides", "no setting is named"),
    ("+=3", "overrides", "no setting is named"),
    ("hydra=3", "overrides", "no setting is named"),
    ("~model", "model", "has to be chosen"),
    ("~task", "task", "has to be chosen"),
    ("launcher.slurm.additional={exclude:[a,b]}", "launcher.slurm.additional.exclude", "some text"),
    # Values of another type.
    ("grid.min_steps=true", "grid.min_steps", "must be a valid integer"),
    ("task=mixture task.mixture.parts={a:1}", "task.mixture.parts", "cannot be set so: Key 'a'"),
    ("grid.num_generations={a:1}", "grid.num_generations", "cannot be set so: "),
    ("evaluation.sets={hard:3}", "evaluation.sets.hard", "must be a group of settings"),
    # Trainers of one's own.
    (COMMANDED + "{N}'\"", "trainer.command", "names {N}, and a run has n, B, completions"),
    (COMMANDED + "}'\"", "trainer.command", "a brace of its own is written twice"),
    (
        COMMANDED + "'\" \"trainer.resume='--r {resume_from}'\"",
        "trainer.checkpoints",
        "go together",
    ),
    (COMMANDED + "'\" trainer.log=/tmp/log.jsonl", "trainer.log", "it lies in {directory}"),
    (
        COMMANDED + "'\" budget_unit=device_hours",
        "budget_unit",
        "trainer=command needs T in advance",
    ),
    # Bounds.
    ("++recipe.trl.adam_beta2=1.5", "recipe.trl.adam_beta2", "a number of 0 or more, below 1"),
    ("++recipe.trl.max_grad_norm=-1", "recipe.trl.max_grad_norm", "a number of 0 or more"),
    ("++recipe.trl.weight_decay=abc", "recipe.trl.weight_decay", "a number of 0 or more"),
    ("budget=[]", "budget", "must be a finite number above 0"),
    ("grid.seeds=3", "grid.seeds", "must be a list of seeds: a number"),
    ("sweep=-a", "sweep", "must begin with a letter or digit and go on with these"),
    (f"sweep={'a' * 101}", "sweep", "100 at most"),
    ("health.stop=[collapse,collapse]", "health.stop", "names a rule twice"),
    ("health.collapse_share=null", "health.stop", "switched off by health.collapse_share=null"),
    # Modes.
    ("mode=status sweep=[a,b]", "sweep", "mode=status takes one sweep"),
    # Tasks.
    ("task.sort.levels=[2]", "task.num_train_problems", "level 2 of task.sort.levels has room for"),
    (MATH + "path=a.csv", "task.math.path", "cannot be read (No such file"),
    (MATH + "dataset=null", "task.math.path", "has to be given, a file"),
    ("task=custom", "task.custom.function", "has to be given"),
    ("task=custom task.custom.function=f", "task.custom.function", "package.module:function"),
    ("task.kind=math", "task.sort", "task.kind=math has no group"),
    (
        "task=reasoning_gym task.reasoning_gym.parameters={seed:1}",
        "task.reasoning_gym.parameters.seed",
        "is set by isosweep, from task.data_seed",
    ),
    # Recipes.
    ("recipe.loss_type=my_lab.losses.mine", "recipe.loss_type", "must read package.module:func"),
    ("recipe.planned_draws=3", "recipe.planned_draws", "must lie between 1 and 1"),
    ("recipe=scalerl", "recipe.interruption_tokens", "of task.max_completion_tokens=7"),
    ("recipe.interruption=stop", "recipe.interruption_tokens", "must be 1 or more"),
    (
        "recipe.scale_advantages=true recipe.scale_rewards=group",
        "recipe.scale_rewards",
        "must be none",
    ),
    (
        "model=llama-1b recipe.lora_rank=8 recipe.cast_lm_head_to_fp32=true budget=1e19",
        "recipe.cast_lm_head_to_fp32",
        "beside the adapters of recipe.lora_rank=8",
    ),
    # Hardware.
    (GPU + "hardware.sharding=fsdp", "hardware.sharding", "hardware.devices_per_run=1"),
    (
        "hardware.devices_per_run=2 hardware.interconnect_bandwidth=1e10 hardware.sharding=fsdp",
        "hardware.sharding",
        "accelerate would replicate without a word, as hardware.sharding=ddp does",
    ),
    (
        "model=qwen3-30b-a3b generation=vllm hardware=cpu budget=1e18",
        "generation",
        "vLLM packs a mixture's experts on hardware.device=cpu",
    ),
    # Engines.
    ("generation.overlap=true", "generation.overlap", "recipe.rollout_lag of 1 or more, here 0"),
    (OVERLAP + "recipe.mini_batches=2", "generation.overlap", "and one update a generation"),
    (COMMANDED + "'\" " + OVERLAP, "generation.overlap", "needs trainer=trl, one node"),
    (
        SIXTEEN + "generation.tensor_parallel=16",
        "generation.tensor_parallel",
        "must divide the 8 devices of a node",
    ),
    # Several nodes.
    (SIXTEEN + COMMANDED + "{n} {B} {T}'\"", "trainer", "starts your command on one node"),
    (SIXTEEN + "hardware.nodes_per_run=3", "hardware.nodes_per_run", "divide hardware.devices_per"),
    (SIXTEEN + "hardware.nodes_per_run=1", "hardware.nodes_per_run", "has 8 devices a node"),
    (SIXTEEN + "launcher=ray", "launcher", "gives a run one node"),
    # 14 heads, 2 of keys and values.
    (EIGHT + "generation.tensor_parallel=4", "generation.tensor_parallel", "its 14 heads"),
    # Launchers.
    *(
        (f"launcher=slurm launcher.slurm.{typed}", f"launcher.slurm.{setting}", rule)
        for typed, setting, rule in [
            ("additional={time:10}", "additional.time", "by launcher.slurm.timeout_min"),
            ("account=\"''\"", "account", "goes on one line of the job's script"),
            ("qos=\"'a\nb'\"", "qos", "goes on one line of the job's script"),
        ]
    ),
    # Searches.
    ("search.max_compute=1e10", "search.max_compute", "search=grid trains the whole plan"),
    ("search=frontier checkpoint.keep=none", "checkpoint.keep", "no checkpoint to go on from"),
    ("search=frontier search.sampler=optuna.A", "search.sampler", "is read by search=optuna"),
    ("search=optuna search.pruner=null", "search.pruner", "is what search=optuna chooses by"),
    # Axes.
    *(
        (f"grid.axes={{{axes}}}", setting, rule)
        for axes, setting, rule in [
            ("recipe.num_iterations:[]", "grid.axes.recipe.num_iterations", "lists no value"),
            ("recip:[dapo]", "grid.axes", "an axis is a setting of model, task"),
            ("variant:{a:{hardware:h100}}", "grid.axes.variant.a", "sets choices, by name"),
            ("variant:{a:{},b:{recipe.beta:-1}}", "recipe.beta", "(where variant=b)"),
            ("variant:{a:{},b:{recipe.beta:0.0}}", "grid.axes", "the same settings as another"),
            ("seed:{a:{}}", "grid.axes", "a name that already distinguishes runs"),
            ("v:{a:{recipe.beta:1}},recipe.beta:[0,1]", "grid.axes", "which another axis sets"),
            ("generation:[transformers,vllm]", "generation.name", "the same for all runs"),
            ("task.sort.level:[1,2]", "grid.axes", "task.sort.level: no such setting"),
        ]
    ),
    ("grid.axes={task:[sort,math]} task.sort.levels=[6]", "grid.axes.task", "cannot be combined"),
    # Evaluation sets.
    *(
        (f"+task@{SET}={choice} {SET}.{typed}", f"{SET}.{setting}", rule)
        for choice, typed, setting, rule in [
            ("sort", "sort.levels=[1]", "sort.levels", "or equal to 2"),
            (
                "math",
                f"math.dataset=null {SET}.math.path=/none.jsonl",
                "math.path",
                "cannot be read",
            ),
            (
                *("reasoning_gym", "prompt_tokens=null", "prompt_tokens"),
                f"must be given for {SET}.kind=reasoning_gym",
            ),
            ("sort_mix", "name=mix", "kind", "a set is of one task"),
        ]
    ),
    ("evaluation.sets={t:{task:{data_seed:1}}}", "evaluation.sets.t.task", "a whole task"),
    ("evaluation.sets={a/b:{}}", "evaluation.sets", "has a name 'a/b': letters, digits"),
    (
        GPU + f"+task@{SET}=math {SET}.max_completion_tokens=100000",
        f"{SET}.max_completion_tokens",
        "vLLM starts with at most",
    ),
    (
        f"{GPU}{TWO}generation=vllm {PARTS}.b.prompt_tokens=60000",
        f"{PARTS}.b.max_completion_tokens",
        "vLLM starts with at most",
    ),
    (
        "evaluation.sets={hard:{}} analysis.evaluation_set=hrd",
        "analysis.evaluation_set",
        "names none of evaluation.sets: hard",
    ),
    ("task.difficulty={hard:-1,easy:2}", "task.difficulty", "gives each its share"),
    ("generation.stop=[a,a]", "generation.stop", "or one twice"),
    ("generation.stop=[5]", "generation.stop", "must be a list of texts, like"),
    # Mixtures.
    ("task=mixture", PARTS, "has no part"),
    *(
        (f"{TWO} task.mixture.{typed}", f"task.mixture.{setting}", rule)
        for typed, setting, rule in [
            ("shares={a:0.75,bb:0.25}", "shares", "gives each part its share: a, b"),
            ("shares={}", "shares", "gives each part its share: a, b"),
            ("shares={a:2,b:-1}", "shares.b", "must be greater than or equal to 0"),
            ("shares=0.5", "shares", "must be a valid dictionary"),
            ("parts.b.num_eval_problems=4000", "parts.b.num_train_problems", "has room for"),
        ]
    ),
    (f"{TWO} +task@{PARTS}.c=sort_mix", f"{PARTS}.c.kind", "is no mixture itself"),
    (f"{TWO} task.success_at=0.5", "task.success_at", "is each part's own, as task.mixture.parts"),
    (f"{TWO} task.difficulty=hard", "task.difficulty", "is each part's own"),
    (f"{TWO} task.num_eval_problems=1", "task.num_eval_problems", "is the sum of the parts'"),
    (f"{TWO} evaluation.sets={{a:{{}}}}", "evaluation.sets.a", "is the name of a part of"),
]


@pytest.mark.parametrize(("typed", "setting", "rule"), REFUSED)
def test_a_refusal_names_the_setting_and_its_rule(typed: str, setting: str, rule: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(config_of(shlex.split(typed)))
    assert caught.value.setting == setting
    assert rule in caught.value.rule
    assert str(caught.value).startswith(f"{setting}={caught.value.value}: {caught.value.rule}")


def test_values_are_taken_as_a_user_writes_them() -> None:
    plain: Any = CONFIG.model_dump()
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
    with pytest.raises(SettingError, match=r"^recipe\.learning_rate=-1: must be greater than 0$"):
        replaced(CONFIG.recipe, learning_rate=-1)
    with pytest.raises(SettingError, match=r"^task\.sort\.levels=1: must be greater than or"):
        load(SortConfig, {"levels": [1], "answer": "exact"})
    with pytest.raises(SettingError, match=r"^mode=pln: must be .*: mode=plan$"):
        replaced(CONFIG, mode="pln")
    with pytest.raises(SettingError, match=r"^grid\.name=: has no value and no default"):
        load(GridConfig, {})
    with pytest.raises(SettingError, match=r"^budget=: has no value"):
        sweep_config({"mode": "plan"})


def test_a_misspelt_name_comes_before_the_name_it_leaves_missing() -> None:
    plain: Any = CONFIG.model_dump()
    plain["grid"]["tolerence"] = plain["grid"].pop("tolerance")
    plain["model"]["architecture"]["hidden_size"] = 0
    with pytest.raises(
        SettingError, match=r"^grid\.tolerence=.*no such setting.*: grid\.tolerance$"
    ):
        sweep_config(plain)
    plain["grid"] = CONFIG.grid.model_dump()
    plain["grid"][3] = 4
    with pytest.raises(SettingError, match=r"^grid\.3=.*: no such setting; here are name, "):
        sweep_config(plain)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        CONFIG.grid.tolerance = 0.1


def groups(kind: type[Settings]) -> Iterator[type[Settings]]:
    """A settings class and all those in it."""
    yield kind
    for field in kind.model_fields.values():
        inner = group_in(field)
        yield from groups(inner) if inner else ()


GROUPS = sorted({*groups(SweepConfig), *groups(RunSpec)}, key=lambda kind: kind.__name__)


def test_every_setting_has_a_line_that_says_what_it_is() -> None:
    for kind in GROUPS:
        assert kind.model_fields.keys() == {name for name, text in meanings(kind).items() if text}


def test_every_whole_number_may_be_written_with_a_point() -> None:
    # A plain `int` would refuse 8.0, which YAML makes of 8e0.
    for kind in GROUPS:
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if name in kind.model_fields and re.search(r"\bint\b", str(hint)):
                assert "_whole" in str(hint), f"{kind.__name__}.{name}"
