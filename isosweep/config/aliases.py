"""What papers and other programs call our settings and choices: one table of words as typed."""

import re
import shlex

# Names that are typed, by the setting or group that they mean.
_NAMES = {
    "grid.num_generations": "n G group_size rollouts",
    "grid.problems_per_batch": "B batch_size train_batch_size",
    "grid.seeds": "seed seeds",
    "steps": "T num_steps",
    "budget": "C compute flops",
    "recipe.beta": "kl kl_coef kl_loss_coef",
    "recipe.epsilon_high": "clip_ratio_high cliprange_high",
    "recipe.learning_rate": "lr",
    "recipe.temperature": "temp",
    "hardware.devices_per_run": "gpus num_gpus devices world_size",
    "generation.tensor_parallel": "tp",
    "task": "dataset env",
    "task.max_completion_tokens": "max_tokens max_new_tokens max_response_length",
    "task.num_eval_problems": "eval_size num_eval",
    "evaluation.temperature": "eval_temperature temperature_eval",
    "task.num_train_problems": "num_problems train_size",
    "launcher": "cluster scheduler",
    "launcher.slurm.mem_gb": "mem",
    "launcher.max_parallel": "gpus",
    "model": "model_name_or_path",
    "tracking.experiment": "project wandb_project",
    "sweeps_dir": "output_dir",
    "sweep": "name sweep_dir from",
}
# Whole words, and what is typed in their place.
_WORDS = {
    r"(?:grid\.)?seeds?=([1-9])": "grid.seeds=[{list}] for {1} seeds, or grid.seeds=[{1}] for seed"
    " {1}",
    r"(?:grid\.)?seeds?=(\d+)": "grid.seeds=[{1}]",
    r"grid\.axes\.([^=]+)=(.*)": "'grid.axes={{{1}:{2}}}'",
    r"sweeps_dir=(.*,.*)": "'sweeps_dir=\"{1}\"'",
    r"sweep=([\w.-]{1,90})": "sweep=my-{1}",
    r"evaluation\.num_problems=(.*)": "task.num_eval_problems={1}",
    # Budgets.
    r"budget=([\d.e+]+?)(?:\.\.|-| to )([\d.e+]+)": "budget=logspace:{1}:{2}:3",
    r"budget=logspace:([^:,]+):([^:,]+)": "budget=logspace:{1}:{2}:3",
    r"budget=10(?:\^|\*\*)(\d+)": "budget=1e{1}",
    r"budget=([\d.e+]+) ?h": "budget={1} budget_unit=device_hours for each cell, or total={1}h for "
    "all of them",
    r"budget=\$?([\d.e+]+) ?(?:\$|usd)": "total={1}usd",
    r"(?:max_|total_)?(?:gpu_|device_)?hours=([\d.e+]+) ?h?": "total={1}h",
    r"total=([\d.e+]+) ?(?:hours|gpu_?h|gpu_?hours|device_?hours)": "total={1}h",
    r"total=\$?([\d.e+]+) ?(?:\$|dollars)?": "total={1}usd",
    r"budget_unit=(?:gpu_?)?hours?": "budget_unit=device_hours",
    # Verbs.
    r"mode=(?:stop|kill|scancel)": "mode=cancel",
    r"mode=(?:show|list|ls|logs|watch)": "mode=status",
    r"mode=(?:plot|report|fit|analyze|export|eval)": "mode=analyse",
    r"mode=train": "mode=run",
    r"mode=start": "mode=launch",
    r"mode=advise": "mode=recommend",
    r"mode=delete": "mode=clean",
    # Fields of TRL's, options of sbatch, and what has another shape here.
    r"(?:recipe\.)?(max_grad_norm|weight_decay|adam_beta[12])=(.*)": "recipe.trl.{1}={2}",
    r"(?:launcher\.slurm\.)?(constraint|exclude|gres|nodelist|mail_type)=(.*)": "launcher.slurm."
    "additional.{1}={2}",
    r"(?:launcher\.slurm\.)?(?:time|walltime)=.*": "launcher.slurm.timeout_min=MINUTES",
    r"(?:generation\.)?(?:vllm_)?gpu_memory_utilization=.*": "hardware.memory_reserve=SHARE, that "
    "vLLM leaves free",
    r"(?:dynamic_sampling|filter_groups)=.*": "recipe.zero_variance=resample recipe.max_draws=10",
    r"lora=(\d+)": "recipe.lora_rank={1}",
    r"(?:save_strategy|save_steps|save_total_limit|keep_checkpoints)=.*": "checkpoint.keep=none, "
    "weights, resumable or all",
    r"evaluation\.top_p=.*": "evaluation.temperature=NUMBER",
    r"early_stopping=.*": "health.stop=[non_finite,collapse]",
    r"(?:max_cost|max_dollars|max_price)=.*": "launcher.max_device_hours=HOURS",
    r"(?:gpus|devices)=\[?(\d+(?:,\d+)+)\]?": "CUDA_VISIBLE_DEVICES={1} in the environment",
    r"task\.(?:path|dataset)=(.+\.(?:jsonl?|parquet))": "task={1}",
    # Choices.
    r"recipe=(?:ppo|reinforce|rloo)": "recipe=grpo",
    r"generation=sglang": "generation=vllm",
    r"hardware=(\d+)x(\w+)": "hardware={2} hardware.devices_per_run={1}",
    r"hardware=gh200": "hardware=h100",
    r"launcher=(?:pbs|lsf|sge)": "launcher=local, in a job of that scheduler",
    r"tracking=wb|wandb=true|report_to=wandb": "tracking=wandb",
    # Files.
    r"(?:launcher\.slurm\.)?(?:container|image)=(.+)": "\"launcher.slurm.python='apptainer exec "
    "--nv {1} python'\"",
    r"(?:reward|reward_funcs)=(?:.*/)?(\w+)\.py": "task=custom task.custom.function={1}:FUNCTION",
    r"task\.custom\.function=(?:.*/)?(\w+)\.py:?": "task.custom.function={1}:FUNCTION",
    r"task\.custom\.function=(?:.*/)?(\w+)\.py:(\w+)": "task.custom.function={1}:{2}",
}


def alias(word: str) -> str:
    """What is typed for `word` (`lr=1e-4`, `mode=stop`); "" where the tables do not have it.

    A group that is typed before a name has to be the group of the setting.
    """
    for pattern, typed in _WORDS.items():
        if match := re.fullmatch(pattern, word):
            count = int(match[1]) if "{list}" in typed else 0
            return typed.format(word, *match.groups(), list=",".join(map(str, range(count))))
    name, _, value = word.partition("=")
    group, _, leaf = name.rpartition(".")
    for setting, names in _NAMES.items():
        if leaf in names.split() and f"{setting}.".startswith(f"{group}." if group else ""):
            plain = re.fullmatch(r"[\w.,:/@%+\[\]-]*", value)
            return f"{setting}={(value if plain else shlex.quote(value)) or 'VALUE'}"
    return ""
