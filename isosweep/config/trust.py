"""What a stored sweep or a run's spec would execute, and whether others may have written it.

A file is this user's words if he or root owns it and nobody else may write it. Whoever replaces it
leaves his name on it, so the directories above are not asked. Values of other files are executed if
this command says the same, if the user agrees at a terminal, or with `trust=true`.
"""

import grp
import json
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from isosweep.config.evaluation import Evaluated, on_sets
from isosweep.config.recipe import own_loss
from isosweep.errors import SettingError
from isosweep.files import JsonObject

if TYPE_CHECKING:
    from isosweep.config.sweep import SweepConfig


# As SQLAlchemy reads them: all from the first colon after the user to the @, slashes among it. A
# server's address ends at its first slash, and may have a port and an @ after that.
_PASSWORD = re.compile(
    r"((?<!http)(?<!https)://[^\s:/]*):[^@\n]*(?:@[^@/\s]*)*@|(https?://[^\s:/@]*):[^@/\s]*@"
)
# What drivers take as options of an address.
_OPTION = re.compile(r"(?<=[?&])((?:ssl)?passw(?:or)?d)=[^&\s]*&?", re.IGNORECASE)
# How drivers ask for one that is not there.
_ASKED_FOR = re.compile(r"no password|password authentication|access denied|using password", re.I)


def without_password(url: str) -> str:
    """The address without its password, as `config.json` has it."""
    return _OPTION.sub("", _PASSWORD.sub(r"\1\2@", url)).rstrip("?&")


def hidden(text: str) -> str:
    """Any text, with *** in the place of passwords in its addresses."""
    return _OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1\2:***@", text))


def password_remedy(url: str, said: str) -> str | None:
    """What to do where a database at `url`, given without a password, asks for one; else None."""
    if without_password(url) != url or not _ASKED_FOR.search(said):
        return None
    return (
        "its password in PGPASSWORD or ~/.pgpass (PostgreSQL), or the address typed again with it: "
        "no file of isosweep holds it"
    )


# Executed by whoever goes on with a sweep (`additional`: as --export=ALL,BASH_ENV=FILE), and
# addresses that are sent what proves who asks.
_OF_SWEEP = (
    *("launcher.on_finish", "launcher.slurm.setup", "launcher.slurm.python"),
    "launcher.slurm.additional",
    *("search.sampler", "search.pruner", "tracking.uri", "search.storage"),
)
_ACCESS_LIST = "system.posix_acl_access"
_SHOWN = 200


class Executed(NamedTuple):
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
    def shown(self) -> str:
        """The setting for people: without what may be secret, and not all of a long value."""
        plain = json.loads(self.value)
        text = hidden(plain if isinstance(plain, str) else self.value)
        return f"{self.setting}={text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}"

    def refused(self, why: str) -> SettingError:
        """The refusal to execute it; `why`: who may have written it."""
        _, _, value = self.shown.partition("=")
        rule = f"would be executed or used in your name, and others may have written it ({why})"
        return SettingError(self.setting, value, rule, "trust=true, once you have read it")


@dataclass
class _Known:
    """What this process knows: the configs of its own command, those of files that only this user
    may have written, and which files others may have written, with why."""

    commands: list["SweepConfig"] = field(default_factory=list)
    own: list["SweepConfig"] = field(default_factory=list)
    foreign: dict[str, None] = field(default_factory=dict)


_KNOWN = _Known()


def add_command(config: "SweepConfig") -> None:
    """Count the config as one that this process's own command typed."""
    _KNOWN.commands.append(config)


def read_from(config: "SweepConfig", foreign: str | None) -> None:
    """The config was read from a file; `foreign`: who else may have written that."""
    if foreign is None:
        _KNOWN.own.append(config)
    else:
        _KNOWN.foreign[foreign] = None


def foreign(wanted: Iterable[Executed]) -> list[Executed]:
    """Those of `wanted` that may not be executed: others may have written them."""
    if not _KNOWN.foreign or any(config.trust for config in _KNOWN.commands):
        return []
    own = set[Executed]()
    for config in (*_KNOWN.commands, *_KNOWN.own):
        # Of variants that cannot be made nothing is executed.
        with suppress(SettingError):
            own.update(executed(config))
    return [each for each in wanted if each not in own and not each.of_optuna]


