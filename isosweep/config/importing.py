"""How `mode=import` reads tables of runs that were trained elsewhere."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator

from isosweep.config.settings import settings
from isosweep.config.values import Positive


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


@settings("import")
class ImportConfig:
    """Which column of a table has what. Each setting is a column's name, or a number that all rows
    share; null: guessed from trainers' usual names (docs/import.md)."""

    n: Column = None
    """Rollouts per problem."""
    B: Column = None
    """Problems per batch."""
    completions: Column = None
    """Completions per batch, n x B, in place of B."""
    step: Column = None
    """Updates before the row."""
    seed: Column = None
    """Seed of the run. Without it, runs of one (n, B) are numbered."""
    run: Column = None
    """Name of the run. Without it, a run is one (n, B, seed)."""
    compute: Column = None
    """Compute before the row, in `budget_unit`. Without it, rollouts are n x B x step."""
    per_step: bool = False
    """`compute` counts each row alone, and is summed over the rows of a run."""
    prompt_tokens: Positive | None = None
    """Mean tokens of a prompt. With `model=` and a column of tokens, FLOPs are computed from it."""
    reward: Column = None
    """Held-out reward. Rows without one only count compute."""
    reward_range: Annotated[tuple[float, float] | None, BeforeValidator(_range)] = None
    """Lowest and highest possible reward, such as [0,100] for percentages; null: [0,1]. Rewards are
    kept as shares of this range."""
    standard_error: Column = None
    """Standard error of the reward, in its unit."""
    problems: Column = None
    """Number of held-out problems; with `samples` it gives a binomial standard error."""
    samples: Column = None
    """Completions sampled for each held-out problem."""
    successes: Column = None
    """How many of `samples` were right for each held-out problem: a list of whole numbers. Such
    rows need no reward."""
    sets: dict[str, str] | None = None
    """Rewards on further evaluation sets: each set's name and column."""
    runs: str | None = None
    """A table with a row for each run (columns `run`, n, B, seed), for logs that lack these."""
    experiment: str | None = None
    """Experiment of an MLflow store; null: the only one with runs."""
    reader: str | None = None
    """Reader of the files; null: chosen by their names. docs/import.md lists readers."""


def columns_of(config: ImportConfig) -> dict[str, Any]:
    """What each quantity was given as, by the name of its setting."""
    return {name: getattr(config, name) for name in QUANTITIES}


QUANTITIES = (
    *("n", "B", "completions", "step", "seed", "run", "compute", "reward"),
    *("standard_error", "problems", "samples", "successes"),
)
