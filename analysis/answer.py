"""`answer.json`: what was concluded from a sweep, as kinds and numbers; `isosweep.words` words it.

Search, modes, tracking and Python read it, and none of them draws a conclusion again.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from isosweep.analysis.outlook import Lack
from isosweep.analysis.pairs import NamedCell
from isosweep.analysis.readings import Gap
from isosweep.analysis.statistics.best_batch import BatchLaw
from isosweep.analysis.statistics.best_n import BestN, Choice
from isosweep.analysis.statistics.verdict import OpenEnd, Saturation, Verdict
from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject, read_json, to_json
from isosweep.metrics import MetricName
from isosweep.pricing import Pricing

ANSWER_VERSION: Final = 2


@dataclass(frozen=True, kw_only=True)
class Use:
    """The setting to use at one budget, and how sure that is."""

    num_generations: int
    """Rollouts per problem, n."""
    problems_per_batch: int
    """Problems per batch, B."""
    num_steps: int
    """Update steps, T."""
    budget: float
    """The budget it is for, in budget_unit."""
    limit: Literal["plan", "reached", "behind", "lost"]
    """Why that budget: plan: the plan's largest; reached: the largest that a run has reached;
    behind: the largest that runs of all n that may be best have reached; lost: the largest at which
    a run still has what it gained."""
    measured: float
    """Reward, mean over the seeds that keep their gain."""
    expected: float | None
    """Reward to expect of a new run; null without a spread between seeds."""
    interval: tuple[float, float] | None
    """Ends of its interval."""
    num_seeds: int
    """Seeds in measured."""
    num_fallen: int
    """Further seeds, which had collapsed or diverged by then."""
    probability_best: float | None
    """That no other n measured at this budget is better; null where no other was."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The best n at a budget smaller by a factor of two or more."""

    budget: float
    """In budget_unit."""
    factor: float
    """The answer's budget over this one."""
    num_generations: int
    """The best n there."""
    reward: float
    """Its reward: expected of a new run, where that is known."""
    gain: float
    """What the compute since then has added to the reward."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """best@k at the best (n, B): training may narrow what a model can solve."""

    k: int
    """Samples per problem."""
    now: float
    """In the last records of runs of the best (n, B), as far as they keep their gain."""
    before: float
    """Before training."""


@dataclass(frozen=True, kw_only=True)
class Rise:
    """The reward at the best n, before and after training."""

    reward: float
    """At the budget of the answer."""
    expected: bool
    """Whether that is the reward to expect of a new run; else it is measured."""
    before: float | None
    """Mean over runs before training; null without such records."""
    earlier: Earlier | None
    """The same at a smaller budget; null with none smaller by a factor of two."""
    coverage: Coverage | None
    """Null where records do not count several samples of each problem."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Compute of training, in budget_unit, and device time."""

    compute: float
    """By all runs together."""
    device_hours: float | None
    """Device time of training, as far as records have it."""
    planned: float
    """By the plan, if every run goes to its last budget."""
    budgets: tuple[float, ...]
    """Budgets of a run, ascending."""
    left: float
    """Still to be trained by runs that may go on."""
    search: Literal["on", "over"] | None
    """Whether a search that chooses runs goes on; null without one."""
    evaluation_hours: float | None = None
    """Device time of held-out evaluation, which compute and device_hours leave out, as far as
    records have it; absent in answers of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Fallen:
    """Runs of one n that lost for good what they had gained."""

    num_generations: int
    """Rollouts per problem, n."""
    collapsed: int
    """How many."""
    runs: int
    """Of how many."""


@dataclass(frozen=True, kw_only=True)
class NamedRun:
    """A run by what sets it apart."""

    num_generations: int
    """Rollouts per problem, n."""
    problems_per_batch: int
    """Problems per batch, B."""
    seed: int
    """Its seed."""


@dataclass(frozen=True, kw_only=True)
class Warned:
    """A rule of training's health, and the runs that broke it."""

    rule: str
    """Name of the rule."""
    runs: int
    """How many runs broke it."""
    named: tuple[NamedRun, ...]
    """Which; empty where they are many."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """How runs ended."""

    total: int
    """Runs of the plan."""
    standings: dict[str, int]
    """How many stand how, by standing."""
    collapsed: int
    """Of those done, how many lost for good what they had gained."""
    fallen: tuple[Fallen, ...]
    """By n, ascending; without the n that lost none."""
    fitted: int
    """Runs with records enough for a fit."""
    flat: int
    """Of those, how many show no rise above noise."""
    trained: int
    """Runs with a record."""
    warned: tuple[Warned, ...]
    """By rule, the commonest first."""
    too_short: int
    """Runs of fewer steps than rules of health need."""
    window: int
    """Those steps."""
    without_metrics: int = 0
    """Runs with records and no metrics of their steps, whose health nothing shows."""
    generations: tuple[int, ...]
    """Every n of the plan, ascending."""
    batches: tuple[int, ...]
    """Every B of the plan, ascending."""
    seeds: int
    """How many seeds."""


@dataclass(frozen=True, kw_only=True)
class AtEdge:
    """The n that is judged may lie beyond those that were run, or at n whose runs did not get so
    far or fell."""

    end: OpenEnd
    """Where."""
    kind: Literal["edge"] = "edge"


@dataclass(frozen=True, kw_only=True)
class Behind:
    """Runs of n that may be the best have not come as far as others."""

    n: tuple[int, ...]
    """Those n, ascending."""
    budget: float
    """The budget that they have not reached, in budget_unit."""
    kind: Literal["behind"] = "behind"


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Compute between two budgets at which no run is read: its records are too far apart."""

    gap: Gap
    """Where, and whether any record lies there."""
    kind: Literal["unread"] = "unread"


