"""What may be meant by an override that Hydra or a setting refuses, as it is typed.

Of several overrides with a remark after a semicolon. Whether they work is tried in `hydra.py`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from isosweep.config.choices import meant
from isosweep.config.values import seed_lists

# What papers and other trainers call our settings; `{}` is the value that was typed.
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("n", "g", "k", "group_size", "num_rollouts", "rollouts", "samples", "num_samples"),
        "grid.num_generations={}",
    ),
    **dict.fromkeys(
        ("b", "batch", "batch_size", "bs", "problems", "prompts", "train_batch_size"),
        "grid.problems_per_batch={}",
    ),
    **dict.fromkeys(
        ("t", "steps", "num_steps", "train_steps", "iterations"),
        "grid.max_steps={}; T follows from budget, n and B",
    ),
    **dict.fromkeys(("c", "compute", "flops", "flop", "budgets"), "budget={}"),
    **dict.fromkeys(("lr", "rate"), "recipe.learning_rate={}"),
    **dict.fromkeys(("kl", "kl_coef", "kl_coeff"), "recipe.beta={}"),
    **dict.fromkeys(("clip", "clip_eps", "clip_range", "eps"), "recipe.epsilon={}"),
    **dict.fromkeys(("warmup", "warmup_ratio"), "recipe.warmup_steps=NUMBER"),
    **dict.fromkeys(("epochs", "num_epochs", "num_train_epochs"), "grid.max_epochs={}"),
    **dict.fromkeys(
        ("max_tokens", "max_new_tokens", "max_length", "max_completion_length", "seq_len"),
        "task.max_completion_tokens={}",
    ),
    **dict.fromkeys(
        ("gpus", "num_gpus", "n_gpus", "ngpus", "devices", "num_devices", "world_size"),
        "hardware.devices_per_run={}; the devices of one run",
    ),
    **dict.fromkeys(("nodes", "num_nodes", "nnodes"), "hardware.nodes_per_run={}"),
    **dict.fromkeys(("parallel", "jobs", "workers", "num_workers"), "launcher.max_parallel={}"),
    **dict.fromkeys(("gpu", "accelerator"), "hardware={}"),
    **dict.fromkeys(("time", "timeout", "time_limit"), "launcher.slurm.timeout_min=MINUTES"),
    **dict.fromkeys(("price",), "hardware.dollars_per_hour={}"),
    **dict.fromkeys(
        ("output", "out", "out_dir", "outdir", "output_dir", "dir", "save_dir", "log_dir"),
        "sweeps_dir={}",
    ),
    **dict.fromkeys(("dataset", "data", "env", "environment"), "task={}"),
    **dict.fromkeys(("algorithm", "algo"), "recipe={}"),
    **dict.fromkeys(("loss",), "recipe.loss_type={}"),
    **dict.fromkeys(("scheduler", "cluster"), "launcher={}"),
    **dict.fromkeys(("logger", "log_to", "report_to", "tracker"), "tracking={}"),
    **dict.fromkeys(("project", "wandb_project"), "tracking.experiment={}"),
    **dict.fromkeys(("preset",), "+experiment=NAME; --help lists them"),
    **dict.fromkeys(
        ("reward", "reward_fn", "reward_func", "reward_funcs", "reward_function"),
        "task=custom task.custom.function=MODULE:FUNCTION; docs/own.md",
    ),
    **dict.fromkeys(("seed", "random_seed"), "grid.seeds=[{}]"),
    **dict.fromkeys(("yes", "force", "y"), "confirm=true"),
    **dict.fromkeys(("json",), "format=json"),
    **dict.fromkeys(("verbose", "debug", "quiet"), "mode=status runs=RUN, which prints its logs"),
    **dict.fromkeys(("sweep",), "sweep_dir={}"),
}
_OF_MODELS = ("model_path", "model_dir", "model_name", "model_name_or_path", "pretrained")
_OF_FILES = ("config", "cfg", "config_file", "yaml")
FILE = (
    "--config-dir DIRECTORY +experiment=NAME; the file is DIRECTORY/experiment/NAME.yaml "
    "(docs/own.md)"
)
_MODES: Mapping[str, str] = {
    **dict.fromkeys(("train", "start", "go", "sweep"), "run"),
    **dict.fromkeys(("report", "plot", "fit", "analyze", "analysis", "results"), "analyse"),
    **dict.fromkeys(("stop", "kill", "abort"), "cancel"),
    **dict.fromkeys(("show", "ps", "info", "progress", "ls", "list", "sweeps"), "status"),
    **dict.fromkeys(("tail", "log", "logs", "output"), "status"),
    **dict.fromkeys(("rm", "delete", "remove", "gc"), "clean"),
    **dict.fromkeys(("continue", "restart", "retry"), "resume"),
    **dict.fromkeys(("mlflow", "ui", "tensorboard"), "dashboard"),
    **dict.fromkeys(("predict", "choose", "best"), "recommend"),
    **dict.fromkeys(("dry_run", "dryrun", "preview", "estimate", "price", "cost"), "plan"),
    **dict.fromkeys(("diff",), "compare"),
}
# A unit that a number was typed with: 1T, 1e20 FLOPs, 10^20.
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "z": 1e21}
_WITH_UNIT = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([kmgtpz]?)")
_POWER = re.compile(r"(?:([\d.]+)\s*[*x]\s*)?10\s*(?:\^|\*\*)\s*(\d+)")
_UNIT = re.compile(
    r"(?P<number>.*?)\s*(?:(?P<flops>flops?)|(?P<rollouts>rollouts?)|(?P<tokens>tokens?)"
    r"|(?P<device_hours>(?:(?:gpu|device)[-_ ]?)?h(?:ours?)?))?"
)
MANY = 4
# Of difflib's ratio, for a setting of any group.
_LEAF = 0.85
# What takes anything, where no choice is like what was typed.
ANYTHING = {
    "model": "model=local model.path=DIRECTORY; for any model on the disk",
    "task": "task=math_file task.math.path=FILE; for any problems in a file",
}


def setting(name: str, value: str, groups: Sequence[str], known: Iterable[str]) -> list[str]:
    """What the unknown setting `name` of `groups` may be called; `known`: dotted names of all."""
    known, plain = list(known), name.casefold().replace("-", "_")
    siblings = {each.rpartition(".")[2]: each for each in known if _group(each) == list(groups)}
    near = meant(name, list(siblings))
    if groups and near:
        return [_typed(siblings[near], value)]
    if plain == "seeds":
        return [seed_lists(value)]
    if plain in _OF_FILES:
        return [FILE]
    if plain in _OF_MODELS:
        return [f"model={value}"]
    shown = _ELSEWHERE.get(plain, "")
    # evaluation.samples is no n.
    if shown and (groups[:1] != ["evaluation"] or shown.startswith("evaluation")):
        return [shown.format(value or "VALUE")]
    leaves = [each for each in known if each.rpartition(".")[2] == plain and "." in each]
    if leaves:
        first = sorted(leaves, key=lambda each: each.split(".")[:1] != list(groups[:1]))
        return [_typed(each, value) for each in first]
    every = {each.rpartition(".")[2]: each for each in reversed(known)}
    likest = [every[leaf] for leaf in get_close_matches(plain, every, 1, _LEAF)]
    likest = [siblings[near], *likest] if near else likest
    return [_typed(each, value) for each in likest]


def _group(name: str) -> list[str]:
    return name.split(".")[:-1]


def _typed(name: str, value: str) -> str:
    if name == "grid.seeds" and value and not value.startswith("["):
        return f"grid.seeds=[{value}]"
    return f"{name}={value}"


def on_disk(value: str) -> str:
    """A model by its directory."""
    return f"model=local model.path={value or 'DIRECTORY'}"


def literal(name: str, value: object, choices: Sequence[str]) -> str:
    """The one of a setting's words that `value` is a slip for, or another word for."""
    word = str(value).casefold().replace("-", "_")
    if name == "mode" and word in ("help", "h", "usage"):
        return "--help"
    other = _MODES.get(word, "") if name == "mode" else ""
    return f"{name}={other}" if other else meant(word, choices, f"{name}={{}}")


