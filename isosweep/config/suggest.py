"""What was most likely meant by an override that Hydra or a setting refuses, as it is typed.

A guess is text for `SettingError.nearest`; "" where there is none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        "hardware.devices_per_run={}, the devices of one run",
    ),
    **dict.fromkeys(
        ("nodes", "num_nodes", "nnodes"), "launcher=slurm, whose jobs take one node a run"
    ),
    **dict.fromkeys(("parallel", "jobs", "workers", "num_workers"), "launcher.max_parallel={}"),
    **dict.fromkeys(("gpu", "accelerator"), "hardware={}"),
    **dict.fromkeys(("time", "timeout", "time_limit"), "launcher.slurm.timeout_min=MINUTES"),
    **dict.fromkeys(("price", "cost", "dollars"), "hardware.dollars_per_hour={}"),
    **dict.fromkeys(
        ("output", "out", "out_dir", "outdir", "output_dir", "dir", "save_dir", "log_dir"),
        "sweeps_dir={}",
    ),
    **dict.fromkeys(("dataset", "data", "env", "environment"), "task={}"),
    **dict.fromkeys(("algorithm", "algo", "method"), "recipe={}"),
    **dict.fromkeys(("loss",), "recipe.loss_type={}"),
    **dict.fromkeys(("scheduler", "cluster"), "launcher={}"),
    **dict.fromkeys(("logger", "log_to", "report_to", "tracker"), "tracking={}"),
    **dict.fromkeys(("project", "wandb_project"), "tracking.experiment={}"),
    **dict.fromkeys(("config", "cfg", "preset"), "+experiment=NAME, which --help lists"),
    **dict.fromkeys(("seed", "random_seed"), "grid.seeds=[{}]"),
    **dict.fromkeys(("yes", "force", "y"), "confirm=true"),
    **dict.fromkeys(("json",), "format=json"),
    **dict.fromkeys(("verbose", "debug", "quiet"), "mode=logs, which prints a run's own output"),
    **dict.fromkeys(("sweep",), "sweep_dir={}"),
}
_OF_MODELS = ("model_path", "model_dir", "model_name_or_path", "pretrained")
_MODES: Mapping[str, str] = {
    **dict.fromkeys(("train", "start", "go", "sweep"), "run"),
    **dict.fromkeys(("report", "plot", "fit", "analyze", "analysis", "results"), "analyse"),
    **dict.fromkeys(("stop", "kill", "abort"), "cancel"),
    **dict.fromkeys(("show", "ps", "info", "progress"), "status"),
    **dict.fromkeys(("ls", "sweeps"), "list"),
    **dict.fromkeys(("tail", "log", "output"), "logs"),
    **dict.fromkeys(("rm", "delete", "remove", "gc"), "clean"),
    **dict.fromkeys(("continue", "restart", "retry"), "resume"),
    **dict.fromkeys(("mlflow", "ui", "tensorboard"), "dashboard"),
    **dict.fromkeys(("predict", "choose", "best"), "recommend"),
    **dict.fromkeys(("dry_run", "dryrun", "preview", "estimate", "price", "cost"), "plan"),
    **dict.fromkeys(("diff",), "compare"),
    **dict.fromkeys(("power",), "simulate"),
}
# A unit that a number was typed with: 1T, 1e20 FLOPs, 10^20.
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "z": 1e21}
_WITH_UNIT = re.compile(r"([\d.]+(?:e[+-]?\d+)?)\s*([kmgtpez]?)\s*(?:flops?|rollouts?|tokens?)?")
_POWER = re.compile(r"(?:([\d.]+)\s*[*x]\s*)?10\s*(?:\^|\*\*)\s*(\d+)")
MANY = 4
# What takes anything, where no choice is like what was typed.
ANYTHING = {
    "model": "model=local model.path=DIRECTORY, for any model on the disk",
    "task": "task=math_file task.math.path=FILE, for any problems in a file",
}


def setting(name: str, value: str, groups: Sequence[str], known: Iterable[str]) -> str:
    """What the unknown setting `name` of `groups` is called; `known`: dotted names of all."""
    known, plain = list(known), name.casefold().replace("-", "_")
    siblings = {each.rpartition(".")[2]: each for each in known if _group(each) == list(groups)}
    near = meant(name, list(siblings))
    if groups and near:
        return _typed(siblings[near], value)
    if plain == "seeds":
        return seed_lists(value)
    if plain in _OF_MODELS:
        return on_disk(value)
    if shown := _ELSEWHERE.get(plain):
        return shown.format(value or "VALUE")
    leaves = [each for each in known if each.rpartition(".")[2] == plain and "." in each]
    if leaves:
        first = sorted(leaves, key=lambda each: each.split(".")[:1] != list(groups[:1]))
        return ", ".join(_typed(each, value) for each in first[:MANY])
    if near:
        return _typed(siblings[near], value)
    every = {each.rpartition(".")[2]: each for each in reversed(known)}
    return _typed(every[near], value) if (near := meant(plain, list(every))) else ""


def _group(name: str) -> list[str]:
    return name.split(".")[:-1]


def _typed(name: str, value: str) -> str:
    if name == "grid.seeds" and value and not value.startswith("["):
        return f"grid.seeds=[{value}]"
    return f"{name}={value}" if value else name


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


def _short(value: float) -> str:
    return f"{value:g}".replace("e+", "e")


def override(index: int, words: Sequence[str], modes: Sequence[str]) -> str:
    """What the word at `index` of a command, which Hydra cannot read, may mean there."""
    word = words[index]
    before = words[index - 1] if index else ""
    name, equals, value = word.partition("=")
    if words[index + 1 : index + 2] == ["="]:
        return f"{word}={''.join(words[index + 2 : index + 3])}, without spaces"
    if value.startswith("[") and "]" not in value:
        listed = [value[1:], *_until_closed(words[index + 1 :])]
        return f"{name}=[{_joined(listed)}]"
    if equals:
        typed = number(value)
        return f"{name}={typed}" if typed else ""
    if before.count("=") == 1 and number(word):
        first, _, one = before.partition("=")
        return f"{first}=[{_joined([one, *_numbers(words[index:])])}]"
    if ":" in word and word.partition(":")[0] == "mode":
        return word.replace(":", "=", 1)
    if before.startswith("budget=") and (unit := word.casefold()) in (
        "flops",
        "rollouts",
        "tokens",
    ):
        return f"{before} budget_unit={unit}"
    return literal("mode", word, modes)


def _until_closed(words: Sequence[str]) -> Iterator[str]:
    for word in words:
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


def option(words: Sequence[str], known: Iterable[str], modes: Sequence[str]) -> str:
    """What a word with dashes before it, as other programs take options, is called here."""
    place = next((i for i, word in enumerate(words) if word.startswith("-")), None)
    if place is None:
        return ""
    name, equals, value = words[place].lstrip("-").partition("=")
    name = name.replace("-", "_")
    if not equals and words[place + 1 :] and not words[place + 1].startswith("-"):
        value = "" if "=" in words[place + 1] else words[place + 1]
    if name in modes or (not value and name in _MODES):
        return literal("mode", name, modes)
    known = list(known)
    if name in known:
        return f"{name}={value or 'true' if name in ('dry_run', 'confirm') else value or 'VALUE'}"
    return setting(name, value, (), known)
