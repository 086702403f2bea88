"""Where Hydra ends: the composed config becomes frozen, validated dataclasses.

Nothing behind this module imports Hydra or OmegaConf.
"""

import itertools
import json
import math
import re
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from isosweep.architecture import architecture_from_config
from isosweep.compute import BUDGET_UNITS, BudgetUnit
from isosweep.difficulty import resolve
from isosweep.errors import SettingError
from isosweep.health import HealthConfig
from isosweep.resources import GenerationConfig, HardwareConfig, LauncherConfig
from isosweep.settings import (
    AnalysisConfig,
    DifficultyConfig,
    EvaluationConfig,
    GridConfig,
    ModelConfig,
    RecipeConfig,
    SimulationConfig,
    TrackingConfig,
    closest,
    one_of,
    require,
)
from isosweep.task_settings import TaskConfig
from isosweep.tasks.rows import file_sha256

MODES = (
    *("run", "plan", "launch", "status", "resume", "cancel"),
    *("analyse", "recommend", "compare", "calibrate", "simulate"),
    "difficulty",
)
# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0
# Groups whose settings may join the grid.
_AXIS_GROUPS = ("model", "task", "recipe")


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One question asked. `budget` is compute per cell in `budget_unit`: a number or a list.

    `from_sweep` (`from` on the command line): the sweeps, by directory or by name in `sweeps_dir`,
    that `mode=recommend` learns from (one) and `mode=compare` sets side by side (two or more).
    """

    mode: str
    budget: Any
    budget_unit: str
    sweeps_dir: str
    sweep_dir: str | None
    model: ModelConfig
    task: TaskConfig
    recipe: RecipeConfig
    grid: GridConfig
    generation: GenerationConfig
    evaluation: EvaluationConfig
    launcher: LauncherConfig
    hardware: HardwareConfig
    tracking: TrackingConfig
    analysis: AnalysisConfig
    health: HealthConfig = field(default_factory=HealthConfig)
    simulation: SimulationConfig = field(default_factory=SimulationConfig)
    difficulty: DifficultyConfig = field(default_factory=DifficultyConfig)
    from_sweep: list[str] | None = None

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        one_of("budget_unit", self.budget_unit, BUDGET_UNITS)
        object.__setattr__(self, "budget", parse_budgets(self.budget))
        self._check_vllm()
        self._check_interruption()
        tied = self.model.architecture.tie_word_embeddings
        rank = self.recipe.lora_rank
        holds = rank is None or not (self.recipe.cast_lm_head_to_fp32 and tied)
        rule = "TRL cannot compute a head in float32 that is tied to the embedding, beside adapters"
        name = "recipe.cast_lm_head_to_fp32"
        require(holds, name, self.recipe.cast_lm_head_to_fp32, rule, f"{name}=false")

    def _check_interruption(self) -> None:
        """Whether an interrupted answer has room before and after the interruption."""
        if self.recipe.interruption is None:
            return
        name, answer = "recipe.interruption_tokens", self.recipe.interruption_tokens
        limit = self.task.completion_limit
        rule = f"leaves nothing to interrupt of task.max_completion_tokens={limit}"
        require(answer < limit, name, answer, rule, "recipe.interruption=null")
        apart = self.generation.mode == "server" or self.hardware.sharding != "ddp"
        rule = "continues some answers only, which a server or sharded weights cannot wait for"
        nearest = "hardware.sharding=ddp generation.mode=colocate, or recipe.interruption=null"
        require(not apart, "recipe.interruption", self.recipe.interruption, rule, nearest)

    def _check_vllm(self) -> None:
        generation, device = self.generation, self.hardware.device
        rule = f"vLLM gives its memory back on a GPU only, and hardware.device={device}"
        holds = not generation.sleep or device == "cuda"
        require(holds, "generation.sleep", generation.sleep, rule, "generation.sleep=false")
        for group, temperature in (
            ("recipe", self.recipe.temperature),
            ("evaluation", self.evaluation.temperature),
        ):
            holds = generation.name != "vllm" or temperature <= VLLM_MAX_TEMPERATURE
            name, most = f"{group}.temperature", f"{VLLM_MAX_TEMPERATURE:g}"
            require(holds, name, temperature, f"vLLM takes at most {most}", f"{name}={most}")
        if generation.mode != "server":
            return
        rule = f"weights go to a server over NCCL, from a GPU, and hardware.device={device}"
        nearest = "generation.mode=colocate generation.server_url=null"
        require(device == "cuda", "generation.mode", generation.mode, rule, nearest)
        places = self.launcher.max_parallel
        rule = "a vLLM server holds one policy: with generation.mode=server runs go one at a time"
        name = "launcher.max_parallel"
        require(places == 1, name, places, rule, f"{name}=1")

    @property
    def budgets(self) -> tuple[float, ...]:
        """Budgets in `budget_unit`, ascending."""
        budgets: tuple[float, ...] = self.budget
        return budgets

    @property
    def unit(self) -> BudgetUnit:
        return BUDGET_UNITS[BUDGET_UNITS.index(self.budget_unit)]


_LOGSPACE = re.compile(r"logspace[(:]([^,:]+)[,:]([^,:]+)[,:]([^,:)]+)\)?")


def parse_budgets(value: Any) -> tuple[float, ...]:
    """Budgets, ascending, from a number, its text, a list of them, or `logspace:1e18:1e20:5`.

    `logspace(1e18,1e20,5)`, which a shell and Hydra want quoted, means the same: 5 budgets from
    1e18 to 1e20, equal steps apart in log C. Raises SettingError for anything that is not a
    finite number above 0, and for duplicates.
    """
    spaced = _LOGSPACE.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if spaced is not None:
        return _logspace(value, *spaced.groups())
    values = list(value) if isinstance(value, list | tuple) else [value]
    example = "budget=1e11, budget=[1e11,2e11] or budget=logspace:1e10:1e11:3"
    require(bool(values), "budget", value, "must hold at least one number", example)
    budgets = []
    for item in values:
        number = _number(item)
        rule = "must be a finite number above 0, in budget_unit"
        nearest = f"budget={-number:g}" if -math.inf < number < 0 else example
        require(math.isfinite(number) and number > 0, "budget", item, rule, nearest)
        budgets.append(number)
    unique = sorted(set(budgets))
    listed = ",".join(f"{b:g}" for b in unique)
    require(
        len(unique) == len(budgets), "budget", value, "lists a value twice", f"budget=[{listed}]"
    )
    return tuple(unique)


def _logspace(value: str, low: str, high: str, count: str) -> tuple[float, ...]:
    first, last, number = _number(low), _number(high), _number(count)
    turned = 0 < last < first < math.inf and number >= 2
    require(
        0 < first < last < math.inf and number >= 2 and number.is_integer(),
        "budget",
        value,
        "logspace takes two numbers, 0 < first < last, and how many budgets, 2 or more",
        f"budget=logspace:{high}:{low}:{count}" if turned else "budget=logspace:1e18:1e20:5",
    )
    steps = int(number) - 1
    # Three digits, so that a budget can be typed again; the ends stay as they were given.
    inner = [float(f"{first * (last / first) ** (i / steps):.3g}") for i in range(1, steps)]
    return (first, *inner, last)


def _number(value: Any) -> float:
    """`value` as a float; NaN where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