@dataclass(frozen=True, kw_only=True)
class CoarseMargin:
    """The margin is a large part of what training gained."""

    margin: float
    """Reward difference too small to matter."""
    gain: float
    """Reward at the answer's budget above that before training, or at the first budget read."""
    kind: Literal["coarse margin"] = "coarse margin"


@dataclass(frozen=True, kw_only=True)
class BestMoves:
    """The best n changes, though the smallest that is good enough does not; or the other way."""

    first: BestN
    """Both n at the budget from which on the verdict speaks."""
    last: BestN
    """Both n at the last budget."""
    moves: bool = True
    """Whether it is the best n that changes."""
    kind: Literal["best moves"] = "best moves"


@dataclass(frozen=True, kw_only=True)
class Collapsed:
    """Runs lost for good what they had gained."""

    fallen: tuple[Fallen, ...]
    """By n, ascending."""
    kind: Literal["collapsed"] = "collapsed"


@dataclass(frozen=True, kw_only=True)
class BrokenRecord:
    """A record that lies far from those beside it."""

    run: NamedRun
    """Its run."""
    step: int
    """Its step."""


@dataclass(frozen=True, kw_only=True)
class BrokenRecords:
    """Records that were left out: far from those beside them in the same run."""

    records: tuple[BrokenRecord, ...]
    """In the plan's order of runs, by step."""
    kind: Literal["broken records"] = "broken records"


@dataclass(frozen=True, kw_only=True)
class NotForNewProblems:
    """Of further problems of the same kind the verdict would be another."""

    verdict: Verdict
    """That verdict."""
    num_problems: int
    """Held-out problems that the answer's own verdict is of."""
    kind: Literal["new problems"] = "new problems"


@dataclass(frozen=True, kw_only=True)
class NoGain:
    """The last factor of compute brought nothing."""

    factor: float
    """The answer's budget over the earlier one."""
    gain: float
    """Change of the reward, 0 or less."""
    kind: Literal["no gain"] = "no gain"


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A search chose what was trained: its verdicts have been simulated less often."""

    begun: int
    """Runs that were trained."""
    runs: int
    """Runs of the grid."""
    share: float
    """Of the grid's compute, spent."""
    kind: Literal["searched"] = "searched"


@dataclass(frozen=True, kw_only=True)
class RewardsOnly:
    """Records have rewards and no successes of single problems, so that chance in the choice of
    problems and in their samples shows only as far as runs differ."""

    runs: int
    """How many runs that is so of."""
    single: int
    """(n, B) of which one seed alone was trained, so that nothing shows how runs differ."""
    kind: Literal["rewards only"] = "rewards only"


Caveat = (
    AtEdge
    | Behind
    | Unread
    | CoarseMargin
    | BestMoves
    | Collapsed
    | BrokenRecords
    | NotForNewProblems
    | NoGain
    | Searched
    | RewardsOnly
)


@dataclass(frozen=True, kw_only=True)
class NewRecipe:
    """Train with a recipe whose runs last: all of this one's have fallen."""

    kind: Literal["recipe"] = "recipe"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a next step takes, by what the sweep's own records have taken."""

    compute: float
    """Training compute, in budget_unit."""
    device_hours: float | None
    """Device time of training and evaluation; null where records do not have it."""


@dataclass(frozen=True, kw_only=True)
class GoOn:
    """Train runs of the plan further."""

    n: tuple[int, ...]
    """Runs of these n."""
    budget: float
    """Up to this budget, in budget_unit."""
    cost: Cost | None = None
    """What that takes."""
    kind: Literal["go on"] = "go on"


@dataclass(frozen=True, kw_only=True)
class AddN:
    """Add an n beside those of the grid."""

    n: int
    """The n."""
    settings: dict[str, list[int]]
    """Settings of `grid` with it, by name; empty where the grid's rules keep it out."""
    end: OpenEnd | None = None
    """Where the n that is judged may lie, which it would show."""
    cost: Cost | None = None
    """What its runs take: as much as those of the n beside it."""
    kind: Literal["add n"] = "add n"