def foreign_files() -> str:
    """Which files others may have written, and why."""
    return "; ".join(_KNOWN.foreign)


def read_checked(path: Path) -> tuple[JsonObject | None, str | None]:
    """The document at `path`, None where there is none, and who else may have written that very
    file. Raises OSError, and ValueError for what is no JSON."""
    try:
        with path.open("rb") as file:
            return from_json(file.read()), others_may_write(path, file.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except IsADirectoryError:
        raise ValueError("a directory where a file belongs") from None


def require_own(values: Mapping[str, Any]) -> None:
    """Raise SettingError where a value that is about to be executed may be somebody else's."""
    for each in foreign(Executed.of(name, value) for name, value in values.items() if value):
        raise each.refused(foreign_files())


def executed(config: "SweepConfig") -> Iterator[Executed]:
    """All that a sweep would execute, of every variant of `grid.axes`. Raises SettingError as
    `combinations`."""
    from isosweep.config.axes import combinations

    for setting in _OF_SWEEP:
        value: Any = config
        for part in setting.split("."):
            value = getattr(value, part)
        if value:
            yield Executed.of(setting, value)
    yield from executed_by_run(config)
    for variant in combinations(config) if config.grid.axes else ():
        yield from executed_by_run(variant.config)


def executed_by_run(asked: Evaluated) -> Iterator[Executed]:
    """All that a run's worker would execute, of a run's settings or a sweep's."""
    tasks = [asked.task, *asked.task.parts.values(), *(on.task for on in on_sets(asked).values())]
    for task in tasks:
        if task.custom is not None:
            yield Executed.of("task.custom", task.custom.model_dump())
    run: Any = asked
    if own_loss(run.recipe.loss_type) is not None:
        yield Executed.of("recipe.loss_type", run.recipe.loss_type)
    if run.trainer.name == "command":
        yield Executed.of("trainer.command", run.trainer.model_dump())


def require_unpickled(checkpoint: Path) -> None:
    """Raise SettingError where pickle, which executes what a file says, would read what others may
    have written."""
    for path in (path for path in checkpoint.rglob("*") if path.is_file()):
        if (why := others_may_write(path)) is not None:
            raise Executed.of("checkpoint", str(checkpoint)).refused(f"it is unpickled; {why}")


def others_may_write(path: Path, descriptor: int | None = None) -> str | None:
    """Who besides this user and root may have written the file, in words; None where nobody may.

    `descriptor`: of the file, where it is open: another one may take its place. A group is no other
    user where it is this user's own, as umask 002 supposes. Raises OSError.
    """
    status = path.stat() if descriptor is None else os.fstat(descriptor)
    me, mode = os.geteuid(), stat.filemode(status.st_mode)
    if status.st_uid not in (me, 0):
        with suppress(KeyError):
            return f"{path} belongs to {pwd.getpwuid(status.st_uid).pw_name} ({mode})"
        return f"{path} belongs to user {status.st_uid} ({mode})"
    if status.st_mode & stat.S_IWOTH:
        return f"{path} may be written by everybody ({mode})"
    if not status.st_mode & stat.S_IWGRP:
        return None
    with suppress(AttributeError, OSError):
        # The mode then shows the most of all who are named for it.
        if _ACCESS_LIST in os.listxattr(path if descriptor is None else descriptor):
            return f"{path} has an access list by which others may write it ({mode}+)"
    if _is_private(status.st_gid, me):
        return None
    return f"{path} may be written by its group ({mode})"


@cache
def _is_private(group: int, user: int) -> bool:
    """Whether the group has this user's name and no other member, as useradd makes one for each."""
    try:
        own, known = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    others = {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group} - {user}
    named = own.gr_name == known.pw_name and group == known.pw_gid
    return named and not others and set(own.gr_mem) <= {known.pw_name}