def from_hydra(composed: DictConfig) -> SweepConfig:
    """The validated config of a composed Hydra config.

    With `model.path`, the architecture is read from the config.json there. Raises SettingError
    for an unknown key, a missing one, a value of the wrong type, or a broken rule.
    """
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        setting = str(error.full_key)
        raise SettingError(setting, "???", "has to be given", f"{setting}=VALUE") from None
    plain["from_sweep"] = plain.pop("from")
    model = plain["model"]
    if model["path"] is not None:
        model["architecture"] = asdict(_architecture_at(Path(model["path"])))
        model["name"] = model["name"] or Path(model["path"]).absolute().name
        model["source"] = model["source"] or str(model["path"])
    _find_data(plain["task"])
    return from_mapping(plain)


def _find_data(task: dict[str, Any]) -> None:
    """Make the paths of a task absolute, and take the sha256 of its data file."""
    source, own = task.get("math"), task.get("custom")
    if source and source.get("path") is not None:
        source["path"] = str(Path(source["path"]).absolute())
        source["data_sha256"] = file_sha256(source["path"])
    if own and own.get("directory") is not None:
        own["directory"] = str(Path(own["directory"]).absolute())


def _architecture_at(directory: Path) -> Any:
    file = directory / "config.json"
    nearest = "model.path=DIRECTORY of a model written by save_pretrained"
    try:
        return architecture_from_config(json.loads(file.read_text()))
    except OSError as error:
        rule = f"must hold a readable config.json ({error.strerror})"
        raise SettingError("model.path", directory, rule, nearest) from None
    except ValueError as error:
        rule = f"{file} describes no architecture that can be planned: {error}"
        raise SettingError("model.path", directory, rule, nearest) from None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of the values of `grid.axes`, and the config that has them."""

    axes: dict[str, Any]
    config: SweepConfig


def variants(config: SweepConfig) -> tuple[Variant, ...]:
    """Every combination of `grid.axes`, in the order given; the config itself without axes.

    Problems chosen by difficulty are resolved. Raises SettingError where they are not measured,
    and as `combinations` does.
    """
    sweeps, found = Path(config.sweeps_dir).absolute(), []
    for variant in combinations(config):
        one = variant.config
        task = resolve(one.model, one.task, one.difficulty, sweeps)
        found.append(replace(variant, config=replace(one, task=task)))
    return tuple(found)


def combinations(config: SweepConfig) -> tuple[Variant, ...]:
    """What `variants` gives, before problems are chosen by difficulty.

    Raises SettingError for an axis that is no setting, or a value that breaks its rule.
    """
    axes = config.grid.axes
    if not axes:
        return (Variant(axes={}, config=config),)
    found = []
    choices = [value if isinstance(value, list) else [value] for value in axes.values()]
    for combination in itertools.product(*choices):
        chosen = dict(zip(axes, combination, strict=True))
        plain = asdict(config)
        # The whole model first: a setting of the model then changes the chosen one.
        for setting in sorted(chosen):
            _set(plain, setting, chosen[setting])
        if "task.math.path" in chosen:
            _find_data(plain["task"])
        found.append(Variant(axes=chosen, config=from_mapping(plain)))
    return tuple(found)


def _set(plain: dict[str, Any], setting: str, value: Any) -> None:
    group, _, name = setting.partition(".")
    if setting == "model":
        plain["model"] = _packaged_model(str(value))
        return
    if group not in _AXIS_GROUPS or not name:
        rule = f"an axis is `model` or a setting of {', '.join(_AXIS_GROUPS)}"
        raise SettingError("grid.axes", setting, rule, "grid.axes={recipe.num_iterations:[1,2]}")
    place = plain[group]
    *parents, last = name.split(".")
    for parent in parents:
        place = place.get(parent) or {}
    if last not in place:
        nearest = f"{group}.{closest(last, tuple(place) or tuple(plain[group]))}"
        raise SettingError("grid.axes", setting, "no such setting", nearest)
    place[last] = value


def _packaged_model(name: str) -> dict[str, Any]:
    directory = config_directory() / "model"
    known = tuple(sorted(p.stem for p in directory.glob("*.yaml") if p.stem not in _NOT_MODELS))
    one_of("grid.axes.model", name, known)
    document: Any = OmegaConf.to_container(OmegaConf.load(directory / f"{name}.yaml"))
    model: dict[str, Any] = document.get("model", document)
    return model


# In conf/model: what language models share, and the one whose numbers come from its path.
_NOT_MODELS = ("_llm", "local")


def from_mapping(plain: Any) -> SweepConfig:
    """The validated config of plain nested dictionaries: as stored in a sweep's `config.json`."""
    config: SweepConfig = build(SweepConfig, plain, "")
    return config


