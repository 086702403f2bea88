"""Where Hydra ends: what was typed becomes frozen, validated settings.

Nothing behind this module imports Hydra or OmegaConf, but `changes.py`, for what a report shows.
"""

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from isosweep.config.axes import Combination, combine, flattened
from isosweep.config.base import (
    AXIS_GROUPS,
    NO_SUCH,
    SLIP,
    Settings,
    group_in,
    meant,
    replaced,
    seed_lists,
    settings_in,
    typed_name,
)
from isosweep.config.evaluation import find_data_of_sets
from isosweep.config.model import read_model
from isosweep.config.overrides import quoted, shell_quoted, typed
from isosweep.config.recipe import own_loss
from isosweep.config.sweep import Mode, SweepConfig, sweep_config
from isosweep.config.task import KINDS, TaskConfig, find_data
from isosweep.config.trust import add_command
from isosweep.errors import SettingError

_PARSER = OverridesParser.create()
# A choice that brings settings of these brings what is the sweep's own.
_BROUGHT = ("task", "recipe", "evaluation", "generation", "grid")
# Takes its numbers from `model.path`, of which there is one.
_NOT_A_CHOICE = "local"
# A name as it is typed, with the signs that Hydra has before one.
_TYPED = re.compile(r"(?P<sign>[+~]{0,2})(?P<name>[^=]+)=?(?P<value>.*)", re.DOTALL)
# What a model or a data set is called elsewhere.
_SOURCE = re.compile(r"^ *(?:source|dataset): (\S+)", re.MULTILINE)
# Hydra's messages for a name without a place, and for a value with two meanings.
_NO_PLACE = re.compile(
    r"(?:Could not (?:override|delete from config\.) '|Error merging override )([^'=]+)"
)
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent.parent / "conf"


def choices_of(conf: Path, group: str) -> list[str]:
    """The choices of one group of the directory `conf`, without what others are built on."""
    found = sorted((conf / group).rglob("*.yaml"))
    paths = [path.relative_to(conf / group).with_suffix("") for path in found]
    # Templates of jobs lie beside the launchers.
    return [p.as_posix() for p in paths if p.parts[0] != "files" and not p.name.startswith("_")]


# What Hydra raises where settings do not compose, of its own and of those below it.
UNCOMPOSED = (HydraException, OmegaConfBaseException, YAMLError)


def readable(override: str) -> str:
    """The override as Hydra takes it: in quotes what its grammar has no place for, such as the
    signs of a path (~/sweeps, /scratch/run#1), and a group's choice or a sweep's name that is no
    text (recipe=3, sweep=1e3).

    Commas separate values, as ever.
    """
    if override.startswith(("recipe.trl.", "recipe.trl=")):
        # Fields of TRL's, which no file has to have.
        override = f"++{override}"
    name, equals, value = override.partition("=")
    listed = value.startswith("[") and value.endswith("]")
    parts = (value[1:-1] if listed else value).split(",")
    # What begins so is closed, or a mistake.
    if not equals or any(re.match(r"[\[({'\"]|\w+\(", part) for part in parts):
        return override
    texts: Any = (str, list, dict) if _is_group(name) else object
    if name == "sweep":
        texts = str | None

    def taken(part: str) -> bool:
        parsed = _parsed(f"{name}={part}")
        return parsed is not None and isinstance(parsed.value(), texts)

    plain = ",".join(part if taken(part) else quoted(part) for part in parts)
    again = f"{name}=[{plain}]" if listed else f"{name}={plain}"
    return again if _parsed(again) else override


def _is_group(name: str) -> bool:
    return (config_directory() / name.lstrip("+~").partition("@")[0]).is_dir()


def _parsed(override: str) -> Override | None:
    """The override, None where Hydra's grammar has no place for it."""
    try:
        return _PARSER.parse_overrides([override])[0]
    except OverrideParseException:
        return None


