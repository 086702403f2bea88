"""Settings whose values are executed, and whether this user said them.

What a sweep's directory holds may be somebody else's words: `config.json` and `spec.json` lie where
several people write. A value is executed if this process's own command says the same, if only
this user could have written the file that it was read from (`isosweep.ownership`), or if the user
has agreed to it (`trust=true`, or asked by `mode=resume`).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.config.evaluation_sets import Evaluated, on_sets
from isosweep.config.recipe import own_loss
from isosweep.config.secrets import hidden, without_tokens
from isosweep.config.trainer import TrainerConfig
from isosweep.errors import SettingError
from isosweep.ownership import others_may_write

if TYPE_CHECKING:
    from isosweep.config.sweep import SweepConfig

# All of them, and which launcher executes one; "": not a launcher.
EXECUTED: Mapping[str, str] = {
    "launcher.on_finish": "",
    "launcher.slurm.setup": "slurm",
    "launcher.slurm.python": "slurm",
    "launcher.slurm.srun_args": "slurm",
    # As --export=ALL,BASH_ENV=FILE and --chdir=DIRECTORY.
    "launcher.slurm.additional": "slurm",
    "search.sampler": "",
    "search.pruner": "",
}
# What else a sweep is finished with in the user's name: addresses that are sent what proves it, and
# the directory of runs, where checkpoints are removed.
USED = ("tracking.uri", "search.storage", "sweeps_dir")
# Of a run's own settings: of its task, of each part of a mixture, of each evaluation set.
_FUNCTION, _LOSS = "task.custom", "recipe.loss_type"
_TRAINER = "trainer.command"
# What a worker may execute of a spec that others may have written, by digest; its submitter says.
VOUCHED = "ISOSWEEP_VOUCHED"
# Sharded states are read by pickle, which executes what a file says.
PICKLES = "checkpoints"
_SHOWN = 200


@dataclass(frozen=True, order=True)
class Executed:
    """A setting and its value, as JSON."""

    setting: str
    value: str

    @staticmethod
    def of(setting: str, value: Any) -> "Executed":
        """The setting with a value as a config has it."""
        return Executed(setting, json.dumps(value, sort_keys=True, default=str))

    @property
    def of_optuna(self) -> bool:
        """Whether it is Optuna's own code, which every user of it has."""
        names = ("optuna.samplers.", "optuna.pruners.")
        return self.setting.startswith("search.") and json.loads(self.value).startswith(names)

    @property
    def digest(self) -> str:
        """What it is vouched for by."""
        return hashlib.sha256(f"{self.setting}={self.value}".encode()).hexdigest()[:32]

    @property
    def shown(self) -> str:
        """The value for people: without what may be secret, and not all of a long one."""
        plain = json.loads(self.value)
        text = hidden(without_tokens(plain if isinstance(plain, str) else self.value))
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class _Said:
    """What this process knows: configs of its own command, what was agreed to, and the files that
    others may have written, with why."""

    def __init__(self) -> None:
        self.configs: list[SweepConfig] = []
        self.agreed: set[Executed] = set()
        self.foreign: dict[Path, str] = {}

    @property
    def trusts(self) -> bool:
        """Whether its command said `trust=true`."""
        return any(config.trust for config in self.configs)

    @property
    def own(self) -> set[Executed]:
        """All that may be executed."""
        said = set[Executed]()
        for config in self.configs:
            said.update(executed(config, by_any=True), used(config))
        return said | self.agreed


_SAID = _Said()


def said(config: "SweepConfig") -> None:
    """The config is this process's own command's."""
    _SAID.configs.append(config)


def read_from(path: Path) -> None:
    """Settings were read from `path`: where others may have written it, they are not this user's
    words."""
    if (why := others_may_write(path)) is not None:
        _SAID.foreign[path] = why


def trusts() -> bool:
    """Whether this process's command said `trust=true`."""
    return _SAID.trusts


def agree(wanted: Iterable[Executed]) -> None:
    """The user has seen these, and wants them executed."""
    _SAID.agreed.update(wanted)


def foreign(wanted: Iterable[Executed]) -> list[Executed]:
    """Those of `wanted` that may not be executed: somebody else may have said them."""
    if not _SAID.foreign or _SAID.trusts:
        return []
    own = _SAID.own
    return [each for each in wanted if each not in own and not each.of_optuna]


