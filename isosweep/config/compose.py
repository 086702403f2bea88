"""Where Hydra ends: what was typed becomes frozen, validated settings.

Nothing behind this module imports Hydra or OmegaConf, but `changes.py`, for what a report shows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from isosweep.config.axes import Combination, combine
from isosweep.config.base import AXIS_GROUPS, Settings, flattened, group_in, meant, typed_name
from isosweep.config.evaluation import find_data_of_sets
from isosweep.config.model import may_be_cached, read_model
from isosweep.config.overrides import quoted, shell_quoted, typed
from isosweep.config.recipe import own_loss
from isosweep.config.refusals import (
    PARSER,
    TYPED,
    UNCOMPOSED,
    choices_of,
    config_directory,
    is_group,
    parsed,
    refusal,
    require_choices,
    sources_in,
)
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.task import KINDS, TaskConfig, find_data
from isosweep.errors import SettingError

# How a directory of groups of one's own is used.
FILE = (
    "--config-dir DIRECTORY +experiment=NAME; the file is DIRECTORY/experiment/NAME.yaml "
    "(docs/own.md)"
)


# What is typed, as Hydra takes it.


def prepared(words: Sequence[str], directories: Sequence[Path] = ()) -> list[str]:
    """Return the overrides that `words` stand for: those of a YAML file, of a model's directory or
    Hub id, of a data file or function in the place of a task; all as Hydra's grammar takes them.

    What is typed beside a file comes before what it says. `directories` hold groups of the
    user's, where a choice may have a name like a Hub id's. Raises SettingError for what is no
    choice to be made on a command line.
    """
    for word in words:
        if re.match(r"[+~]*(hydra)?=", word):
            raise SettingError("overrides", word, "is not SETTING=VALUE: no setting is named")
    plain = [word for word in words if not _is_file(word)]
    names = {match["name"] for word in plain if (match := TYPED.fullmatch(word))}
    files = [text for word in words if _is_file(word) for text in file_overrides(Path(word))]
    kept = [text for text in files if text.partition("=")[0].lstrip("+") not in names]
    placed = [each for word in (*kept, *plain) for each in _by_place(word, directories)]
    overrides = [*map(readable, placed)]
    require_choices(overrides)
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
        if inner is not None and isinstance(value, dict) and name not in ("sets", "parts"):
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
    known = sources_in("model", choices_of(config_directory(), "model")).get(value.casefold())
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
    if override.startswith(("recipe.trl.", "recipe.trl=", "launcher.slurm.additional.")):
        # Fields of TRL's and options of sbatch, which no file has to have.
        override = f"++{override}"
    name, equals, value = override.partition("=")
    listed = value.startswith("[") and value.endswith("]")
    parts = (value[1:-1] if listed else value).split(",")
    # What begins so is closed, or a mistake.
    if not equals or any(re.match(r"[\[({'\"]|\w+\(", part) for part in parts):
        return override
    texts: Any = (str, list, dict) if is_group(name) else object
    if name == "sweep":
        texts = str | None

    def taken(part: str) -> bool:
        override = parsed(f"{name}={part}")
        return override is not None and isinstance(override.value(), texts)

    plain = ",".join(part if taken(part) else quoted(part) for part in parts)
    again = f"{name}=[{plain}]" if listed else f"{name}={plain}"
    return again if parsed(again) else override


# Composing.


def config_of(words: Sequence[str]) -> SweepConfig:
    """The validated config of what would be typed, composed without a command line.

    Raises SettingError as `from_hydra` does, and for what Hydra refuses.
    """
    return composed_config(prepared(words))


def composed_config(overrides: Sequence[str]) -> SweepConfig:
    """The same of overrides that are `prepared`."""
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
    plain["given"] = [each.key_or_group for each in PARSER.parse_overrides(list(overrides))]
    plain["importing"] = plain.pop("import")
    return sweep_config(plain)


def _plain(composed: DictConfig) -> dict[str, Any]:
    """A composed config as dictionaries, with what its files say: architecture, hashes."""
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise SettingError(str(error.full_key), "???", "has to be given") from None
    for group in ("model", "task"):
        if "name" not in plain.get(group, {}):
            raise SettingError(group, "null", "has to be chosen")
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
    return PARSER.parse_override(override).key_or_group


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
