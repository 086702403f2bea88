"""How `mode=import` reads tables of runs that were trained elsewhere."""

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from isosweep.config.base import Settings
from isosweep.config.overrides import typed


def _column(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    raise ValueError("names a column, or is a number that all rows share")


def _range(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    numbers = isinstance(value, list | tuple) and all(type(end) in (int, float) for end in value)
    if not numbers or len(value) != 2 or not -math.inf < value[0] < value[1] < math.inf:
        raise ValueError("is [lowest,highest], two numbers, as [0,100] of percentages")
    return float(value[0]), float(value[1])


# A column by name, a number that all rows share, or null: guessed from the usual names.
Column = Annotated[str | float | None, BeforeValidator(_column)]
QUANTITIES = (
    *("n", "B", "completions", "step", "seed", "run", "compute", "reward"),
    *("standard_error", "problems", "samples", "successes"),
)


class ImportConfig(Settings, group="import"):
    """What a table of runs that were trained elsewhere has in its columns (docs/import.md)."""

    columns: dict[Literal[QUANTITIES], Column] | None = None  # type: ignore[valid-type]
    """Columns by quantity, such as {n: rollout.n, B: 64}: a column's name, or a number that all
    rows share; others are guessed from trainers' usual names. `completions` is n x B, in place of
    B. `seed`: without it, runs of one (n, B) are numbered. `run`: without it, a run is one (n, B,
    seed). `compute`: before the row, in `budget_unit`; without it, n x B x step rollouts.
    `reward`: held-out; rows without one only count compute. `standard_error`: of the reward.
    `successes`: for each held-out problem, how many of `samples` were right, in place of a reward.
    `problems` and `samples`: their numbers, for a binomial standard error."""
    per_step: bool = False
    """`compute` counts each row alone, and is summed over the rows of a run."""
    reward_range: Annotated[tuple[float, float] | None, BeforeValidator(_range)] = None
    """Lowest and highest possible reward, such as [0,100] for percentages; null: [0,1]. Rewards are
    kept as shares of this range."""
    sets: dict[str, str] | None = None
    """Rewards on further evaluation sets: each set's name and column."""
    runs: str | None = None
    """A table with a row for each run (columns `run`, n, B, seed), for logs that lack these."""
    experiment: str | None = None
    """Experiment of an MLflow store; null: the only one with runs."""
    reader: str | None = None
    """Reader of the files; null: chosen by their names. docs/import.md lists readers."""


def columns_of(config: ImportConfig) -> dict[str, Any]:
    """The column that is given for each quantity, None where it is guessed."""
    given = config.columns or {}
    return {name: given.get(name) for name in QUANTITIES}


def columns_typed(quantity: str, column: str) -> str:
    """Return the override that reads `quantity` from `column`, as it is typed."""
    return f"import.columns={typed({quantity: column})}"
