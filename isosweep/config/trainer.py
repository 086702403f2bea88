"""Who trains a run: TRL in isosweep's own worker, or a command of the user's."""

import shlex
import signal
import string
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from isosweep.config.base import Settings
from isosweep.config.choices import close
from isosweep.config.identity import OUTSIDE
from isosweep.config.importing import ImportConfig
from isosweep.config.values import Listed, Positive
from isosweep.errors import SettingError

# What a command's texts may name of a run.
NAMES = (
    *("n", "B", "completions", "T", "every", "seed", "learning_rate"),
    *("model", "directory", "python"),
)
RESUME_FROM, STEP = "resume_from", "step"


def _words(value: Any) -> Any:
    return shlex.split(value or "") if isinstance(value, str | None) else value


def _texts(value: Any) -> Any:
    """Numbers as the text that a variable is."""
    if not isinstance(value, dict):
        return value
    return {k: str(v) if type(v) in (int, float) else v for k, v in value.items()}


class TrainerConfig(Settings, group="trainer"):
    """Who trains the runs. A command may contain `{n}`, `{B}`, `{completions}` (n x B), `{T}`,
    `{every}` (a tenth of T), `{seed}`, `{learning_rate}`, `{model}` (directory of weights),
    `{directory}` (of this attempt) and `{python}`; see docs/trainers.md."""

    name: Literal["trl", "command"] = "trl"
    """`trl`: TRL, in isosweep's worker. `command`: your command."""
    command: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """The command: its words, or one line. No shell reads it."""
    more: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """Further words at its end, for what a packaged command leaves open."""
    resume: Annotated[Listed[str], BeforeValidator(_words)] = Field(default_factory=list)
    """Further words to continue from the checkpoint `{resume_from}`."""
    environment: Annotated[dict[str, str] | None, BeforeValidator(_texts)] = None
    """Further environment variables: {NAME: value}."""
    log: str = "{directory}"
    """Its log: a file or directory that `mode=import` can read."""
    columns: ImportConfig | None = None
    """What its log's columns are, as settings of `import`: {columns: {reward: val/acc}}."""
    checkpoints: str | None = None
    """Its checkpoints below `{directory}`, with `{step}` in the name, such as `checkpoint-{step}`,
    or the file in each that is written last; null: it cannot continue."""
    stop_signal: Annotated[Literal["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"], OUTSIDE] = "SIGTERM"
    """Signal that asks it to stop; all processes that it started get it."""
    stop_grace_s: Annotated[Positive, OUTSIDE] = 60.0
    """Seconds from that signal until it is killed."""
    poll_s: Annotated[Positive, OUTSIDE] = 5.0
    """Seconds between two looks at its log."""

    def _check(self) -> None:
        if self.name != "command":
            return
        if not self.command:
            rule = "trainer=command takes the command that trains a run"
            raise SettingError("trainer.command", "null", rule, _EXAMPLE)
        self._check_names("command", self.command, NAMES)
        self._check_names("more", self.more, NAMES)
        self._check_names("resume", self.resume, (*NAMES, RESUME_FROM))
        self._check_names("environment", (self.environment or {}).values(), NAMES)
        self._check_names("log", [self.log], NAMES)
        if "{directory}" not in self.log:
            rule = "would be the same file for several runs or attempts: it lies in {directory}"
            raise SettingError("trainer.log", self.log, rule, "{directory}/log.jsonl")
        if self.checkpoints is not None and f"{{{STEP}}}" not in self.checkpoints:
            rule = "says by {step} which step each checkpoint is of"
            raise SettingError("trainer.checkpoints", self.checkpoints, rule, "checkpoint-{step}")
        if (self.checkpoints is None) is not (not self.resume):
            rule = "go together: where checkpoints lie, and how the command resumes"
            given = self.checkpoints or "null"
            raise SettingError("trainer.checkpoints", given, f"and trainer.resume {rule}")

    def _check_names(self, setting: str, texts: Iterable[str], known: tuple[str, ...]) -> None:
        for text in texts:
            try:
                named = [
                    name for _, name, _, _ in string.Formatter().parse(text) if name is not None
                ]
            except ValueError as error:
                rule = f"{error}; a brace of its own is written twice"
                raise SettingError(f"trainer.{setting}", text, rule) from None
            for name in named:
                if name not in known:
                    rule = f"names {{{name}}}, and a run has {', '.join(known)}"
                    nearest = text.replace(f"{{{name}}}", f"{{{close(name, known, 1)[0]}}}")
                    raise SettingError(f"trainer.{setting}", text, rule, nearest)

    def names(self, name: str) -> bool:
        """Whether it is told that."""
        texts = (*self.command, *self.more, *(self.environment or {}).values())
        return any(f"{{{name}}}" in text for text in texts)

    @property
    def signal(self) -> signal.Signals:
        """The signal that asks it to stop."""
        return signal.Signals[self.stop_signal]


_EXAMPLE = """"trainer.command='python train.py --n {n} --batch {B} --steps {T}'\""""
