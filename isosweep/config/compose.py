"""Where Hydra ends: what was typed becomes frozen, validated settings.

Nothing behind this module imports Hydra or OmegaConf, but `changes.py`, for what a report shows.
"""

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

from isosweep.config.axes import Combination, combine
from isosweep.config.base import (
    AXIS_GROUPS,
    NO_SUCH,
    SLIP,
    Settings,
    flattened,
    group_in,
    meant,
    seed_lists,
    settings_in,
    typed_name,
)
from isosweep.config.evaluation import find_data_of_sets
from isosweep.config.model import may_be_cached, read_model
from isosweep.config.overrides import quoted, shell_quoted, typed
from isosweep.config.recipe import own_loss
from isosweep.config.sweep import Mode, SweepConfig, sweep_config
from isosweep.config.task import KINDS, TaskConfig, find_data
from isosweep.config.trust import add_command
from isosweep.errors import SettingError

_PARSER = OverridesParser.create()
# What Hydra raises where settings do not compose, of its own and of those below it.
UNCOMPOSED = (HydraException, OmegaConfBaseException, YAMLError)
# A name as it is typed, with the signs that Hydra has before one.
_TYPED = re.compile(r"(?P<sign>[+~]{0,2})(?P<name>[^=]+)=?(?P<value>.*)", re.DOTALL)
# What a model or a data set is called elsewhere.
_SOURCE = re.compile(r"^ *(?:source|dataset): (\S+)", re.MULTILINE)
# Hydra's messages for a name without a place, and for a value with two meanings.
_NO_PLACE = re.compile(
    r"(?:Could not (?:override|delete from config\.) '|Error merging override )([^'=]+)"
)
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")
# What papers and other trainers call our settings.
_ELSEWHERE = {
    **dict.fromkeys(("n", "G", "group_size", "rollouts"), "grid.num_generations"),
    **dict.fromkeys(("B", "batch_size", "train_batch_size"), "grid.problems_per_batch"),
    **dict.fromkeys(("T", "num_steps"), "steps"),
    **dict.fromkeys(("C", "compute", "flops"), "budget"),
    **dict.fromkeys(("kl", "kl_coef"), "recipe.beta"),
    **dict.fromkeys(("gpus", "devices", "world_size"), "hardware.devices_per_run"),
    **dict.fromkeys(("dataset", "env"), "task"),
    **dict.fromkeys(("cluster", "scheduler"), "launcher"),
    **dict.fromkeys(("reward", "reward_funcs"), "task=custom task.custom.function"),
    **dict.fromkeys(("container", "image"), "launcher.slurm.python"),
    **{"seed": "grid.seeds", "lr": "recipe.learning_rate", "model_name_or_path": "model"},
    **{"project": "tracking.experiment", "output_dir": "sweeps_dir"},
    **dict.fromkeys(("name", "sweep_dir", "from"), "sweep"),
    **dict.fromkeys(("mem", "launcher.slurm.mem"), "launcher.slurm.mem_gb"),
    **{"evaluation.num_problems": "task.num_eval_problems", "eval_size": "task.num_eval_problems"},
    **{"num_problems": "task.num_train_problems", "train_size": "task.num_train_problems"},
}
# What takes any model of a disk, and any problems.
_ANY = {
    "model": "model=local model.path=DIRECTORY",
    "task": "task=math_file task.math.path=FILE",
}
# How a directory of groups of one's own is used.
FILE = (
    "--config-dir DIRECTORY +experiment=NAME; the file is DIRECTORY/experiment/NAME.yaml "
    "(docs/own.md)"
)


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent.parent / "conf"


def choices_of(conf: Path, group: str) -> list[str]:
    """The choices of one group of the directory `conf`, without what others are built on."""
    found = sorted((conf / group).rglob("*.yaml"))
    paths = [path.relative_to(conf / group).with_suffix("") for path in found]
    return [path.as_posix() for path in paths if not path.name.startswith("_")]


# What is typed, as Hydra takes it.