def require_public(overrides: Sequence[str]) -> None:
    """Raise SettingError for a choice that only other files are built on: `model=_llm`; for a list
    of choices, of which Hydra composes all and the last one counts; and for a `sweeps_dir` of
    several, where Hydra's own file of a multirun would lie in none of them."""
    for text in overrides:
        match, parsed = _TYPED.fullmatch(text), _parsed(text)
        if match is None or parsed is None:
            continue
        group, choice = match["name"], match["value"]
        if group == "sweeps_dir" and parsed.is_sweep_override():
            rule = "is one directory, which holds all sweeps of a multirun"
            values = getattr(parsed.value(), "list", [choice])
            names = [str(getattr(value, "text", value)) for value in values]
            ways = [typed(names[0]), quoted(",".join(names))]
            nearest = ", or ".join(shell_quoted(f"{group}={way}") for way in ways)
            raise SettingError(group, ",".join(names), rule, nearest)
        named, _, setting = group.partition(".")
        chosen = f"{named}={choice}"
        labelled = setting == "name" and choice in choices_of(config_directory(), named)
        if labelled and chosen not in overrides:
            rule = f"is a label, and changes nothing else; {named} is chosen without .name"
            raise SettingError(group, choice, rule, chosen)
        if not _is_group(group):
            continue
        swept = parsed.value()
        values = swept.list if isinstance(swept, ChoiceSweep) else [swept]
        if several := [value for value in values if isinstance(value, list) and len(value) != 1]:
            rule = "takes one choice; of a list, only the last would be trained"
            choices = ",".join(map(str, several[0]))
            nearest = _compared(match["sign"] + group, choices) if choices else ""
            raise SettingError(match["sign"] + group, choice, rule, nearest)
        if choice.startswith("_") and (config_directory() / group / f"{choice}.yaml").is_file():
            known = ", ".join(choices_of(config_directory(), group))
            rule = f"is only a part of other choices: {known}"
            raise SettingError(match["sign"] + group, choice, rule)


def from_hydra(composed: DictConfig, overrides: Sequence[str] = ()) -> SweepConfig:
    """The validated config of a composed Hydra config; `overrides`: what was typed for it.

    With `model.path`, the architecture is read from its config.json. Raises SettingError
    for an unknown key, a missing one, a value of the wrong type, or a broken rule.
    """
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise SettingError(str(error.full_key), "???", "has to be given") from None
    plain["importing"] = plain.pop("import")
    plain["given"] = [each.key_or_group for each in _PARSER.parse_overrides(list(overrides))]
    read_model(plain["model"])
    combinations = _combinations(plain["grid"]["axes"])
    if any("model.path" in each.settings for each in combinations):
        plain["model"]["directory"] = str(Path.cwd())
    find_data(plain["task"])
    find_data_of_sets(plain["evaluation"])
    composed_choices = _composed_choices(plain, overrides, combinations)
    plain["grid"]["composed"] = composed_choices or None
    config = sweep_config(plain)
    # The loss of the sweep, and those that variants have in its place.
    settings = [*(c.settings for c in combinations), *(c["settings"] for c in composed_choices)]
    losses = [config.recipe.loss_type, *(flattened(s).get("recipe.loss_type") for s in settings)]
    own = {name: own_loss(name) for name in losses if isinstance(name, str)}
    sources = {name: loss.source_sha256() for name, loss in own.items() if loss is not None}
    return replaced(config, loss_sources=sources) if sources else config


def _combinations(axes: Any) -> tuple[Combination, ...]:
    """What the axes come to; of what is no group of axes nothing, which is refused as a value."""
    named = isinstance(axes, dict) and all(isinstance(name, str) for name in axes)
    return combine(axes) if named else ()