def whose() -> str:
    """Which files others may have written, and why."""
    return "; ".join(f"{path}: {why}" for path, why in _SAID.foreign.items())


def require_own(values: Mapping[str, Any]) -> None:
    """Raise SettingError where a value that is about to be executed may be somebody else's."""
    require_own_all(Executed.of(name, value) for name, value in values.items() if value)


def require_own_all(wanted: Iterable[Executed]) -> None:
    """`require_own` of these."""
    for each in foreign(wanted):
        raise _refusal(each, f"was read from a file that others may have written ({whose()})")


def _refusal(each: Executed, rule: str) -> SettingError:
    use = "used in your name" if each.setting in USED else "executed"
    rule = f"would be {use}, and {rule}"
    typed = "" if each.setting == _FUNCTION else f", or {each.setting}=... typed"
    return SettingError(each.setting, each.shown, rule, f"trust=true, once you have read it{typed}")


def executed(config: "SweepConfig", *, by_any: bool = False) -> list[Executed]:
    """All that a sweep would execute, of every variant of `grid.axes`, by its launcher or `by_any`.

    Raises SettingError as `combinations`.
    """
    from isosweep.config.axes import combinations

    name = config.launcher.name
    found = set(executed_by_run(config))
    for setting, launcher in EXECUTED.items():
        value: Any = config
        for part in setting.split("."):
            value = getattr(value, part)
        used = by_any or launcher in ("", name) or name == "auto"
        if value and used:
            found.add(Executed.of(setting, value))
    for variant in combinations(config) if config.grid.axes else ():
        found.update(executed_by_run(variant.config))
    return sorted(found)


def used(config: "SweepConfig") -> list[Executed]:
    """The values of `USED` that it has."""
    groups = {
        "tracking.uri": config.tracking.uri,
        "search.storage": config.search.storage,
        "sweeps_dir": str(Path(config.sweeps_dir).absolute()),
    }
    return [Executed.of(name, groups[name]) for name in USED if groups[name]]


def executed_by_run(asked: Evaluated) -> Iterator[Executed]:
    """All that a run's worker would execute, of a run's settings or a sweep's."""
    tasks = [asked.task, *asked.task.parts.values(), *(on.task for on in on_sets(asked).values())]
    for task in tasks:
        if task.custom is not None:
            yield Executed.of(_FUNCTION, asdict(task.custom))
    run: Any = asked
    loss: str = run.recipe.loss_type
    if own_loss(loss) is not None:
        yield Executed.of(_LOSS, loss)
    trainer: TrainerConfig = run.trainer
    if trainer.name == "command":
        words = [trainer.command, trainer.more, trainer.resume, trainer.environment]
        yield Executed.of(_TRAINER, words)


def vouch(runs: Iterable[Evaluated]) -> None:
    """Let the workers that this process starts execute what their runs' specs say, wherever these
    lie. Raises SettingError as `require_own`."""
    wanted = {each for asked in runs for each in executed_by_run(asked)}
    require_own_all(wanted)
    known = {*filter(None, os.environ.get(VOUCHED, "").split(","))}
    known |= {each.digest for each in wanted} | ({PICKLES} if trusts() else set())
    if known:
        os.environ[VOUCHED] = ",".join(sorted(known))


def vouched() -> str | None:
    """The line of a job's script by which its worker learns what it may execute; None: nothing."""
    known = os.environ.get(VOUCHED)
    return f"export {VOUCHED}={known}" if known else None


def require_vouched(path: Path, wanted: Iterable[Executed]) -> None:
    """Raise SettingError where a worker would execute what its submitter has not vouched for, out
    of `path`, which others may have written."""
    known = os.environ.get(VOUCHED, "").split(",")
    left = [each for each in wanted if each.digest not in known]
    if left and (why := others_may_write(path)) is not None:
        raise _refusal(left[0], f"stands in {path}, which others may have written ({why})")


def require_unpickled(checkpoint: Path) -> None:
    """Raise SettingError where a worker would unpickle what others may have written."""
    if PICKLES in os.environ.get(VOUCHED, "").split(","):
        return
    for path in (path for path in checkpoint.rglob("*") if path.is_file()):
        if (why := others_may_write(path)) is not None:
            rule = f"is read by pickle, which executes what a file says, and {why}"
            raise SettingError("checkpoint", checkpoint, rule, "trust=true, if you trust them")