def prepared(words: Sequence[str], directories: Sequence[Path] = ()) -> list[str]:
    """Return the overrides that `words` stand for: those of a YAML file, of a model's directory or
    Hub id, of a data file or function in the place of a task; all as Hydra's grammar takes them.

    What is typed beside a file comes before what it says. `directories` hold groups of the
    user's, where a choice may have a name like a Hub id's. Raises SettingError for what is no
    choice to be made on a command line.
    """
    plain = [word for word in words if not _is_file(word)]
    names = {match["name"] for word in plain if (match := _TYPED.fullmatch(word))}
    files = [text for word in words if _is_file(word) for text in file_overrides(Path(word))]
    kept = [text for text in files if text.partition("=")[0].lstrip("+") not in names]
    placed = [each for word in (*kept, *plain) for each in _by_place(word, directories)]
    overrides = [*map(readable, placed)]
    require_public(overrides)
    return overrides


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml")) and "=" not in word


def file_overrides(path: Path) -> list[str]:
    """Return the settings of a YAML file as they would be typed: `model: qwen-1.5b` is a choice,
    and names may be nested or dotted."""
    try:
        document = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except OSError as error:
        raise SettingError("file", path, f"cannot be read ({error.strerror})") from None
    except UNCOMPOSED as error:
        raise refusal(error, []) from None
    if not isinstance(document, dict):
        raise SettingError("file", path, "holds no settings, as `model: qwen-1.5b` is one")
    return [*_as_overrides(document, SweepConfig, "")]


def _as_overrides(values: Mapping[Any, Any], kind: type[Settings], prefix: str) -> Iterator[str]:
    fields = {typed_name(name): field for name, field in kind.model_fields.items()}
    for name, value in values.items():
        inner = group_in(fields[name]) if name in fields else None
        # Of settings by name (evaluation.sets) the names are no groups.
        if inner is not None and isinstance(value, dict) and name != "sets":
            yield from _as_overrides(value, inner, f"{prefix}{name}.")
        else:
            yield f"{'+' if name == 'experiment' else ''}{prefix}{name}={typed(value)}"


def _by_place(word: str, directories: Sequence[Path] = ()) -> list[str]:
    """The overrides of a model or task that is named by where it lies; else the word."""
    name, _, value = word.partition("=")
    chosen = any((directory / name / f"{value}.yaml").is_file() for directory in directories)
    if chosen or re.search(r"[\[{,'\"]", value):
        return [word]
    if name == "model" and ("/" in value or value.endswith(".gguf")):
        return _model_at(value)
    if name == "task" and value.endswith((".jsonl", ".json", ".parquet")):
        return ["task=math_file", f"task.math.path={value}"]
    if name == "task" and ":" in value:
        module, _, function = value.removeprefix("./").rpartition(":")
        place, _, module = module.removesuffix(".py").rpartition("/")
        own = ["task=custom", f"task.custom.function={module}:{function}"]
        return [*own, f"task.custom.directory={place}"] if place else own
    return [word]


def _model_at(value: str) -> list[str]:
    place = Path(value).expanduser()
    if place.suffix == ".gguf" or (place / "config.json").is_file():
        return ["model=local", f"model.path={value}"]
    known = _sources("model", choices_of(config_directory(), "model")).get(value.casefold())
    if known is not None:
        return [f"model={known}"]
    if value.startswith((".", "/", "~")) or value.count("/") > 1:
        raise SettingError("model", value, "is no directory with a config.json")
    if not may_be_cached(value):
        rule = "is no directory with a config.json, and not in this machine's cache of the Hub"
        raise SettingError("model", value, rule, f"the same after: hf download {value}")
    name = value.rpartition("/")[2]
    return ["model=local", "model.path=null", f"model.source={value}", f"model.name={name}"]


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
    of choices, of which Hydra composes all and the last one counts; for a label typed as a choice;
    and for a `sweeps_dir` of several, where Hydra's own file of a multirun would lie in none."""
    for text in overrides:
        match, parsed = _TYPED.fullmatch(text), _parsed(text)
        if match is None or parsed is None:
            continue
        group, choice = match["name"], match["value"]
        if group == "sweeps_dir" and parsed.is_sweep_override():
            rule = "is one directory, which holds all sweeps of a multirun"
            nearest = shell_quoted(f"{group}={quoted(choice)}")
            raise SettingError(group, choice, rule, nearest)
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


