"""The frame of every benchmark: its options, goals and tables, and sweeps simulated at once."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from threadpoolctl import threadpool_limits


@dataclass(frozen=True)
class Goal:
    """A figure named `what` is to be at least, or at most, `limit`."""

    what: str
    sense: Literal["at least", "at most"]
    limit: float

    def met_by(self, figure: float) -> bool:
        """False for a figure that is not a number."""
        return figure >= self.limit if self.sense == "at least" else figure <= self.limit


def loosen(goals: dict[str, Goal], **by: float) -> None:
    """Move limits of goals by what chance does."""
    for name, more in by.items():
        goals[name] = replace(goals[name], limit=goals[name].limit + more)


class UsageError(Exception):
    """What was typed cannot be measured, and why."""


def benchmark(
    measure: Callable[[argparse.Namespace], Mapping[str, float]],
    goals: dict[str, Goal],
    quick: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Measure on one thread what the command line asks for, and print how the figures compare with
    their goals; with --check leave with 1 if one is missed. A goal without a figure is one of a
    part that this machine or these options left out.

    `options`, as they are typed: the default of each, with its help or without, or all keywords of
    `add_argument`. `--quick` puts `quick` in the place of their defaults.
    """
    parser = argparse.ArgumentParser(
        description=str(sys.modules["__main__"].__doc__).split("\n")[0]
    )
    for name, given in options.items():
        parser.add_argument(name, **_keywords(given))
    parser.add_argument("--quick", action="store_true", help="smaller: about two minutes")
    parser.add_argument("--check", action="store_true", help="exit status 1 where a goal is missed")
    parser.add_argument(
        "--goal",
        action="append",
        default=[],
        metavar="NAME=LIMIT",
        help=f"another limit of a goal, as on another machine: {', '.join(goals)}",
    )
    chosen = parser.parse_args()
    if chosen.quick:
        parser.set_defaults(**quick)
        chosen = parser.parse_args()
    for change in chosen.goal:
        name, _, limit = change.partition("=")
        if name not in goals:
            parser.error(f"--goal {change}: the goals are {', '.join(goals)}")
        goals[name] = replace(goals[name], limit=float(limit))
    try:
        with threadpool_limits(1):
            figures = measure(chosen)
    except UsageError as refused:
        parser.error(str(refused))
    missed = 0
    for name, figure in figures.items():
        goal = goals[name]
        met = goal.met_by(figure)
        missed += not met
        verdict = "met" if met else "MISSED"
        print(f"goal {name}: {goal.what} {figure:.4g}, {goal.sense} {goal.limit:g}: {verdict}")
    if chosen.check and missed:
        sys.exit(1)


def _keywords(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    default, text = given if isinstance(given, tuple) else (given, None)
    if default is False:
        return {"action": "store_true", "help": text}
    if isinstance(default, list):
        return {"nargs": "+", "default": default, "type": type(default[0]), "help": text}
    return {"default": default, "type": type(default), "help": text}


def table(*columns: str) -> Callable[..., None]:
    """Print the head of a table; what prints a row of it."""

    def row(*cells: object) -> None:
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    row(*columns)
    print("|---" * len(columns) + "|", flush=True)
    return row


def by_world(
    measure: Callable[..., Any],
    worlds: Sequence[str],
    jobs: Sequence[tuple[Any, ...]],
    processes: int,
) -> Iterator[tuple[str, list[Any]]]:
    """World after world, what `measure` finds in it with the arguments of each job."""
    with ProcessPoolExecutor(processes) as pool:
        of_worlds = {world: [pool.submit(measure, world, *job) for job in jobs] for world in worlds}
        for world, mine in of_worlds.items():
            yield world, [job.result() for job in mine]


def number(value: float | None, form: str) -> str:
    """In that form; a dash where there is none."""
    return "–" if value is None else format(value, form)
