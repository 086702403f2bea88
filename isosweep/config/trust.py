"""What a stored sweep or a run's spec would execute, and whether others may have written it.

A file is this user's words if he or root owns it and nobody else may write it. Whoever replaces it
leaves his name on it, so the directories above are not asked. What other files would have executed
is refused, unless the command says `trust=true`.
"""

import grp
import json
import os
import pwd
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from isosweep.config.evaluation import Evaluated, on_all
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
# Executed by whoever goes on with a sweep (`additional`: as --export=ALL,BASH_ENV=FILE), and
# addresses that are sent what proves who asks.
_OF_SWEEP = (
    *("launcher.on_finish", "launcher.slurm.setup", "launcher.slurm.python"),
    "launcher.slurm.additional",
    *("search.sampler", "search.pruner", "tracking.uri"),
)
_SHOWN = 200
# What files that others may have written would have executed, as setting and JSON, with the file.
_FOREIGN: dict[tuple[str, str], str] = {}


def without_password(url: str) -> str:
    """The address without its password, as `config.json` has it."""
    return _OPTION.sub("", _PASSWORD.sub(r"\1\2@", url)).rstrip("?&")


def hidden(text: str) -> str:
    """Any text, with *** in the place of passwords in its addresses."""
    return _OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1\2:***@", text))


def distrust(config: "SweepConfig", file: str) -> None:
    """Refuse from now on what the config would execute, whose `file` others may have written."""
    # Of variants that cannot be made nothing is executed.
    with suppress(SettingError):
        for setting, value in executed(config):
            _FOREIGN.update(dict.fromkeys(_parts(setting, value), file))


def trust_all() -> None:
    """Let everything be executed that was read: the user wants it."""
    _FOREIGN.clear()


def require_own(*values: tuple[str, Any]) -> None:
    """Raise SettingError where a value that is about to be executed may be somebody else's."""
    for setting, value in values:
        for part in _parts(setting, value):
            if file := _FOREIGN.get(part):
                raise refused(setting, value, file)


def _parts(setting: str, value: Any) -> list[tuple[str, str]]:
    """Setting and JSON of what is executed; of sbatch's options each alone, since a command may add
    some to those of a sweep."""
    if setting == "launcher.slurm.additional":
        return [(f"{setting}.{option}", _as_json(each)) for option, each in value.items()]
    return [(setting, _as_json(value))]


def refused(setting: str, value: Any, file: str) -> SettingError:
    """The refusal to execute a setting's value; `file`: who may have written which."""
    text = hidden(value if isinstance(value, str) else _as_json(value))
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    rule = f"would be executed or used in your name, and others may have written it ({file})"
    return SettingError(setting, shown, rule, "trust=true, once you have read it")


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def executed(config: "SweepConfig") -> Iterator[tuple[str, Any]]:
    """Settings and values that a sweep would execute, of every variant of `grid.axes`; Optuna's own
    classes are no code of anybody's. Raises SettingError as `combinations`."""
    from isosweep.config.axes import combinations

    for setting in _OF_SWEEP:
        value: Any = config
        for part in setting.split("."):
            value = getattr(value, part)
        if value and not str(value).startswith(("optuna.samplers.", "optuna.pruners.")):
            yield setting, value
    yield from executed_by_run(config)
    for variant in combinations(config) if config.grid.axes else ():
        yield from executed_by_run(variant.config)


def executed_by_run(asked: Evaluated) -> Iterator[tuple[str, Any]]:
    """Settings and values that a run's worker would execute, of a run's settings or a sweep's."""
    tasks = [asked.task, *(on.task for on in on_all(asked).values())]
    for task in tasks:
        if task.custom is not None:
            yield "task.custom", task.custom.model_dump()
    run: Any = asked
    if own_loss(run.recipe.loss_type) is not None:
        yield "recipe.loss_type", run.recipe.loss_type
    if run.trainer.name == "command":
        yield "trainer.command", run.trainer.model_dump()


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


def require_unpickled(checkpoint: Path) -> None:
    """Raise SettingError where pickle, which executes what a file says, would read what others may
    have written."""
    for path in (path for path in checkpoint.rglob("*") if path.is_file()):
        if (why := others_may_write(path)) is not None:
            raise refused("checkpoint", str(checkpoint), f"it is unpickled; {why}")


def others_may_write(path: Path, descriptor: int | None = None) -> str | None:
    """Who besides this user and root may have written the file, in words; None where nobody may.

    `descriptor`: of the file, where it is open: another one may take its place. A group is no other
    user where it is this user's own, as umask 002 supposes. Raises OSError.
    """
    status = path.stat() if descriptor is None else os.fstat(descriptor)
    me, mode = os.geteuid(), stat.filemode(status.st_mode)
    if status.st_uid not in (me, 0):
        owner = f"user {status.st_uid}"
        with suppress(KeyError):
            owner = pwd.getpwuid(status.st_uid).pw_name
        return f"{path} belongs to {owner} ({mode})"
    if status.st_mode & stat.S_IWOTH:
        return f"{path} may be written by everybody ({mode})"
    if status.st_mode & stat.S_IWGRP:
        # With an access list the mode shows the most of all who are named in it.
        with suppress(AttributeError, OSError):
            if "system.posix_acl_access" in os.listxattr(descriptor or path):
                return f"{path} has an access list by which others may write it ({mode}+)"
        if not _is_private(status.st_gid, me):
            return f"{path} may be written by its group ({mode})"
    return None


def _is_private(group: int, user: int) -> bool:
    """Whether the group has this user's name and no other member, as useradd makes one for each."""
    try:
        own, known = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    # Whose first group it is stands with the users alone.
    others = {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group} - {user}
    named = own.gr_name == known.pw_name and group == known.pw_gid
    return named and not others and set(own.gr_mem) <= {known.pw_name}
