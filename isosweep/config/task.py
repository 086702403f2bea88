"""The settings of a task: what every kind has, and one nested group for each kind."""

import math
from dataclasses import dataclass
from typing import Any

from isosweep.config.difficulty import parse_difficulty
from isosweep.config.rules import distinct, one_of, positive, require
from isosweep.errors import SettingError

# Each is also the name of its nested group of settings.
TASK_KINDS = ("sort", "reasoning_gym", "math", "custom")


@dataclass(frozen=True, kw_only=True)
class SortConfig:
    """Digits to sort; `levels`: how many. `answer`: how a completion is read, `exact` (it is the
    sorted digits and nothing else) or `last_number` (its last run of digits)."""

    levels: list[int]
    answer: str

    def __post_init__(self) -> None:
        one_of("task.sort.answer", self.answer, ("exact", "last_number"))
        distinct("task.sort.levels", self.levels, 2, "sorting needs at least 2 digits")


@dataclass(frozen=True, kw_only=True)
class ReasoningGymConfig:
    """A generator of reasoning_gym by its name, and the parameters of that generator's config."""

    generator: str
    parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "size"):
            require(
                name not in (self.parameters or {}),
                f"task.reasoning_gym.parameters.{name}",
                (self.parameters or {}).get(name),
                "is set by isosweep",
                "task.data_seed=0" if name == "seed" else "task.num_train_problems=1024",
            )


@dataclass(frozen=True, kw_only=True)
class MathConfig:
    """Rows of a Hugging Face `dataset` (`subset`, `split`, `revision`), or of a JSON lines or
    Parquet file at `path`; `data_sha256` is that file's, filled in when the settings are read.

    `*_column` names what a row holds; without an id column a problem's id is a hash of its text.
    `answer_after`: the answer is what follows the last of these marks (GSM8K: `####`).
    `skip_unparseable` leaves out rows whose answer math-verify cannot read, else they are an error.
    """

    dataset: str | None = None
    subset: str | None = None
    split: str = "train"
    revision: str | None = None
    path: str | None = None
    data_sha256: str | None = None
    problem_column: str = "problem"
    answer_column: str = "answer"
    id_column: str | None = None
    level_column: str | None = None
    answer_after: str | None = None
    skip_unparseable: bool = False

    def __post_init__(self) -> None:
        require(
            (self.dataset is None) != (self.path is None),
            "task.math.path",
            self.path,
            f"problems come from either a path or a dataset (task.math.dataset={self.dataset})",
            "task.math.path=FILE.jsonl task.math.dataset=null",
        )
        if self.path is not None:
            require(
                self.path.endswith((".jsonl", ".parquet")),
                "task.math.path",
                self.path,
                "must be a .jsonl or .parquet file",
                "task.math.path=FILE.jsonl",
            )


