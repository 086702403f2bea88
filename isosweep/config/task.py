"""The problems: what every kind of task has, a group for each kind, mixtures, data files."""

import hashlib
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator, model_validator

from isosweep.config.base import (
    Distinct,
    Named,
    NonNegative,
    Positive,
    PositiveInt,
    Settings,
    Whole,
    load,
)
from isosweep.config.base import Share as ScoreShare
from isosweep.config.difficulty import parse_difficulty
from isosweep.config.identity import OUTSIDE, Identity, identity
from isosweep.config.own_function import import_path
from isosweep.errors import SettingError


def _data_file(path: str) -> str:
    if not path.endswith((".jsonl", ".json", ".parquet")):
        raise ValueError("must be a .jsonl, .json or .parquet file")
    return path


class RowsConfig(Settings):
    """Rows of a Hugging Face dataset or of a file; the `*_column` settings name what a row has."""

    dataset: str | None = None
    """Name of a Hugging Face dataset; null with a `path`."""
    subset: str | None = None
    """Configuration (subset) of the dataset."""
    split: str = "train"
    """Split of the dataset."""
    revision: str | None = None
    """Revision of the dataset; null: the newest."""
    # A file's content counts (`data_sha256`), not where it lies.
    path: Annotated[Annotated[str, AfterValidator(_data_file)] | None, OUTSIDE] = None
    """JSON lines, a JSON list of rows, or Parquet; null with a `dataset`."""
    data_sha256: str | None = None
    """Hash of the file; filled in automatically."""
    problem_column: str | None = "problem"
    """Column of the problem's text, or of messages; dots lead into a column. null, for task.math:
    recognised from the first row, with the answer's."""
    id_column: str | None = None
    """Column of the problem's id; null: a hash of its text."""
    level_column: str | None = None
    """Column of the problem's level; null: no levels."""

    def _check(self) -> None:
        if (self.dataset is None) == (self.path is None):
            rule = f"beside {self.group}.dataset={self.dataset}: one of them is null, and one only"
            if self.path is None:
                rule = f"has to be given, a file, where {self.group}.dataset is null"
            raise SettingError(f"{self.group}.path", self.path, rule)


class MathConfig(RowsConfig, group="task.math"):
    """Rows whose answers math-verify checks."""

    answer_column: str | None = "answer"
    """Column of the answer; null together with `problem_column`."""
    answer_after: str | None = None
    """The answer follows the last of these marks (GSM8K: `####`); null: the whole column is the
    answer."""
    skip_unparseable: bool = False
    """Leave out rows whose answer math-verify cannot read, or reads as something else; otherwise
    they are an error."""

    def _check(self) -> None:
        super()._check()
        if (self.problem_column is None) != (self.answer_column is None):
            rule = f"beside task.math.problem_column={self.problem_column}: null is both or none"
            raise SettingError("task.math.answer_column", self.answer_column, rule)


class CodeConfig(RowsConfig, group="task.code"):
    """Rows with tests for Python programs, which run in a sandbox."""

    tests_column: str = "tests"
    """Column of the tests: inputs and outputs, or assert statements."""
    entry_point_column: str | None = None
    """Column with the name of the function that the tests' `check(candidate)` receives; null: tests
    call functions by name."""
    skip_unusable: bool = False
    """Leave out rows whose tests cannot be used; otherwise they are an error."""
    time_limit_s: Positive = 10.0
    """Seconds for all tests of one program."""
    memory_mb: Annotated[Whole, Ge(128), Le(8000)] = 1024
    """Memory of one program, in MB; Python alone takes 128."""


