"""The choice or setting nearest to a name that there is none of."""

import difflib
from collections.abc import Mapping, Sequence

from isosweep.errors import SettingError

# Of difflib's ratio: below the first nothing is alike, and above the second it is a slip.
_ALIKE, _SLIP = 0.5, 0.75
# What papers and other trainers call our settings.
_ELSEWHERE = {
    **dict.fromkeys(("n", "G", "group_size", "rollouts"), "grid.num_generations"),
    **dict.fromkeys(("B", "batch_size", "train_batch_size"), "grid.problems_per_batch"),
    **dict.fromkeys(("seed",), "grid.seeds"),
    **dict.fromkeys(("T", "steps", "num_steps"), "grid.max_steps"),
    **dict.fromkeys(("C", "compute", "flops"), "budget"),
    **dict.fromkeys(("lr",), "recipe.learning_rate"),
    **dict.fromkeys(("kl", "kl_coef"), "recipe.beta"),
    **dict.fromkeys(("gpus", "devices", "world_size"), "hardware.devices_per_run"),
    **dict.fromkeys(("dataset", "env"), "task"),
    **dict.fromkeys(("model_name_or_path",), "model"),
    **dict.fromkeys(("cluster", "scheduler"), "launcher"),
    **dict.fromkeys(("project",), "tracking.experiment"),
    **dict.fromkeys(("output_dir",), "sweeps_dir"),
    **dict.fromkeys(("reward", "reward_funcs"), "task=custom task.custom.function"),
    **dict.fromkeys(("evaluation.num_problems", "eval_size"), "task.num_eval_problems"),
    **dict.fromkeys(("num_problems", "train_size"), "task.num_train_problems"),
}
# What takes any model of a disk, and any problems.
_ANY = {
    "model": "model=local model.path=DIRECTORY",
    "task": "task=math_file task.math.path=FILE",
}
# How a file of settings is used.
FILE = (
    "--config-dir DIRECTORY +experiment=NAME; the file is DIRECTORY/experiment/NAME.yaml "
    "(docs/own.md)"
)


def close(word: str, choices: Sequence[str], most: int) -> list[str]:
    """At most `most` of `choices`: those that look most like `word` or begin with it, the likest
    first, or the first ones where none does."""
    written = {choice.casefold(): choice for choice in choices}
    word = word.casefold()
    begun = [each for each in written if word and each.startswith(word)]
    likest = [
        *difflib.get_close_matches(word, written, n=most, cutoff=_ALIKE),
        *difflib.get_close_matches(word, begun, n=most, cutoff=0.0),
    ]
    return [written[each] for each in dict.fromkeys(likest)][:most] or list(choices[:most])


def meant(word: str, choices: Sequence[str], shown: str = "{}") -> str:
    """The one of `choices` that `word` is most likely a slip for, as `shown`; "" if none is."""
    written = {choice.casefold(): choice for choice in reversed(choices)}
    # Letters that have changed places are the slip that difflib rates too low.
    swapped = [each for each in written if sorted(each) == sorted(word.casefold())]
    likest = swapped or difflib.get_close_matches(word.casefold(), written, n=1, cutoff=_SLIP)
    return shown.format(written[likest[0]]) if likest else ""


def one_of(setting: str, value: str, choices: Sequence[str]) -> None:
    """Raise SettingError unless `value` is among `choices`, which are only known while running."""
    if value not in choices:
        rule = f"must be one of {', '.join(choices)}"
        raise SettingError(setting, value, rule, meant(value, choices, f"{setting}={{}}"))


def nearest_setting(name: str, names: Sequence[str]) -> str:
    """The one of the dotted `names` nearest to `name`: of the same last word, or spelled alike in
    the group that was typed, if one was; "" if none is."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    group, _, leaf = name.rpartition(".")
    elsewhere = _ELSEWHERE.get(leaf, "")
    if elsewhere.startswith(f"{group}."):
        return elsewhere
    leaves = {each.rpartition(".")[2]: each for each in reversed(names)}
    near = [each for each in names if each.startswith(f"{group.partition('.')[0]}.")]
    typed = {each.rpartition(".")[2]: each for each in near if group}
    if found := meant(leaf, [*(typed or leaves)]):
        return (typed or leaves)[found]
    return leaves.get(leaf, "")


def nearest_choices(
    group: str, given: str, options: Sequence[str], sources: Mapping[str, str]
) -> list[str]:
    """At most three of a group's `options`, as they are typed: those whose name or source is like
    `given` or holds it; else what takes any model or task.

    sources: the option that each model or data set on a hub is, by its name in lower case.
    """
    word = given.casefold()
    names = {**sources, **{option: option for option in options}}
    holding = [names[name] for name in names if len(word) > 2 and word in name]
    # Another device is no slip.
    slip = difflib.get_close_matches(word, names, n=1, cutoff=_SLIP if group != "hardware" else 1)
    likest = [*dict.fromkeys(holding)][:3] or [names[name] for name in slip]
    return [f"{group}={each}" for each in likest] or [*filter(None, [_ANY.get(group)])]
