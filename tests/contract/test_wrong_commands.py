"""Wrong commands over all groups of settings: status 2, the setting, its value and its rule are
named, and nothing is written."""

import shlex
from pathlib import Path

import pytest

from tests.contract.surface import NOTHING_IS_TRAINED, refused

GPU = "model=qwen-0.5b budget=1e18 "
EIGHT = GPU + "hardware.devices_per_run=8 hardware.sharding=fsdp "
SIXTEEN = GPU + "hardware.devices_per_run=16 hardware.sharding=fsdp launcher=slurm "
COMMAND = "trainer=command \"trainer.command='train {n} {B} {T}'\" "
PART = "task.mixture.parts"
TWO = f"task=mixture +task@{PART}.a=sort +task@{PART}.b=sort {PART}.b.sort.levels=[4] "
BUDGETS = "budget=8.1e+10,1.62e+11,3.24e+11"

# What is typed; the setting and the value that are named; words of the rule.
WRONG = [
    # The sweep.
    ("budget=0", "budget=0", "must be a finite number above 0"),
    ("budget=plenty", "budget=plenty", "must be a finite number above 0"),
    ("budget=logspace:1e11:1e10:3", "budget=logspace:1e11:1e10:3", "0 < first < last"),
    ("budget=1e6", "budget=1e+06", "T = 1 is below 10"),
    (
        "budget_unit=device_hours budget=1e10",
        "budget=1e+10",
        "at 1e+10 device-hours: T = 1000000000000 exceeds 100000. Nearest",
    ),
    ("budget_unit=flop", "budget_unit=flop", "must be 'flops', 'rollouts', 'tokens'"),
    ("mode=pln", "mode=pln", "must be 'run', 'plan', "),
    ("mode=status format=xml", "format=xml", "must be 'text' or 'json'"),
    ("mode=dashboard format=json", "format=json", "is for mode=plan, status"),
    ("mode=launch dry_run=true runs=[running]", "runs=[running]", "is for mode=status, cancel"),
    ("mode=plan retry_failed=true", "retry_failed=true", "is for mode=resume; mode=plan"),
    ("mode=plan lines=3", "lines=3", "is for mode=status; mode=plan"),
    ("sweeps_dir=3", "sweeps_dir=3", "must be a valid string"),
    # The grid.
    ("grid.sedes=[0]", "grid.sedes=[0]", "no such setting"),
    ("grid.num_generations=[1,2]", "grid.num_generations=1", "greater than or equal to 2"),
    ("grid.num_generations=[2,x]", "grid.num_generations=x", "must be a valid integer"),
    ("grid.seeds=[]", "grid.seeds=[]", "lists no value"),
    ("grid.num_generations=[]", "grid.num_generations=[]", "lists no value"),
    ("grid.seeds=[0,0]", "grid.seeds=[0, 0]", "lists a value twice"),
    ("grid.tolerance=1", "grid.tolerance=1", "must be less than 0.5"),
    ("grid.min_steps=1.5", "grid.min_steps=1.5", "must be a valid integer"),
    ("grid.min_steps=9000 grid.max_steps=900", "grid.min_steps=9000", "grid.max_steps=900"),
    ("grid.completions_per_step=[100]", "grid.completions_per_step=[100]", "16, 32, 64, 128"),
    ("grid.max_completions_per_step=4", BUDGETS, "16 exceeds 4"),
    ("grid.axes=3", "grid.axes=3", "must be a valid dictionary"),
    (
        "grid.axes={recipe.num_iterations:[0]}",
        "recipe.num_iterations=0",
        "must be greater than 0 (where",
    ),
    ("grid.axes={hardware.name:[a]}", "grid.axes=hardware.name", "all runs of a sweep share it"),
    # The recipe.
    ("recipe=3", "recipe=3", "must be one of cispo, dapo, "),
    ("recipe.learning_rate=abc", "recipe.learning_rate=abc", "must be a valid number"),
    ("recipe.beta=nan", "recipe.beta=nan", "must be a finite number"),
    ("recipe.loss_type=bnpo", "recipe.loss_type=bnpo", "must be one of grpo, dr_grpo, dapo, cispo"),
    (
        "recipe.loss_type=grpo recipe.aggregation=problem",
        "recipe.aggregation=problem",
        "=dapo or cispo",
    ),
    ("recipe.retire_at=90", "recipe.retire_at=90", "must be less than or equal to 1"),
    ("recipe.rollout_lag=-1", "recipe.rollout_lag=-1", "must be greater than or equal to 0"),
    ("recipe.micro_batch=7", BUDGETS, "4 x 4 = 16 is not a multiple of 7"),
    (GPU + "recipe.temperature=2.5", "recipe.temperature=2.5", "vLLM takes at most 2"),
    # The task.
    ("task.kind=chess", "task.kind=chess", "must be 'sort', "),
    ("task.sort.levels=[1]", "task.sort.levels=1", "greater than or equal to 2"),
    ("task.template=sort", "task.template=sort", "must contain {digits}"),
    ("task.num_train_problems=2", BUDGETS, "B = 4 exceeds the 2 training problems"),
    ("task.difficulty={hard:0.5}", "task.difficulty={'hard': 0.5}", "add up to 0.5, not 1"),
    ("task=math task.prompt_tokens=null", "task.prompt_tokens=null", "must be given for"),
    (
        TWO + "task.mixture.shares={a:0.75,b:0.5}",
        "task.mixture.shares={'a': 0.75, 'b': 0.5}",
        "add up to 1.25, not 1",
    ),
    (
        GPU + "task.max_completion_tokens=40000",
        "task.max_completion_tokens=40000",
        "the 32768 positions",
    ),
    # The model and the hardware.
    ("model=qwen-1.5", "model=qwen-1.5", "must be one of llama-1b, "),
    ("model.name=3", "model.name=3", "must be a valid string"),
    (
        "model.architecture.num_kv_heads=3",
        "model.architecture.num_kv_heads=3",
        "must divide num_heads=2",
    ),
    ("hardware.devices_per_run=8", "hardware.devices_per_run=8", "cpu has no"),
    (
        "hardware.attention=flash_attention_2",
        "hardware.attention=flash_attention_2",
        "in bfloat16 on GPUs alone",
    ),
    ("hardware.dollars_per_hour=0", "hardware.dollars_per_hour=0", "greater than 0"),
    (
        SIXTEEN + "hardware.devices_per_run=9",
        "hardware.devices_per_run=9",
        "of its 2 nodes",
    ),
    (SIXTEEN + "hardware.node_bandwidth=null", "hardware.node_bandwidth=null", "2 nodes sync"),
    # Generation.
    (
        "generation.tensor_parallel=2",
        "generation.tensor_parallel=2",
        "only generation=vllm does",
    ),
    (
        EIGHT + "generation.tensor_parallel=3",
        "generation.tensor_parallel=3",
        "hardware.devices_per_run=8",
    ),
    (
        GPU + "generation.sleep=true hardware=cpu",
        "generation.sleep=True",
        "hardware.device=cpu",
    ),
    # The launcher.
    (SIXTEEN + "launcher=local", "launcher=local", "and a run takes 2 nodes x 8 devices"),
    ("launcher.max_retries=-1", "launcher.max_retries=-1", "greater than or equal to 0"),
    ("launcher.confirm_above=0", "launcher.confirm_above=0", "must be greater than 0"),
    ("launcher.slurm.mem_gb=0", "launcher.slurm.mem_gb=0", "must be greater than 0"),
    (
        "launcher=slurm launcher.slurm.additional={job-name:x}",
        "launcher.slurm.additional.job-name=x",
        "isosweep sets this option",
    ),
    (
        "launcher=slurm launcher.slurm.gpus_per_node=1 launcher.slurm.additional={gres:gpu:2}",
        "launcher.slurm.gpus_per_node=1",
        "too: gres=gpu:2",
    ),
    # Evaluation and analysis.
    ("evaluation.samples_per_problem=0", "evaluation.samples_per_problem=0", "greater than 0"),
    (
        "evaluation.sets={hard:{temprature:2}}",
        "evaluation.sets.hard.temprature=2",
        "no such setting",
    ),
    (GPU + "evaluation.temperature=3", "evaluation.temperature=3.0", "vLLM takes at most 2"),
    ("analysis.confidence=nan", "analysis.confidence=nan", "must be"),
    ("analysis.formats=[gif]", "analysis.formats=gif", "must be 'png', 'svg' or 'pdf'"),
    ("analysis.difficulty=odd", "analysis.difficulty=odd", "or a range [low, high] between 0 "),
    ("analysis.evaluation_set=x", "analysis.evaluation_set=x", "evaluation.sets: there are none"),
    # What goes on beside a run.
    ("tracking=false", "tracking=false", "must be one of mlflow, none, wandb"),
    ("tracking.offline=true", "tracking.offline=True", "is W&B's"),
    ("health.stop=[colapse]", "health.stop=colapse", "must be one of non_finite, collapse, "),
    ("health.truncated_share=1", "health.truncated_share=1", "must be less than 1"),
    ("+health.collapse=0.5", "health.collapse=0.5", "here are window, collapse_share"),
    (
        "checkpoint.min_interval_s=5000",
        "checkpoint.min_interval_s=5000.0",
        "checkpoint.max_interval_s=3600",
    ),
    ("checkpoint.keep=some", "checkpoint.keep=some", "must be 'all', 'resumable', "),
    ("search=frontier mode=launch", "mode=launch", "leaves its runs, and search=frontier asks"),
    ("search=frontier search.seed=-1", "search.seed=-1", "greater than or equal to 0"),
    # Commands that train, logs of others, measured difficulty.
    ("trainer=command", "trainer.command=null", "takes the command that trains a run"),
    (
        COMMAND + "trainer.checkpoints=last",
        "trainer.checkpoints=last",
        "says by {step} which step",
    ),
    ("mode=import", "import.files=null", "which logs are read"),
    (
        "mode=difficulty difficulty.samples_per_problem=0",
        "difficulty.samples_per_problem=0",
        "greater than 0",
    ),
]


@pytest.mark.parametrize(("typed", "named", "rule"), WRONG)
def test_a_wrong_command_names_its_setting_and_writes_nothing(
    typed: str, named: str, rule: str, tmp_path: Path
) -> None:
    said = refused(*shlex.split(typed), NOTHING_IS_TRAINED, cwd=tmp_path)
    assert said.startswith(f"isosweep: {named}: ")
    assert rule in said
    assert not list(tmp_path.iterdir())