def build(kind: Any, values: Any, where: str) -> Any:
    """An instance of dataclass `kind` from a dictionary; `where` is its dotted name.

    Raises SettingError as `from_hydra` does.
    """
    types = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    if not isinstance(values, dict):
        raise SettingError(where, values, "must be a group of settings", f"{where}={{}}")
    for key in values:
        if key not in types:
            known = tuple(types)
            rule = f"no such setting; here are {', '.join(known)}"
            nearest = prefix + closest(str(key), known)
            raise SettingError(f"{prefix}{key}", values[key], rule, nearest)
    for item in fields(kind):
        optional = item.default is not MISSING or item.default_factory is not MISSING
        if not optional and item.name not in values:
            rule = "has no value and no default"
            raise SettingError(f"{prefix}{item.name}", "", rule, f"{prefix}{item.name}=VALUE")
    return kind(
        **{key: _typed(types[key], value, f"{prefix}{key}") for key, value in values.items()}
    )


def _typed(kind: Any, value: Any, setting: str) -> Any:
    """`value` as `kind`, which is one of the types the dataclasses above use."""
    if is_dataclass(kind):
        return build(kind, value, setting)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (option for option in get_args(kind) if option is not NoneType)
        return None if value is None else _typed(kind, value, setting)
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        values = value if isinstance(value, list) else [value]
        return [_typed(element, item, setting) for item in values]
    if kind is Any or (get_origin(kind) is dict and isinstance(value, dict)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {int: ("a whole number", 1), float: ("a number", 1.0), str: ("text", "name")}
        wanted, example = names.get(kind, ("true or false", "true"))
        raise SettingError(setting, value, f"must be {wanted}", f"{setting}={example}")
    return value


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent / "conf"
