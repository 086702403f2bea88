"""What a wrong command is answered with: the setting is named, and the advice works."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.contract.surface import isosweep, refused

TWO = {"grid.axes": {"recipe": ["grpo", "dapo"]}}
QWEN = "model=qwen-0.5b budget=1e18 "
SHARDED = QWEN + "hardware.devices_per_run=8 hardware.sharding=fsdp "
NODES = QWEN + "hardware.devices_per_run=16 hardware.sharding=fsdp launcher=slurm "
LAG = "generation.overlap=true recipe.rollout_lag=1 "
LIST_OF_MODELS = {"grid.axes": {"model": ["qwen-0.5b", "qwen-1.5b"]}}

# A command, the setting that its refusal names, and what the plan has once the first advice is
# followed: settings of config.json; nothing where no advice is given.
WRONG: list[tuple[str, str, dict[str, Any]]] = [
    # Several choices of a group.
    ("recipe=[grpo,dapo]", "recipe", TWO),
    ("+recipe=[grpo,dapo]", "+recipe", TWO),
    ("-m recipe=[grpo,dapo],[tiny]", "recipe", TWO),
    ("recipe=grpo,dapo", "recipe", TWO),
    ("grid.axes.recipe=[grpo,dapo]", "grid.axes.recipe", TWO),
    ("grid.axes={recipe:[grpo,dapoo]}", "grid.axes.recipe", TWO),
    ("model=[qwen-0.5b,qwen-1.5b] budget=1e19", "model", LIST_OF_MODELS),
    ("model=qwen-0.5b,qwen-1.5b budget=1e19", "model", LIST_OF_MODELS),
    ("evaluation=[small,default]", "evaluation", {"grid.axes.evaluation": ["small", "default"]}),
    (QWEN + "hardware=[h100,a100]", "hardware", {}),
    ("+experiment=[group_size,data_reuse]", "+experiment", {"mode": "plan"}),
    ("tracking=[mlflow,none]", "tracking", {}),
    ("recipe=[]", "recipe", {}),
    # Several values of a setting.
    ("budget=1e10,2e10", "budget", {"budget": [1e10, 2e10]}),
    ("budget=2e10 4e10", "overrides", {}),
    ("grid.num_generations=[4, 8]", "grid.num_generations", {}),
    ("grid.num_generations=(4,8)", "grid.num_generations", {}),
    ("num_generations=8,16", "num_generations", {"grid.num_generations": [8, 16]}),
    ("recipe.beta=0,0.1", "recipe.beta", {"grid.axes": {"recipe.beta": [0, 0.1]}}),
    ("recipe.beta=[0,0.1]", "recipe.beta", {"grid.axes": {"recipe.beta": [0, 0.1]}}),
    (
        "recipe.loss_type=grpo,dapo",
        "recipe.loss_type",
        {"grid.axes.recipe.loss_type": ["grpo", "dapo"]},
    ),
    ("grid.axes.recipe.beta=[0,0.1]", "grid.axes.recipe.beta", {"grid.axes.recipe.beta": [0, 0.1]}),
    ("sweeps_dir=a,b", "sweeps_dir", {"mode": "plan"}),
    # Names of other programs, and slips.
    ("n=8", "n", {"grid.num_generations": [8]}),
    ("num_generation=8", "num_generation", {"grid.num_generations": [8]}),
    ("lr=1e-4", "lr", {"recipe.learning_rate": 1e-4}),
    ("recipe.lr=1e-4", "recipe.lr", {"recipe.learning_rate": 1e-4}),
    ("seeds=2", "seeds", {"grid.seeds": [0, 1]}),
    ("seed=3", "seed", {"grid.seeds": [3]}),
    ("modle=tiny", "modle", {"model.name": "tiny"}),
    ("dataset=gsm8k model=qwen-0.5b budget=1e18", "dataset", {"task.math.dataset": "openai/gsm8k"}),
    (
        QWEN + "model_name_or_path=Qwen/Qwen2.5-0.5B",
        "model_name_or_path",
        {"model.name": "qwen-0.5b"},
    ),
    ("cluster=slurm", "cluster", {"launcher.name": "slurm"}),
    ("project=mine", "project", {"tracking.experiment": "mine"}),
    ("launcher.partition=gpu", "launcher.partition", {"launcher.slurm.partition": ["gpu"]}),
    (QWEN + "gpus=1", "gpus", {"hardware.devices_per_run": 1}),
    (
        "evaluation.num_problems=16",
        "evaluation.num_problems",
        {"task.num_eval_problems": 16},
    ),
    ("evaluation.problems=16", "evaluation.problems", {}),
    ("wandb=false", "wandb", {}),
    ("recipe.name=dapo", "recipe.name", {"recipe.loss_type": "dapo"}),
    ("model=smollm2-360 budget=1e18", "model", {"model.name": "smollm2-360m"}),
    ("hardware=v100", "hardware", {}),
    ("evaluation.k=8", "evaluation.k", {}),
    ("recipe=ppo", "recipe", {"recipe.name": "grpo"}),
    ("tracking=wb", "tracking", {"tracking.name": "wandb"}),
    ("budget=10^11", "budget", {"budget": [1e11]}),
    ("hardware=gh200 " + QWEN, "hardware", {"hardware.name": "h100"}),
    ("recipe=group", "recipe", {}),
    (
        "launcher=slurm launcher.slurm.container=/img/a.sqsh",
        "launcher.slurm.container",
        {"launcher.slurm.python": "apptainer exec --nv /img/a.sqsh python"},
    ),
    ("recipe=3", "recipe", {}),
    ("tracking=false", "tracking", {}),
    # Budgets that are no numbers.
    ("budget=2e10flops", "budget", {}),
    ("budget=0", "budget", {}),
    ("budget=1e10..1e11", "budget", {"budget": [1e10, 3.16e10, 1e11]}),
    ("budget=0.05h", "budget", {"budget_unit": "device_hours"}),
    # What a whole sweep may take.
    ("total=0.5hours", "total", {"grid.seeds": [0, 1, 2, 3, 4, 5, 6, 7]}),
    ("gpu_hours=0.5", "gpu_hours", {"total": None}),
    ("total=$1 hardware.dollars_per_hour=2", "total", {"hardware.dollars_per_hour": 2}),
    ("total=1e6", "total", {"grid.seeds": [0, 1]}),
    # Modes, and words that are no override.
    ("plan", "overrides", {"mode": "plan"}),
    ("mode=pln", "mode", {"mode": "plan"}),
    # What only several settings break together.
    ("budget=1e6", "budget", {"mode": "plan"}),
    ("budget_unit=device_hours budget=1e10", "budget", {"budget_unit": "device_hours"}),
    (
        "hardware=cpu hardware.devices_per_run=2",
        "hardware.devices_per_run",
        {"hardware.devices_per_run": 2},
    ),
    (LAG + QWEN, "hardware.devices_per_run", {"hardware.devices_per_run": 2}),
    (LAG + SHARDED, "generation.overlap", {"hardware.sharding": "ddp"}),
    (LAG + NODES, "generation.overlap", {"hardware.devices_per_run": 8}),
    (SHARDED + "generation.tensor_parallel=3", "generation.tensor_parallel", {"mode": "plan"}),
    (NODES + "hardware.devices_per_run=9", "hardware.devices_per_run", {"mode": "plan"}),
    (NODES + "launcher=local", "launcher", {"launcher.name": "slurm"}),
]
# Advice with names for the user to fill in.
OPEN = [
    ("reward=my_reward.py", "reward", "task=custom task.custom.function=my_reward:FUNCTION"),
    ("--config-dir /nosuch", "options", "--config-dir DIRECTORY +experiment=NAME"),
    ("--config-name my", "options", "--config-dir DIRECTORY +experiment=NAME"),
    ("task=aime", "task", "task=math_file task.math.path=FILE"),
    ("model=llama3", "model", "model=llama-3b"),
    ("model=Qwen/Qwen9-7B budget=1e18", "model", "the same after: hf download Qwen/Qwen9-7B"),
    ("model=gpt2", "model", "model=local model.path=DIRECTORY"),
    ("gpus=8", "gpus", "hardware.devices_per_run=8"),
    ("launcher=pbs", "launcher", "launcher=local, in a job of that scheduler"),
    ("total=5usd", "total", "hardware.dollars_per_hour=NUMBER (an hour of one device)"),
    ("budget_unit=gpu_hours", "budget_unit", "budget_unit=device_hours"),
]
ADVICE = "Nearest choice that works: "


def key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def followed(words: list[str], setting: str, advice: str) -> list[str]:
    """The command with the advice in the place of what was refused."""
    kept = [
        word
        for word in words
        if re.match(r"[+~]?[\w.@/]+=\S", word)
        and not f"{setting.lstrip('+')}.".startswith(f"{key(word)}.")
    ]
    # What follows is a remark.
    return [*kept, *shlex.split(re.split(r"; | for ", advice)[0])]


@pytest.mark.parametrize(("typed", "setting", "plans"), WRONG)
def test_a_refusal_names_the_setting_and_its_advice_works(
    typed: str, setting: str, plans: dict[str, Any], tmp_path: Path
) -> None:
    words = typed.split()
    words += [] if key(words[0]) == "mode" else ["mode=plan"]
    said = refused(*words, cwd=tmp_path)
    assert said.startswith(f"isosweep: {setting}=")
    assert (ADVICE in said) is bool(plans), said
    for advice in filter(None, said.partition(ADVICE)[2].strip().split(", or ")):
        given = [f"sweeps_dir=s{len(list(tmp_path.iterdir()))}", *followed(words, setting, advice)]
        done = isosweep(*given, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
    configs = [json.loads(path.read_text()) for path in tmp_path.rglob("config.json")]
    assert not plans or plans in [{name: found(each, name) for name in plans} for each in configs]


def found(config: Any, name: str) -> Any:
    """The value of a dotted setting, some of which have dots in their own names."""
    first, _, rest = name.partition(".")
    return (
        config[name] if name in config or not rest else found(config[first] or {rest: None}, rest)
    )


@pytest.mark.parametrize(("typed", "setting", "advice"), OPEN)
def test_what_only_the_user_knows_has_a_name_in_the_advice(
    typed: str, setting: str, advice: str, tmp_path: Path
) -> None:
    said = refused("mode=plan", *typed.split(), cwd=tmp_path)
    assert said.startswith(f"isosweep: {setting}=")
    assert f"{ADVICE}{advice}" in said
