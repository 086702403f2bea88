"""What each benchmark has in common: its goals, and the flags --quick, --check and --goal."""

import argparse
import sys
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Goal:
    """A figure named `what` is to be at least, or at most, `limit`."""

    what: str
    sense: Literal["at least", "at most"]
    limit: float

    def met_by(self, figure: float) -> bool:
        """False for a figure that is not a number."""
        return figure >= self.limit if self.sense == "at least" else figure <= self.limit


def parse(
    parser: argparse.ArgumentParser, goals: dict[str, Goal], quick: dict[str, Any]
) -> argparse.Namespace:
    """The command line's options; `--quick` puts `quick` in the place of their defaults."""
    parser.add_argument("--quick", action="store_true", help="smaller: about two minutes")
    parser.add_argument("--check", action="store_true", help="exit status 1 where a goal is missed")
    parser.add_argument(
        "--goal",
        action="append",
        default=[],
        metavar="NAME=LIMIT",
        help=f"another limit of a goal, as on another machine: {', '.join(goals)}",
    )
    options = parser.parse_args()
    if options.quick:
        parser.set_defaults(**quick)
        options = parser.parse_args()
    for change in options.goal:
        name, _, limit = change.partition("=")
        if name not in goals:
            parser.error(f"--goal {change}: the goals are {', '.join(goals)}")
        goals[name] = Goal(goals[name].what, goals[name].sense, float(limit))
    return options


def judge(goals: dict[str, Goal], figures: dict[str, float], options: argparse.Namespace) -> None:
    """Print how `figures` compare with their goals; with --check leave with 1 if one is missed.

    A goal without a figure is one of a part that this machine or these options left out.
    """
    missed = 0
    for name, figure in figures.items():
        goal = goals[name]
        met = goal.met_by(figure)
        missed += not met
        verdict = "met" if met else "MISSED"
        print(f"goal {name}: {goal.what} {figure:.4g}, {goal.sense} {goal.limit:g}: {verdict}")
    if options.check and missed:
        sys.exit(1)