@dataclass(frozen=True, kw_only=True)
class CustomConfig:
    """A function of your own, `package.module:function`, called with `parameters`.

    `directory` is added to the import path for it. docs/tasks.md has the function's signature.
    """

    function: str
    parameters: dict[str, Any] | None = None
    directory: str | None = None

    def __post_init__(self) -> None:
        module, _, name = self.function.partition(":")
        require(
            all(part.isidentifier() for part in [*module.split("."), name]),
            "task.custom.function",
            self.function,
            "must read package.module:function",
            "task.custom.function=my_package.my_tasks:my_function",
        )


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of the problems, of those with a measured success rate in [low, high]."""

    name: str
    low: float
    high: float
    share: float


def difficulty_shares(value: Any) -> tuple[Share, ...]:
    """What `task.difficulty` asks for: a name, [low, high], or a mix {name: share}.

    Narrow ranges come first, so that a wider one takes what they leave. Raises SettingError for
    anything else, and for shares that do not add up to 1.
    """
    setting = "task.difficulty"
    if not isinstance(value, dict):
        low, high = parse_difficulty(setting, value)
        name = value if isinstance(value, str) else f"[{low:g},{high:g}]"
        return (Share(name=name, low=low, high=high, share=1.0),)
    shares = []
    for name, share in value.items():
        low, high = parse_difficulty(setting, name)
        holds = isinstance(share, int | float) and not isinstance(share, bool) and share > 0
        rule, nearest = "gives each its share, a number above 0", f"{setting}={{hard:0.5,easy:0.5}}"
        require(holds, setting, value, rule, nearest)
        shares.append(Share(name=name, low=low, high=high, share=float(share)))
    total = math.fsum(share.share for share in shares)
    fixed = ",".join(f"{share.name}:{share.share / (total or 1):g}" for share in shares)
    rule = f"has shares that add up to {total:g}, not 1"
    nearest = f"{setting}={{{fixed}}}" if shares else f"{setting}=null"
    require(abs(total - 1) < 1e-5, setting, value, rule, nearest)
    return tuple(sorted(shares, key=lambda share: share.high - share.low))


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Problems whose answers can be checked. `kind` says where they come from and how they are
    checked, the group of that name how exactly.

    `template` is the prompt: it holds `{digits}` (sort) or `{problem}` (reasoning_gym, math); null
    is the problem as it stands. A score of `success_at` or more is a success in evaluation.
    `prompt_tokens` and `completion_tokens` are planned means per rollout, `max_completion_tokens`
    bounds a completion; `sort` alone may leave them null: one token a character, which is exact
    for the built-in model, and the longest answer + 1.

    `difficulty` (a name, [low, high], or a mix {name: share}) takes problems of which the base
    model solves that much, as `mode=difficulty` has measured; `selection_sha256` is the hash of
    the problems so chosen, filled in when the settings are read.
    """

    name: str
    kind: str
    template: str | None = None
    num_train_problems: int
    num_eval_problems: int
    data_seed: int
    success_at: float = 1.0
    difficulty: Any = None
    selection_sha256: str | None = None
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    max_completion_tokens: int | None = None
    sort: SortConfig | None = None
    reasoning_gym: ReasoningGymConfig | None = None
    math: MathConfig | None = None
    custom: CustomConfig | None = None

    def __post_init__(self) -> None:
        one_of("task.kind", self.kind, TASK_KINDS)
        for kind in TASK_KINDS:
            present = getattr(self, kind) is not None
            if present != (kind == self.kind):
                rule = f"task.kind={self.kind} {'has no' if present else 'needs this'} group"
                raise SettingError(
                    f"task.{kind}", "set" if present else "null", rule, f"task={self.kind}"
                )
        positive("task", self, "num_train_problems", "num_eval_problems", "prompt_tokens")
        positive("task", self, "completion_tokens", "max_completion_tokens")
        require(
            0 < self.success_at <= 1,
            "task.success_at",
            self.success_at,
            "is the score from which on a completion is a success: above 0, at most 1",
            "task.success_at=1",
        )
        if self.difficulty is not None:
            difficulty_shares(self.difficulty)
        if self.sort is not None:
            _check_sort(self, self.sort)
        else:
            self._check_tokens()
            _check_template(self.template, "{problem}", "task.template='{problem}'")

    def _check_tokens(self) -> None:
        examples = {
            "prompt_tokens": 200,
            "completion_tokens": self.max_completion_tokens or 512,
            "max_completion_tokens": 1024,
        }
        for name, example in examples.items():
            require(
                getattr(self, name) is not None,
                f"task.{name}",
                "null",
                f"must be given for task.kind={self.kind}: only `sort` knows its token counts",
                f"task.{name}={example}",
            )

    @property
    def planned_prompt_tokens(self) -> float:
        """Mean tokens of a prompt that the planner assumes."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        sort, template = self._sorting
        return len(template.replace("{digits}", "")) + _mean(sort.levels)

    @property
    def completion_limit(self) -> int:
        """Most tokens that a completion may have, end-of-sequence included."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        sort, _ = self._sorting
        return max(sort.levels) + 1

    @property
    def planned_completion_tokens(self) -> float:
        """Mean tokens of a completion that the planner assumes, end-of-sequence included."""
        if self.completion_tokens is not None:
            return min(self.completion_tokens, float(self.completion_limit))
        sort, _ = self._sorting
        return _mean(sort.levels) + 1

    @property
    def _sorting(self) -> tuple[SortConfig, str]:
        assert self.sort is not None
        assert self.template is not None
        return self.sort, self.template


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _check_template(template: str | None, place: str, example: str) -> None:
    holds = template is None or place in template
    require(holds, "task.template", template, f"must contain {place}", example)


def _check_sort(task: TaskConfig, sort: SortConfig) -> None:
    example = "task.template='s{digits}='"
    require(task.template is not None, "task.template", "null", "must contain {digits}", example)
    _check_template(task.template, "{digits}", example)
    total = task.num_train_problems + task.num_eval_problems
    each = math.ceil(total / len(sort.levels))
    # A quarter of all strings belongs to tasks; half of that leaves the drawing quick.
    most = 10 ** min(sort.levels) // 8
    enough = math.ceil(math.log10(8 * each))
    require(
        each <= most,
        "task.num_train_problems",
        task.num_train_problems,
        f"with task.num_eval_problems={task.num_eval_problems} it asks for {each} distinct "
        f"problems of each level, and level {min(sort.levels)} has room for {most}",
        f"task.sort.levels=[{','.join(str(max(enough, level)) for level in sort.levels)}]",
    )