def _composed_choices(
    plain: Mapping[str, Any], overrides: Sequence[str], combinations: Sequence[Combination]
) -> list[dict[str, Any]]:
    """What every choice of config groups among the combinations sets.

    Composed with `overrides`, what was typed, so that it holds for every choice; of another model
    its own settings only, not the task and recipe it is usually run with. Raises SettingError for a
    choice that there is none of, or that cannot be composed.
    """
    entries: list[dict[str, Any]] = []
    for choices in (combination.choices for combination in combinations):
        if choices and all(entry["choices"] != choices for entry in entries):
            # Hydra as the command line has started it, or over the packaged files.
            with nullcontext() if GlobalHydra.instance().is_initialized() else packaged():
                settings = _settings(plain, overrides, choices)
            entries.append({"choices": choices, "settings": settings})
    return entries


def _settings(
    plain: Mapping[str, Any], overrides: Sequence[str], choices: Mapping[str, str]
) -> dict[str, Any]:
    """Groups that are chosen, whole, and what differs in others, by dotted name."""
    for group, choice in choices.items():
        options = GlobalHydra.instance().config_loader().get_group_options(group)
        known = [o for o in options if not o.startswith("_") and o != _NOT_A_CHOICE]
        if choice not in known:
            axes = typed(plain["grid"]["axes"]).replace(choice, meant(choice, known))
            nearest = shell_quoted(f"grid.axes={axes}") if meant(choice, known) else ""
            rule = f"must be one of {', '.join(known)}"
            raise SettingError(f"grid.axes.{group}", choice, rule, nearest)
    settings: dict[str, Any] = {}
    others = {group: choice for group, choice in choices.items() if group != "model"}
    if "model" in choices:
        of_model = [text for text in overrides if _key(text).startswith("model.")]
        composed = _composed(of_model, {"model": choices["model"]})
        read_model(composed["model"])
        settings["model"] = composed["model"]
    if others:
        # The model as typed: it may bring a choice of its own for what is chosen here.
        composed = _composed(overrides, others)
        find_data(composed["task"])
        find_data_of_sets(composed["evaluation"])
        for group in _BROUGHT:
            if group in others:
                settings[group] = composed[group]
            else:
                settings |= dict(_changes(plain[group], composed[group], group))
    for name in ("grid.axes", "grid.composed", "grid.seeds"):
        settings.pop(name, None)
    return settings


def _composed(overrides: Sequence[str], choices: Mapping[str, str]) -> dict[str, Any]:
    """The plain config of `overrides`, with these choices in the place of theirs."""
    kept = [text for text in overrides if _key(text) not in choices]
    chosen = [f"{group}={choice}" for group, choice in choices.items()]
    name = HydraConfig.get().job.config_name if HydraConfig.initialized() else "config"
    try:
        composed = compose(name, overrides=[*kept, *chosen])
        plain: Any = OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        (group, choice), *_ = choices.items()
        rule = f"cannot be combined with the other overrides ({str(error).splitlines()[0]})"
        raise SettingError(f"grid.axes.{group}", choice, rule) from None
    return dict(plain)


def _key(override: str) -> str:
    return _PARSER.parse_override(override).key_or_group


