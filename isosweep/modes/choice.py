"""Which runs of a plan the words of `runs` mean.

    runs=tiny-sort-n8-B4-s0-0a1b2c3d4e5f    a run's id, or any part of it
    runs=*-n8-*                             a pattern of ids
    runs=[running,queued]                   standings; of two words, with _ between them
    runs=[n:8,n:16,seed:0]                  values of n, B, seed and grid.axes

Words of one kind widen the choice, and several kinds narrow it: `[running,n:8,n:16]` are the
running ones with n = 8 or 16.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from isosweep.errors import SettingError
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.plan.tally import Standing

_STANDINGS = {standing.replace(" ", "_"): standing for standing in Standing}
# Examples that a refusal names.
_NAMED = 3


@dataclass(frozen=True)
class Choice:
    """What `runs` says. `standings` are to be compared by who knows them; empty: any."""

    runs: tuple[PlannedRun, ...]
    standings: frozenset[Standing]

    def holds(self, standing: Standing) -> bool:
        """Whether a run of this standing is meant."""
        return not self.standings or standing in self.standings


def choose(words: Sequence[str], plan: Plan) -> Choice:
    """The runs of `plan` that `words` choose; all of them where there is none.

    Raises SettingError for a word that fits no run.
    """
    standings, values, names = set(), dict[str, set[str]](), []
    for word in words:
        name, colon, value = word.partition(":")
        if (standing := _STANDINGS.get(word.replace(" ", "_"))) is not None:
            standings.add(standing)
        elif colon:
            values.setdefault(name, set()).add(value)
            _require(word, words, plan, [r for r in plan.runs if _value(r, name) == value])
        else:
            names.append(word)
            _require(word, words, plan, [r for r in plan.runs if _named(r, [word])])
    chosen = (
        run
        for run in plan.runs
        if (not names or _named(run, names))
        and all(_value(run, name) in wanted for name, wanted in values.items())
    )
    return Choice(runs=tuple(chosen), standings=frozenset(standings))


def _require(word: str, words: Sequence[str], plan: Plan, fitting: Sequence[PlannedRun]) -> None:
    if fitting:
        return
    given = words[0] if len(words) == 1 else f"[{','.join(words)}]"
    some = plan.runs[0]
    rule = (
        f"{word} fits none of the plan's {len(plan.runs)} runs: neither their ids nor a value "
        f"(n:{some.num_generations}) nor a standing ({', '.join(_STANDINGS)})"
    )
    nearest = ", ".join(f"runs={run.run_id}" for run in plan.runs[:_NAMED])
    raise SettingError("runs", given, rule, nearest)


def _value(run: PlannedRun, name: str) -> str | None:
    """The run's value of a setting as it is typed; None where it has none of that name."""
    known = {"n": run.num_generations, "B": run.problems_per_batch, "seed": run.seed}
    known |= {axis.rpartition(".")[2]: value for axis, value in run.axes.items()} | run.axes
    return str(known[name]) if name in known else None


def _named(run: PlannedRun, names: Collection[str]) -> bool:
    return any(
        fnmatchcase(run.run_id, name) if set(name) & set("*?[") else name in run.run_id
        for name in names
    )
