"""The two tables of a paper: the best n at every budget, and what to set there."""

from typing import Literal, get_args

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.frontier import BudgetFrontier
from isosweep.analysis.statistics.optima import BestGenerations
from isosweep.config.choices import one_of
from isosweep.door.best_n import NAt, Symbol, of_symbol
from isosweep.door.latex import number, reward, table, text
from isosweep.words.numbers import UNITS, listed

PaperTable = Literal["frontier", "settings"]
# Of a budget, which has more digits in a plan than in a paper.
_DIGITS = 3


def to_latex(
    which: PaperTable, name: str, data: SweepData, findings: Findings, margin: float
) -> str:
    """One of the two tables, at the plan's own budgets. Raises SettingError for another name."""
    one_of("table", which, get_args(PaperTable))
    # Smaller budgets are read as well; no cell was planned for them.
    own = {budget for run in data.plan.runs for budget in run.milestones}
    budgets = [at for at in findings.frontier.budgets if at.budget in own]
    compute = f"compute ({UNITS[data.plan.budget_unit]})"
    label = f"tab:{'-'.join(name.split())}-{which}"
    sure = rf"{findings.frontier.confidence * 100:.0f}\%"
    if which == "settings":
        return table(
            (compute, "$n$", "$B$", "$T$", "learning rate", "seeds", "as good"),
            [_setting(at, data) for at in budgets],
            caption="What to set at each compute budget: $n$ rollouts per problem, $B$ problems "
            "per batch, $T$ update steps. As good: other $n$ whose reward cannot be distinguished.",
            label=label,
        )
    optima = {each.budget: each for each in findings.saturation.optima}
    return table(
        (compute, "$n^*$", "$n_d$", "held-out reward"),
        [_optimum(at, optima[at.budget]) for at in budgets],
        caption="Rollouts per problem at each compute budget: $n^*$ has the highest expected "
        f"reward, $n_d$ is the smallest $n$ that loses at most {margin:g} of reward. Medians with "
        rf"{sure} intervals; $+$ and $\le$: $n$ may lie beyond those that were run.",
        label=label,
    )


def _optimum(at: BudgetFrontier, optimum: BestGenerations) -> tuple[str, ...]:
    best = at.best
    expected = best.cell.mean if best.expected is None else best.expected
    return (
        number(at.budget, _DIGITS),
        _n(optimum, "n*") or text("{" + listed(optimum.candidates, ",") + "}"),
        _n(optimum, "n_d") or number(None),
        reward(expected, best.interval),
    )


def _n(optimum: BestGenerations, symbol: Symbol) -> str:
    """An n with its interval; "" without a spread between seeds."""
    found = of_symbol(optimum, symbol)
    return "" if found is None else NAt.of(optimum.budget, found).latex


def _setting(at: BudgetFrontier, data: SweepData) -> tuple[str, ...]:
    best = at.best
    pair = best.num_generations, best.cell.problems_per_batch
    rates = {
        run.learning_rate
        for run in data.plan.runs
        if (run.num_generations, run.problems_per_batch) == pair
    }
    others = [n for n in at.candidates if n != best.num_generations]
    return (
        number(at.budget, _DIGITS),
        *map(str, pair),
        f"{best.cell.num_steps}",
        number(rates.pop() if len(rates) == 1 else None),
        f"{best.cell.num_seeds}",
        ", ".join(map(str, others)) or number(None),
    )