def _changes(old: Any, new: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Leaves of `new` that `old` has otherwise or not at all, by dotted name."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            yield from _changes(old.get(key), value, f"{name}.{key}")
    elif old != new:
        yield name, new


def config_of(overrides: Sequence[str]) -> SweepConfig:
    """The validated config of `overrides`, composed by Hydra without a command line.

    Raises SettingError as `from_hydra` does, and for what Hydra refuses.
    """
    config = _config_of([*map(readable, overrides)])
    add_command(config)
    return config


def _config_of(overrides: Sequence[str]) -> SweepConfig:
    require_public(overrides)
    try:
        with packaged():
            return from_hydra(compose("config", overrides=list(overrides)), overrides)
    except UNCOMPOSED as error:
        raise refusal(error, overrides) from None


@contextmanager
def packaged() -> Iterator[None]:
    """Hydra over the packaged files, whatever else this process composes with Hydra: a notebook may
    have started it for an application of its own."""
    own = GlobalHydra.instance()
    others = own.hydra
    own.clear()
    try:
        with initialize_config_dir(str(config_directory()), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = others


def refusal(error: Exception, overrides: Sequence[str]) -> SettingError:
    """What Hydra refuses of `overrides`, as an error of the setting or of the file."""
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return SettingError("file", mark.name, f"is no YAML: {error.problem}, line {mark.line + 1}")
    given = {match["name"]: match for match in map(_TYPED.fullmatch, overrides) if match}
    if isinstance(error, OverrideParseException):
        return _unread(error.override)
    if isinstance(error, MissingConfigException) and error.options:
        # A choice may lie in a folder of its group, where Hydra lists none: study/smollm2.
        group, _, choice = str(error.missing_cfg_file).partition("/")
        options = sorted({*error.options, *choices_of(config_directory(), group)})
        sign = given[group]["sign"] if group in given else ""
        options = [option for option in options if not option.startswith("_")]
        likely = nearest_choices(group, choice, options, _sources(group, options))
        rule = f"must be one of {', '.join(options)}"
        nearest = ", or ".join(sign + each for each in likely)
        return SettingError(f"{sign}{group}", choice, rule, nearest)
    if isinstance(error, MissingConfigException):
        rule = "is no file of isosweep's; a file of yours is an experiment"
        return SettingError("options", f"--config-name {error.missing_cfg_file}", rule, FILE)
    words = " ".join(str(error).split())
    if match := _NO_PLACE.match(words):
        return _without_place(match[1], error, overrides)
    if match := _AMBIGUOUS.match(words):
        name, _, value = match[1].partition("=")
        rule = "several values are a list in brackets, or with -m on the command line a sweep each"
        known = [*setting_names()]
        nearest = name if name in known or _is_group(name) else nearest_setting(name, known)
        return SettingError(name, value, rule, nearest and _compared(nearest, value.strip(",")))
    return SettingError("overrides", shlex.join(overrides), words)


def _sources(group: str, options: Sequence[str]) -> dict[str, str]:
    """The first option of each model or data set that the group's files name, in lower case."""
    sources: dict[str, str] = {}
    for option in options:
        path = config_directory() / group / f"{option}.yaml"
        for source in _SOURCE.findall(path.read_text(encoding="utf-8")) if path.is_file() else ():
            sources.setdefault(source.casefold(), option)
    return sources


def _without_place(typed_name: str, error: Exception, overrides: Sequence[str]) -> SettingError:
    """The refusal of an override of a name that the config has no place for."""
    given = {match["name"]: match for match in map(_TYPED.fullmatch, overrides) if match}
    sign, value = given[typed_name].group("sign", "value") if typed_name in given else ("", "")
    shown = f"{sign}{typed_name}"
    *groups, name = typed_name.split(".")
    if groups[:2] == ["grid", "axes"]:
        axis = f"grid.axes={{{typed_name.removeprefix('grid.axes.')}:{value}}}"
        return SettingError(shown, value, "is part of one setting, grid.axes", shell_quoted(axis))
    if groups[1:] and groups[1] not in settings_in(SweepConfig, groups[:1]):
        groups, name = groups[:1], groups[1]
    known = settings_in(SweepConfig, groups)
    if name in known:
        reason = " ".join(str(error.__cause__ or error).split("\n")[:1])
        # Of a choice that brings the setting: trainer=command trainer.command=...
        group, choice = [*groups, name, name][:2]
        brought = choice in choices_of(config_directory(), group)
        nearest = f"{group}={choice} {shell_quoted(f'{typed_name}={value}')}" if brought else ""
        return SettingError(shown, value, f"cannot be set so: {reason}", nearest)
    if _is_group(name):
        return SettingError(name, value, "is chosen beside the defaults", f"+{name}={value}")
    nearest = nearest_setting(typed_name, [*setting_names()])
    if nearest == "grid.seeds" and not value.startswith("["):
        nearest = seed_lists(value)
    elif _is_group(nearest):
        options = choices_of(config_directory(), nearest)
        likely = nearest_choices(nearest, value, options, _sources(nearest, options))
        nearest = ", or ".join(likely)
    elif nearest:
        nearest = f"{nearest}={shell_quoted(value) or 'VALUE'}"
    rule = "no such setting" if nearest else NO_SUCH
    if groups and not nearest:
        rule = f"no such setting; here are {', '.join(known)}"
    return SettingError(shown, value, rule, nearest)


def _compared(name: str, values: str) -> str:
    """How several `values` of a setting or group are compared: as axis, in a list, or by -m."""
    group = name.lstrip("+").partition(".")[0]
    if group in AXIS_GROUPS:
        axis = shell_quoted(f"grid.axes={{{name.lstrip('+')}:[{values}]}}")
        # A model brings the hardware and grid that others are compared on.
        return f"model={values.partition(',')[0]} {axis}" if name == "model" else axis
    ways = [] if _is_group(name) else [f"{name}=[{values}]"]
    # Sweeps that differ in these alone are one and the same.
    alike = ("name", "hardware", "launcher", "tracking", "analysis", "checkpoint", "health")
    swept = group not in (*alike, "difficulty", "sweeps_dir")
    return ", or ".join([*ways, *([f"-m {name}={values}"] if swept else [])])


def _unread(word: str) -> SettingError:
    """The refusal of a word of the command that is no override."""
    name, given, value = word.partition("=")
    if given:
        rule = "cannot be read: brackets and quotes are closed, and text with signs has quotes"
        return SettingError(name, value, rule)
    rule = "is not SETTING=VALUE; a value with spaces has quotes"
    nearest = FILE if word.endswith(".yaml") else meant(word, get_args(Mode), "mode={}")
    return SettingError("overrides", word, rule, nearest)


def setting_names() -> Iterator[str]:
    """Dotted names of all settings, and of the groups that hold them."""
    with packaged():
        plain: Any = OmegaConf.to_container(compose("config"))
    yield from dict.fromkeys(name.split(".")[0] for name in flattened(plain))
    yield from flattened(plain)


# Filled in when the settings are read, or brought by a choice: not there to be typed.
_NOT_DECLARED = (
    *("given", "loss_sources", "task", "model.directory", "model.converted", "model.architecture"),
    *("task.selection_sha256", *(f"task.{kind}" for kind in KINDS)),
)


def _declared(kind: type[Settings], group: str = "") -> dict[str, Any]:
    """Defaults that the fields of a settings class declare: what no file of `conf/` has to repeat.

    An empty dictionary is null: Hydra would refuse names that are not in it already.
    """
    known: dict[str, Any] = {}
    for field, item in kind.model_fields.items():
        name = f"{group}.{field}".lstrip(".")
        if name in _NOT_DECLARED:
            continue
        if isinstance(item.annotation, type) and issubclass(item.annotation, Settings):
            known[typed_name(field)] = _declared(item.annotation, name)
        elif not item.is_required() and (item.default_factory is None or group != "trainer"):
            # Without trainer=command nothing reads a command: only that choice has one.
            value = item.get_default(call_default_factory=True)
            value = list(value) if isinstance(value, tuple) else value
            known[typed_name(field)] = None if value == {} else value
    return known


def declared_nodes() -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """Group, name and values of what files of `conf/` are based on: all that is declared, and each
    kind of task."""
    yield None, "declared_defaults", _declared(SweepConfig)
    task = _declared(TaskConfig, "task")
    for name in KINDS:
        inner = group_in(TaskConfig.model_fields[name])
        assert inner is not None
        yield "task", f"_{name}", {**task, "kind": name, name: _declared(inner)}


for _group, _name, _node in declared_nodes():
    ConfigStore.instance().store(group=_group, name=_name, node=_node)


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
    slip = difflib.get_close_matches(word, names, n=1, cutoff=SLIP if group != "hardware" else 1)
    likest = [*dict.fromkeys(holding)][:3] or [names[name] for name in slip]
    return [f"{group}={each}" for each in likest] or [*filter(None, [_ANY.get(group)])]