# Each is also the name of its nested group of settings.
Kind = Literal["sort", "reasoning_gym", "math", "code", "custom", "mixture"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of rollouts: the mean prompt, the mean completion, and the `longest` completion."""

    prompt: float
    completion: float
    longest: float


class SortConfig(Settings, group="task.sort"):
    """Digits to sort."""

    levels: Distinct[Annotated[Whole, Ge(2)]]
    """Numbers of digits. Each has equally many problems."""
    answer: Literal["exact", "last_number"]
    """What counts as the answer: `exact`, the whole completion; `last_number`, its last run of
    digits."""


def _finite(values: Any) -> bool:
    """Whether every number in nested dictionaries and lists is one."""
    match values:
        case dict():
            return all(map(_finite, values.values()))
        case list():
            return all(map(_finite, values))
        case float():
            return math.isfinite(values)
        case _:
            return True


def _parameters(values: dict[str, Any]) -> dict[str, Any]:
    if not _finite(values):
        raise ValueError("has a number that is not finite: no file of a run can hold it")
    return values


_Parameters = Annotated[dict[str, Any], AfterValidator(_parameters)]


class ReasoningGymConfig(Settings, group="task.reasoning_gym"):
    """A generator of the package reasoning_gym."""

    generator: str
    """The generator's name."""
    parameters: _Parameters | None = None
    """The generator's parameters, except seed and size."""

    def _check(self) -> None:
        for name, by in (("seed", "task.data_seed"), ("size", "task.num_train_problems")):
            if name in (self.parameters or {}):
                setting = f"task.reasoning_gym.parameters.{name}"
                value = (self.parameters or {})[name]
                raise SettingError(setting, value, f"is set by isosweep, from {by}")


class CustomConfig(Settings, group="task.custom"):
    """Problems and scores from your function; docs/tasks.md has an example."""

    function: Annotated[str, AfterValidator(import_path)]
    """The function, `package.module:function`."""
    parameters: _Parameters | None = None
    """Keyword arguments of the function."""
    # What the function gives counts, not where it lies.
    directory: Annotated[str | None, OUTSIDE] = None
    """Directory that is added to the import path to find it."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of the problems, of those with a measured success rate in [low, high]."""

    name: str
    low: float
    high: float
    share: float


def difficulty_shares(value: Any) -> tuple[Share, ...]:
    """What `task.difficulty` asks for: a name, [low, high], or a mix {name: share}.

    Narrow ranges come first, so that a wider one takes what they leave. Raises ValueError for
    anything else, and for shares that do not add up to 1.
    """
    if not isinstance(value, dict):
        low, high = parse_difficulty(value)
        name = value if isinstance(value, str) else f"[{low:g},{high:g}]"
        return (Share(name=name, low=low, high=high, share=1.0),)
    shares = []
    for name, share in value.items():
        low, high = parse_difficulty(name)
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise ValueError("gives each its share, a number above 0")
        shares.append(Share(name=name, low=low, high=high, share=float(share)))
    total = math.fsum(share.share for share in shares)
    if not abs(total - 1) < 1e-5:
        raise ValueError(f"has shares that add up to {total:g}, not 1")
    return tuple(sorted(shares, key=lambda share: share.high - share.low))


def _difficulty(value: Any) -> Any:
    if value is not None:
        difficulty_shares(value)
    return value


def load_tasks(tasks: Any, place: str) -> Any:
    """Settings of tasks by name as tasks, whose errors name settings of `place`, a format string
    of the name."""
    if not isinstance(tasks, dict):
        return tasks
    loaded = {}
    for name, task in tasks.items():
        if isinstance(task, dict) and "kind" not in task:
            choice = f"+task@{place.format(name)}=CHOICE"
            raise SettingError(place.format(name), task, "has to be a whole task", choice)
        with errors_at(place.format(name)):
            loaded[name] = load(TaskConfig, task) if isinstance(task, dict) else task
    return loaded


@contextmanager
def errors_at(place: str, group: str = "task") -> Iterator[None]:
    """Name settings of the `group` in errors as those of the one at `place`."""

    def placed(text: str) -> str:
        return re.sub(rf"(?<![\w.@]){group}\.", f"{place}.", text)

    try:
        yield
    except SettingError as error:
        texts = placed(error.rule), placed(error.nearest)
        raise SettingError(placed(error.setting), error.value, *texts) from None


PARTS = "task.mixture.parts"


class MixtureConfig(Settings, group="task.mixture"):
    """Several tasks (parts) in one run."""

    parts: Annotated[
        Named["TaskConfig"],
        BeforeValidator(lambda parts: load_tasks(parts, f"{PARTS}.{{}}")),
        Identity(by="part_identities"),
    ]
    """The parts by name, each with all settings of a task; none is a mixture."""
    shares: Annotated[Named[NonNegative] | None, Identity(by="share_of")] = None
    """Share of each part in the problems drawn, by name; null: equal shares."""

    def _check(self) -> None:
        if not self.parts:
            raise SettingError(PARTS, "{}", f"has no part, as +task@{PARTS}.digits=sort adds one")
        for name, part in self.parts.items():
            if part.mixture is not None:
                rule = "a part of a mixture is no mixture itself"
                raise SettingError(f"{PARTS}.{name}.kind", "mixture", rule)
        if self.shares is None:
            return
        rule, total = "", math.fsum(self.shares.values())
        if self.shares.keys() != self.parts.keys():
            rule = f"gives each part its share: {', '.join(self.parts)}; one of 0 is only evaluated"
        elif not abs(total - 1) < 1e-5:
            rule = f"has shares that add up to {total:g}, not 1"
        if rule:
            raise SettingError("task.mixture.shares", self.shares, rule)

    @cached_property
    def share_of(self) -> dict[str, float]:
        """Share of each part, by its name, in order: they add up to 1."""
        given = self.shares or dict.fromkeys(self.parts, 1.0)
        total = math.fsum(given.values())
        return {name: given[name] / total for name in sorted(self.parts)}

    @property
    def part_identities(self) -> dict[str, Any]:
        """What of each part changes the numbers of a run."""
        return {name: identity(part) for name, part in self.parts.items()}


class TaskConfig(Settings, group="task"):
    """Problems whose answers can be checked.

    `sort` alone may leave token counts null: one token a character, which is exact for the built-in
    model, and the longest answer + 1. Planned means are outside a run's identity.
    """

    name: Annotated[str, OUTSIDE]
    """Name in tables and run names."""
    kind: Kind
    """Where problems come from and how they are checked. The group of that name has its
    settings."""
    template: str | None = None
    """The prompt, with `{digits}` (`sort`) or `{problem}` (all others); null: the problem alone."""
    num_train_problems: PositiveInt
    """Number of distinct problems to train on."""
    num_eval_problems: PositiveInt
    """Number of distinct held-out problems."""
    data_seed: Whole = 0
    """Random seed that chooses the problems."""
    success_at: ScoreShare = 1.0
    """Lowest score that counts as a success in evaluation."""
    # Only the problems that it came to count (`selection_sha256`).
    difficulty: Annotated[Any, AfterValidator(_difficulty), OUTSIDE] = None
    """Train only on problems with these success rates of the base model, measured by
    `mode=difficulty`: a name (`hard`), [low, high], or shares {name: share}; null: all problems."""
    selection_sha256: str | None = None
    """Hash of the problems so chosen, filled in when the settings are read."""
    prompt_tokens: Annotated[Positive | None, OUTSIDE] = None
    """Mean length of a prompt, in tokens, that the plan assumes."""
    completion_tokens: Annotated[Positive | None, OUTSIDE] = None
    """Mean length of an answer, in tokens, with its end, that the plan assumes."""
    max_completion_tokens: Annotated[PositiveInt | None, Identity(by="completion_limit")] = None
    """Longest answer, in tokens; longer ones are cut off."""
    sort: SortConfig | None = None
    """Of `kind=sort`."""
    reasoning_gym: ReasoningGymConfig | None = None
    """Of `kind=reasoning_gym`."""
    math: MathConfig | None = None
    """Of `kind=math`."""
    code: CodeConfig | None = None
    """Of `kind=code`."""
    custom: CustomConfig | None = None
    """Of `kind=custom`."""
    mixture: MixtureConfig | None = None
    """Of `kind=mixture`."""

    @model_validator(mode="before")
    @classmethod
    def _sum_of_parts(cls, values: Any) -> Any:
        """A mixture's numbers of problems: the sums of its parts'."""
        mixture = values.get("mixture") if isinstance(values, dict) else None
        if isinstance(mixture, dict):
            mixture = load(MixtureConfig, mixture)
        if not isinstance(mixture, MixtureConfig):
            return values
        sums = {}
        for name in ("num_train_problems", "num_eval_problems"):
            sums[name] = sum(getattr(part, name) for part in mixture.parts.values())
            if values.get(name) not in (None, sums[name]):
                rule = f"is the sum of the parts', {sums[name]}: set each part's own"
                nearest = f"{PARTS}.{next(iter(mixture.parts))}.{name}={values[name]}"
                raise SettingError(f"task.{name}", values[name], rule, nearest)
        return {**values, **sums, "mixture": mixture}

    def _check(self) -> None:
        for kind in KINDS:
            present = getattr(self, kind) is not None
            if present != (kind == self.kind):
                rule = f"task.kind={self.kind} {'has no' if present else 'needs this'} group"
                value = "set" if present else "null"
                raise SettingError(f"task.{kind}", value, rule)
        if self.mixture is not None:
            _check_mixture(self)
        elif self.sort is not None:
            _check_sort(self, self.sort)
        else:
            self._check_tokens()
            _check_template(self.template, "{problem}")

    def _check_tokens(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "max_completion_tokens"):
            if getattr(self, name) is None:
                kind = self.kind
                rule = f"must be given for task.kind={kind}: only `sort` knows its token counts"
                raise SettingError(f"task.{name}", "null", rule)

    @cached_property
    def parts(self) -> dict[str, "TaskConfig"]:
        """The parts of a mixture by name, in order; of another task none.

        Its longest completion holds for all: TRL samples a batch with one limit.
        """
        own, limit = self.mixture.parts if self.mixture else {}, {}
        if own:
            limit = {"max_completion_tokens": self.completion_limit}
        return {name: own[name].model_copy(update=limit) for name in sorted(own)}

    def _mean(self, of_part: str) -> float:
        """The parts' mean of a property, by their shares."""
        assert self.mixture is not None
        shares = self.mixture.share_of
        return math.fsum(shares[n] * getattr(part, of_part) for n, part in self.parts.items())

    @property
    def scarcest(self) -> tuple[str, "TaskConfig"]:
        """The part of a mixture that is gone through first, and its name; else the task, without
        one."""
        draws = {name: self._draws(name) for name in self.parts}
        name = min(draws, key=lambda part: draws[part], default="")
        return name, self.parts.get(name, self)

    @property
    def epoch_draws(self) -> float:
        """Problems that are drawn, at least, until one would be drawn again."""
        name, part = self.scarcest
        return self._draws(name) if name else part.num_train_problems

    def _draws(self, name: str) -> float:
        """Problems that are drawn, of all parts, until those of one are gone through."""
        assert self.mixture is not None
        share = self.mixture.share_of[name]
        # A share is rounded: 3 problems at 0.1 are 30 draws.
        return round(self.parts[name].num_train_problems / share, 6) if share else math.inf

    @property
    def rows(self) -> RowsConfig | None:
        """Where its rows come from, of a task that has rows."""
        return self.math or self.code

    @property
    def planned_prompt_tokens(self) -> float:
        """Mean tokens of a prompt that the planner assumes."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        if self.mixture is not None:
            return self._mean("planned_prompt_tokens")
        sort, template = self._sorting
        return len(template.replace("{digits}", "")) + _mean(sort.levels)

    @property
    def completion_limit(self) -> int:
        """Most tokens that a completion may have, end-of-sequence included."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        if self.mixture is not None:
            return max(part.completion_limit for part in self.mixture.parts.values())
        sort, _ = self._sorting
        return max(sort.levels) + 1

    @property
    def planned_completion_tokens(self) -> float:
        """Mean tokens of a completion that the planner assumes, end-of-sequence included."""
        if self.completion_tokens is not None:
            return min(self.completion_tokens, float(self.completion_limit))
        if self.mixture is not None:
            return self._mean("planned_completion_tokens")
        sort, _ = self._sorting
        return _mean(sort.levels) + 1

    @property
    def lengths(self) -> Lengths:
        """Tokens of rollouts that the planner assumes."""
        return Lengths(
            prompt=self.planned_prompt_tokens,
            completion=self.planned_completion_tokens,
            longest=float(self.completion_limit),
        )

    @property
    def _sorting(self) -> tuple[SortConfig, str]:
        assert self.sort is not None
        assert self.template is not None
        return self.sort, self.template


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


# What a mixture leaves to its parts, and what it has itself.
_OF_PARTS = {"template": None, "success_at": 1.0, "difficulty": None, "data_seed": 0}


def _check_mixture(task: TaskConfig) -> None:
    part = next(iter(task.parts))
    for name, none in _OF_PARTS.items():
        if (value := getattr(task, name)) != none:
            rule = f"is each part's own, as task.mixture.parts.{part}.{name}"
            raise SettingError(f"task.{name}", value, rule)


def _check_template(template: str | None, place: str) -> None:
    if template is not None and place not in template:
        raise SettingError("task.template", template, f"must contain {place}")


def _check_sort(task: TaskConfig, sort: SortConfig) -> None:
    _check_template(task.template or "", "{digits}")
    total = task.num_train_problems + task.num_eval_problems
    each = math.ceil(total / len(sort.levels))
    # A quarter of all strings belongs to tasks; half of that leaves the drawing quick.
    most = 10 ** min(sort.levels) // 8
    if each > most:
        raise SettingError(
            "task.num_train_problems",
            task.num_train_problems,
            f"with task.num_eval_problems={task.num_eval_problems} it asks for {each} distinct "
            f"problems of each level, and level {min(sort.levels)} of task.sort.levels has room "
            f"for {most}",
        )


_KINDS = ("math", "code")
# Settings that name a data file.
PATHS = tuple(f"task.{kind}.path" for kind in _KINDS)


def find_data(task: dict[str, Any]) -> None:
    """Make the paths of a task, and of a mixture's parts, absolute; take sha256 of data files."""
    for kind, setting in zip(_KINDS, PATHS, strict=True):
        source = task.get(kind)
        if source and source.get("path") is not None:
            source["path"] = str(Path(source["path"]).absolute())
            source["data_sha256"] = file_sha256(setting, source["path"])
    own = task.get("custom")
    if own and own.get("directory") is not None:
        own["directory"] = str(Path(own["directory"]).absolute())
    for name, part in ((task.get("mixture") or {}).get("parts") or {}).items():
        if isinstance(part, dict):
            with errors_at(f"{PARTS}.{name}"):
                find_data(part)


def file_sha256(setting: str, path: str) -> str:
    """Sha256 of the file at `path`. Raises SettingError where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SettingError(setting, path, f"cannot be read ({error.strerror})") from None