# Composing.


def config_of(words: Sequence[str]) -> SweepConfig:
    """The validated config of what would be typed, composed without a command line.

    Raises SettingError as `from_hydra` does, and for what Hydra refuses.
    """
    overrides = prepared(words)
    try:
        with packaged():
            config = from_hydra(compose("config", overrides=overrides), overrides)
    except UNCOMPOSED as error:
        raise refusal(error, overrides) from None
    add_command(config)
    return config


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


def from_hydra(composed: DictConfig, overrides: Sequence[str] = ()) -> SweepConfig:
    """The validated config of a composed Hydra config; `overrides`: what was typed for it.

    With `model.path`, the architecture is read from its config.json. Raises SettingError
    for an unknown key, a missing one, a value of the wrong type, or a broken rule.
    """
    plain = _plain(composed)
    axes = plain["grid"]["axes"]
    named = isinstance(axes, dict) and all(isinstance(name, str) for name in axes)
    # Hydra as the command line has started it, or over the packaged files.
    with nullcontext() if GlobalHydra.instance().is_initialized() else packaged():
        chosen = combine(axes) if named else ()
        plain["variants"] = [_variant(plain, overrides, each) for each in chosen]
    losses = [group["recipe"].get("loss_type") for group in (plain, *plain["variants"])]
    own = {name: own_loss(name) for name in losses if isinstance(name, str)}
    plain["loss_sources"] = {n: loss.source_sha256() for n, loss in own.items() if loss}
    plain["given"] = [each.key_or_group for each in _PARSER.parse_overrides(list(overrides))]
    plain["importing"] = plain.pop("import")
    return sweep_config(plain)


def _plain(composed: DictConfig) -> dict[str, Any]:
    """A composed config as dictionaries, with what its files say: architecture, hashes."""
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise SettingError(str(error.full_key), "???", "has to be given") from None
    read_model(plain["model"])
    find_data(plain["task"])
    find_data_of_sets(plain["evaluation"])
    return dict(plain)


def _variant(
    plain: Mapping[str, Any], overrides: Sequence[str], combination: Combination
) -> dict[str, Any]:
    """What a combination of the axes has: its groups, whole, and what it brings of the grid.

    Composed with what was typed; of another model its own settings only, not the task and recipe
    that it is usually run with.
    """
    choices = {name: value for name, value in combination.settings.items() if "." not in name}
    for group, choice in choices.items():
        options = GlobalHydra.instance().config_loader().get_group_options(group)
        # model=local takes its numbers from `model.path`, of which there is one.
        known = [each for each in options if not each.startswith("_") and each != "local"]
        if choice not in known:
            axes = typed(plain["grid"]["axes"]).replace(choice, meant(choice, known))
            nearest = shell_quoted(f"grid.axes={axes}") if meant(choice, known) else ""
            rule = f"must be one of {', '.join(known)}"
            raise SettingError(f"grid.axes.{group}", choice, rule, nearest)
    settings = {n: value for n, value in combination.settings.items() if n != "model"}
    made = _composed(overrides, settings)
    if set(choices) <= {"model"} and not any(n.startswith("evaluation.") for n in settings):
        # What is interpolated there (evaluation.temperature) is of the sweep, for all alike.
        made["evaluation"] = plain["evaluation"]
    if "model" in choices:
        of_model = [text for text in overrides if _key(text).startswith("model.")]
        for key in map(_key, of_model):
            if key in ("model.path", "model.source"):
                rule = f"{key} names one model's weights; give them in files of a group model/"
                raise SettingError("grid.axes.model", choices["model"], rule, FILE)
        of_axis = {n: v for n, v in combination.settings.items() if n.partition(".")[0] == "model"}
        made["model"] = _composed(of_model, of_axis)["model"]
    brought = {k: v for k, v in made["grid"].items() if v != plain["grid"][k]}
    shared = {k: v for k, v in brought.items() if k not in ("axes", "seeds")}
    return {"axes": combination.axes, **{g: made[g] for g in AXIS_GROUPS}, "grid": shared}