@dataclass(frozen=True, kw_only=True)
class Enlarge:
    """Add what any verdict takes: n, budgets or seeds."""

    lacks: tuple[Lack, ...]
    """What the plan has too few of."""
    kind: Literal["enlarge"] = "enlarge"


@dataclass(frozen=True, kw_only=True)
class MoreProblems:
    """Evaluate on more held-out problems, so that the verdict holds for new ones of their kind."""

    problems: int
    """Held-out problems at which their choice adds at most a quarter of the seeds' variance to
    differences between n, rounded up to two digits."""
    setting: str | None
    """The setting that asks for them, as it is typed; null where the task has not as many."""
    num_problems: int
    """Held-out problems now."""
    added: float
    """What their choice adds now, over the seeds' variance."""
    cost: Cost | None = None
    """What it takes to train every run again."""
    kind: Literal["more problems"] = "more problems"


@dataclass(frozen=True, kw_only=True)
class SingleRuns:
    """Let `mode=next` value further runs one by one."""

    sweep: str
    """The sweep, as the setting `sweep` names it."""
    kind: Literal["single runs"] = "single runs"


NextStep = NewRecipe | GoOn | AddN | MoreProblems | Enlarge | SingleRuns


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Every n at one budget."""

    budget: float
    """In budget_unit."""
    choices: tuple[Choice, ...]
    """One per n, ascending, at its best B."""
    best: NamedCell
    """The best n and B."""
    missing: tuple[int, ...] = ()
    """The n of the plan that were not read at this budget, ascending."""
    fell: tuple[int, ...] = ()
    """The n of which all runs had fallen by this budget, ascending."""


@dataclass(frozen=True, kw_only=True)
class Answer(Saturation):
    """What an isosweep answer.json holds. n: rollouts per problem; B: problems per batch; T: update
    steps; n*: the best n. Rewards are held-out, from 0 to 1. Null: not known or not identified."""

    version: Literal[2] = ANSWER_VERSION
    """Version of this format. No unit."""
    plan_id: str | None
    """Hash of the plan that was analysed; null where the plan has none."""
    budget_unit: BudgetUnit
    """Unit of every compute in this file: flops, rollouts, tokens or device_hours."""
    confidence: float
    """Confidence of all intervals. A share."""
    metric: MetricName
    """Score of a problem's samples, @k."""
    evaluation_set: str | None
    """Which of evaluation.sets was analysed; null for the main evaluation."""
    optima: tuple[BestN, ...]
    """n* and the smallest n that is good enough, at every budget that was read, ascending."""
    caveats: tuple[Caveat, ...]
    """What the verdict and the setting must not be read without."""
    use: Use | None
    """The setting to use; null where no run has reached a budget, or all have fallen."""
    reward: Rise | None
    """The reward it reaches; null likewise."""
    generations: tuple[Choices, ...]
    """Every n at every budget, ascending."""
    batch_laws: tuple[BatchLaw, ...]
    """The best B against compute: one per n x B; empty unless n x B is fixed."""
    spent: Spent
    """Compute spent, planned and left."""
    runs: Runs
    """How many runs stand how, and what they broke."""
    next_steps: tuple[NextStep, ...]
    """What would make the answer surer, the first first."""
    collapsed: tuple[str, ...] = ()
    """Ids of the runs that lost for good more than half of what they had gained, in the plan's
    order. No unit."""
    problems: tuple[str, ...] = ()
    """Lines and files that could not be used, in words."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of `analysis.*`, those that change a number."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of isosweep, Python and the packages that computed this."""
    pricing: Pricing = field(default_factory=Pricing)
    """By what the plan's device time is priced: of `spent`, and of next steps; absent in answers of
    earlier versions."""

    @property
    def optimum(self) -> BestN | None:
        """n* and n_d at the budget of the setting to use; None without one."""
        return next((at for at in self.optima if self.use and at.budget == self.use.budget), None)

    def chosen_from(self) -> Choices:
        """Every n at the budget of the setting to use. Raises StopIteration without one."""
        return next(at for at in self.generations if self.use and at.budget == self.use.budget)

    @property
    def behind(self) -> tuple[int, ...]:
        """The n that may be the best and whose runs have not come as far as others, ascending."""
        return next((each.n for each in self.caveats if isinstance(each, Behind)), ())

    def document(self) -> JsonObject:
        """The answer as its file holds it, and as templates read it."""
        document: JsonObject = to_json(asdict(self))
        return document


def read_answer(path: Path) -> Answer | None:
    """Return the answer that a file holds; None without one, and for one of another version."""
    try:
        document = read_json(path)
        return None if document is None else TypeAdapter(Answer).validate_python(document)
    except ValidationError:
        return None