def number(value: object) -> str:
    """A number that was typed with a unit or as a power, as a setting takes it: 1e20."""
    text = str(value).casefold().strip()
    if (found := _POWER.fullmatch(text)) is not None:
        return _short(float(found[1] or 1) * 10.0 ** int(found[2]))
    if (found := _WITH_UNIT.fullmatch(text)) is not None:
        return _short(float(found[1]) * _FACTORS[found[2]])
    return ""


def budget(values: Sequence[object]) -> str:
    """Budgets that were typed with a unit or as powers, as they are typed: budget=[1e20,2e20]."""
    first, dots, last = str(values[0]).partition("..") if len(values) == 1 else ("", "", "")
    if dots and number(first) and number(last):
        return f"budget=logspace:{number(first)}:{number(last)}:3"
    found = [_UNIT.fullmatch(str(value).casefold().strip()) for value in values]
    numbers = [number(each["number"]) for each in found if each]
    units = {str(each.lastgroup) for each in found if each} - {"number"}
    if not numbers or not all(each and float(each) > 0 for each in numbers) or len(units) > 1:
        return ""
    listed = numbers[0] if len(numbers) == 1 else f"[{','.join(numbers)}]"
    return " ".join([f"budget={listed}", *(f"budget_unit={unit}" for unit in units)])


def _short(value: float) -> str:
    return f"{value:g}".replace("e+", "e")


def override(index: int, words: Sequence[str], modes: Sequence[str]) -> str:
    """What the word at `index` of a command, which Hydra cannot read, may mean there."""
    word = words[index]
    before = words[index - 1] if index else ""
    name, equals, value = word.partition("=")
    if words[index + 1 : index + 2] == ["="]:
        return f"{word}={''.join(words[index + 2 : index + 3])}; without spaces"
    if value.startswith("(") and value.endswith(")"):
        return f"{name}=[{value[1:-1]}]"
    if value.startswith("[") and "]" not in value:
        listed = [value[1:], *_until_closed(words[index + 1 :])]
        return f"{name}=[{_joined(listed)}]"
    if equals:
        return ""
    if before.count("=") == 1 and number(word):
        first, _, one = before.partition("=")
        return f"{first}=[{_joined([one, *_numbers(words[index:])])}]"
    if before.startswith("budget=") and (meant_by := budget([f"{before[7:]} {word}"])):
        return meant_by
    if word.startswith("mode:"):
        return word.replace(":", "=", 1)
    return FILE if word.endswith((".yaml", ".yml")) else literal("mode", word, modes)


def _until_closed(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if "=" in word:
            return
        yield word.rstrip("]")
        if word.endswith("]"):
            return


def _numbers(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if not number(word):
            return
        yield word


def _joined(words: Iterable[str]) -> str:
    return ",".join(filter(None, (word.strip(", ") for word in words)))