def _composed(overrides: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The plain config of `overrides`, with these settings and choices over theirs."""
    kept = [text for text in overrides if _key(text) not in settings]
    # Over a dictionary Hydra would lay another one, not put it in its place.
    whole = {n: value for n, value in settings.items() if isinstance(value, dict)}
    rest = {n: typed(v) if "." in n else v for n, v in settings.items() if n not in whole}
    own = [readable(f"{n}={value}") for n, value in rest.items()]
    name = HydraConfig.get().job.config_name if HydraConfig.initialized() else "config"
    try:
        composed = compose(name, overrides=[*kept, *own])
        for setting, value in whole.items():
            OmegaConf.update(composed, setting, value, merge=False)
        return _plain(composed)
    except UNCOMPOSED as error:
        found = refusal(error, own)
        rule = f"cannot be combined with the other overrides ({found.setting}: {found.rule})"
        first = next((each for each in settings if "." not in each), "")
        raise SettingError(
            f"grid.axes.{first}".rstrip("."), ", ".join(own), rule, found.nearest
        ) from None


def _key(override: str) -> str:
    return _PARSER.parse_override(override).key_or_group


# What Hydra refuses.


def refusal(error: Exception, overrides: Sequence[str]) -> SettingError:
    """What Hydra refuses of `overrides`, as an error of the setting or of the file."""
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return SettingError("file", mark.name, f"is no YAML: {error.problem}, line {mark.line + 1}")
    if isinstance(error, OverrideParseException):
        return _unread(error.override)
    if isinstance(error, MissingConfigException) and error.options:
        # A choice may lie in a folder of its group, where Hydra lists none: tiny/mixture.
        group, _, choice = str(error.missing_cfg_file).partition("/")
        options = sorted({*error.options, *choices_of(config_directory(), group)})
        options = [option for option in options if not option.startswith("_")]
        given = [match for match in map(_TYPED.fullmatch, overrides) if match]
        sign = next((match["sign"] for match in given if match["name"] == group), "")
        likely = ", or ".join(sign + each for each in nearest_choices(group, choice, options))
        rule = f"must be one of {', '.join(options)}"
        return SettingError(sign + group, choice, rule, likely)
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


def nearest_choices(group: str, given: str, options: Sequence[str]) -> list[str]:
    """At most three of a group's `options`, as they are typed: those whose name, or source on a
    hub, is like `given` or holds it; else what takes any model or task."""
    word = given.casefold()
    if (several := re.fullmatch(r"(\d+)x(.+)", word)) and several[2] in options:
        return [f"{group}={several[2]} {group}.devices_per_run={several[1]}"]
    names = {**_sources(group, options), **{option: option for option in options}}
    if word in names:
        return [f"{group}={names[word]}"]
    holding = [names[name] for name in names if len(word) > 2 and word in name]
    import difflib

    # Another device is no slip.
    slip = difflib.get_close_matches(word, names, n=1, cutoff=SLIP if group != "hardware" else 1)
    likest = [*dict.fromkeys(holding)][:3] or [names[name] for name in slip]
    return [f"{group}={each}" for each in likest] or [*filter(None, [_ANY.get(group)])]


def nearest_setting(name: str, names: Sequence[str]) -> str:
    """The one of the dotted `names` nearest to `name`: of the same last word, or spelled alike in
    the group that was typed, if one was; "" if none is."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    group, _, leaf = name.rpartition(".")
    elsewhere = _ELSEWHERE.get(leaf, "")
    if group and elsewhere.startswith(f"{group}."):
        return elsewhere
    leaves = {each.rpartition(".")[2]: each for each in reversed(names)}
    near = [each for each in names if each.startswith(f"{group.partition('.')[0]}.")]
    typed = {each.rpartition(".")[2]: each for each in near if group}
    if found := meant(leaf, [*(typed or leaves)]):
        return (typed or leaves)[found]
    return leaves.get(leaf, "")


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
    nearest = _nearest_typed(typed_name, value)
    rule = "no such setting" if nearest else NO_SUCH
    if groups and not nearest:
        rule = f"no such setting; here are {', '.join(known)}"
    return SettingError(shown, value, rule, nearest)


def _nearest_typed(name: str, value: str) -> str:
    """What is typed in the place of a setting that there is none of, with its value; "" if nothing
    is near."""
    nearest = nearest_setting(name, [*setting_names()])
    if nearest == "grid.seeds" and not value.startswith("["):
        return seed_lists(value)
    if (name, value) == ("wandb", "true"):
        return "tracking=wandb"
    if nearest == "launcher.slurm.python":
        return shell_quoted(f"{nearest}='apptainer exec --nv {value} python'")
    if nearest.endswith("task.custom.function") and value.endswith(".py"):
        return f"{nearest}={Path(value).stem}:FUNCTION"
    if nearest == "task" and len(_by_place(f"task={value}")) > 1:
        return f"task={value}"
    if _is_group(nearest) and nearest:
        options = choices_of(config_directory(), nearest)
        return ", or ".join(nearest_choices(nearest, value, options))
    return nearest and f"{nearest}={shell_quoted(value) or 'VALUE'}"


def _compared(name: str, values: str) -> str:
    """How several `values` of a setting or group are compared: as axis, in a list, or by -m."""
    group = name.lstrip("+").partition(".")[0]
    if group in AXIS_GROUPS:
        axis = shell_quoted(f"grid.axes={{{name.lstrip('+')}:[{values}]}}")
        # A model brings the hardware and grid that others are compared on.
        return f"model={values.partition(',')[0]} {axis}" if name == "model" else axis
    ways = [] if _is_group(name) else [f"{name}=[{values}]"]
    # Sweeps that differ in these alone are one and the same.
    alike = ("sweep", "hardware", "launcher", "tracking", "analysis", "checkpoint", "health")
    swept = group not in (*alike, "difficulty", "sweeps_dir")
    return ", or ".join([*ways, *([f"-m {name}={values}"] if swept else [])])


def _unread(word: str) -> SettingError:
    """The refusal of a word of the command that is no override."""
    name, given, value = word.partition("=")
    if given:
        rule = "cannot be read: brackets and quotes are closed, and text with signs has quotes"
        return SettingError(name, value, rule)
    rule = "is not SETTING=VALUE; a value with spaces has quotes"
    return SettingError("overrides", word, rule, meant(word, get_args(Mode), "mode={}"))


def setting_names() -> Iterator[str]:
    """Dotted names of all settings, and of the groups that hold them."""
    with packaged():
        plain: Any = OmegaConf.to_container(compose("config"))
    yield from dict.fromkeys(name.split(".")[0] for name in flattened(plain))
    yield from flattened(plain)


# What `--cfg job` shows.

# Shown first; and groups that act only with a value of another setting.
_FIRST = ("mode", "model", "task", "budget", "budget_unit", "recipe", "grid")
_IN_USE = {
    "launcher.slurm": ("launcher.name", ("slurm",)),
    "launcher.ray": ("launcher.name", ("ray",)),
    "import": ("mode", ("import",)),
    "difficulty": ("mode", ("difficulty",)),
    "trainer": ("trainer.name", ("command",)),
    "search": ("search.name", ("frontier", "optuna")),
}


def shown_config(overrides: Sequence[str]) -> str:
    """The settings of a command in YAML: model, task and budget first, and groups in use alone."""
    try:
        with packaged():
            plain: Any = OmegaConf.to_container(compose("config", overrides=list(overrides)))
    except UNCOMPOSED as error:
        raise refusal(error, overrides) from None
    settings, left = flattened(plain), []
    for group, (setting, values) in _IN_USE.items():
        if settings.get(setting) not in values:
            left.append(group)
            outer, _, inner = group.partition(".")
            del (plain[outer] if inner else plain)[inner or outer]
    ordered = {name: plain[name] for name in (*_FIRST, *plain) if name in plain}
    note = f"# not in use here: {', '.join(left)}; --cfg job --package GROUP shows one\n"
    return OmegaConf.to_yaml(OmegaConf.create(ordered)) + (note if left else "")


# What `conf/` is based on.

# Filled in when the settings are read, or brought by a choice: not there to be typed.
_NOT_DECLARED = (
    *("given", "variants", "loss_sources", "task"),
    *("model.directory", "model.converted", "model.architecture"),
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
