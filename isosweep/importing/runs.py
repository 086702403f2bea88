"""Runs of a table: what of its rows is one run, and whether they can be what they are said to be.

Nothing is repaired in silence: what is left out or worked out is a `Note`, and what cannot be right
is refused with the row that shows it.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from isosweep.config.study import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import Columns, first_names
from isosweep.importing.table import Table
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rewards beyond their range by this much are off by more than rounding.
_ROUNDING = 1e-9
# Of evaluations that are logged again, a share that no resumed run has.
_MANY = 0.5
# Rows of a table that is not in the order of its steps fall more often than one in so many.
_IN_ORDER = 4
# Rows that evaluations which end out of order go back over, at most.
_JUMP = 2
# Steps beyond this are seconds since 1970, or milliseconds.
_CLOCK = 1e9
# A table has only evaluations if so many of its steps have a reward; evaluations are regular if so
# many of their distances are the same.
_DENSE, _REGULAR = 2 / 3, 2 / 3
# Runs that a note names.
_NAMED = 4
# Costs of a rollout that differ by this factor are of two units, or of two questions.
_TWO_UNITS = 100.0
# Usual names of settings that make runs of one (n, B) runs of another question.
_SETTINGS = ("learning_rate", "lr", "model", "model_name", "model_name_or_path", "model.path")


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignRun:
    """A run that was trained elsewhere: its evaluations by step, as far as the table has them.

    `steps`, `compute` (in the budgets' unit), `rewards` and `errors` (None: not known) are
    (records,), rewards as shares of their range; `successes`: (records, problems), of `samples`
    each, where they are known; `sets`: rewards on further evaluation sets, nan where there is none.
    """

    name: str
    num_generations: int
    problems_per_batch: int
    seed: int
    steps: Ints
    compute: Floats
    rewards: Floats
    errors: Floats | None = None
    successes: tuple[tuple[int, ...], ...] = ()
    samples: int = 1
    sets: dict[str, Floats] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[int, int]:
        """n and B."""
        return self.num_generations, self.problems_per_batch

    @property
    def digest(self) -> str:
        """Hash of all that was read of it: the same table again makes the same run."""
        sizes = [self.num_generations, self.problems_per_batch, self.seed, self.samples]
        known = {**self.sets, "steps": self.steps, "compute": self.compute, "rewards": self.rewards}
        if self.errors is not None:
            known["errors"] = self.errors
        arrays = {name: of.tolist() for name, of in known.items()}
        text = json.dumps([self.name, sizes, arrays, self.successes])
        return hashlib.sha256(text.encode()).hexdigest()


def read_runs(
    frame: "pandas.DataFrame", columns: Columns, config: ImportConfig, *, least: int = 2
) -> tuple[list[ForeignRun], list[Note]]:
    """The table's runs, by n, B and seed, and what was done to read them; a run has `least` rewards
    or more.

    Raises SettingError for values that cannot be what their column is said to be.
    """
    table = Table(frame, columns, config)
    notes: list[Note] = []
    _require_steps(table)
    kept = _evaluations(table, notes)
    runs = [_make_run(table, code, own, notes, least) for code, own in enumerate(kept)]
    found = [run for run in runs if run is not None and run.num_generations > 1]
    if lone := [run for run in runs if run is not None and run.num_generations == 1]:
        notes.append(Note(kind="lone n", count=len(lone), example=lone[0].name))
    if empty := [table.names[code] for code, run in enumerate(runs) if run is None]:
        notes.append(Note(kind="no reward", count=len(empty), example=empty[0]))
    if not found:
        _refuse_all(table, [code for code, own in enumerate(kept) if len(own) >= least])
    _require_one_unit(found, columns)
    if columns.found.get(table.scored) == "reward" and "reward" in columns.guessed:
        notes.append(Note(kind="training reward"))
    notes += [*table.notes, *_other_settings(table, found)]
    return _with_seeds(found, notes), notes


def _refuse_all(table: Table, rewarded: list[int]) -> NoReturn:
    """Raise SettingError about a table without one run. `rewarded`: those with enough rewards."""
    given = table.columns.found
    if not rewarded:
        raise SettingError(
            f"import.columns.{table.scored}", given[table.scored], "no run has two rewards by it"
        )
    spent = table.rows.groupby("run")["compute"].any()
    if "compute" not in given or spent[rewarded[0]]:
        raise SettingError("import.columns.n", given["n"], "every run with two rewards has n = 1")
    rule = f"{len(rewarded)} runs have rewards and no compute ({table.names[rewarded[0]]})"
    if spent.any():
        others = f"{spent.sum()} have compute and no two rewards"
        rule += f", {others} ({table.names[spent.argmax()]})"
    nearest = "logs with both in each run, or budget_unit=rollouts, which are n x B x step"
    raise SettingError("import.columns.compute", given["compute"], rule, nearest)


def _require_steps(table: Table) -> None:
    """Complete steps by rollouts where no column has them. Raises SettingError for what is none."""
    if not table.columns.has("step"):
        # Every rollout is counted, so that a step is n x B of them.
        if table.columns.unit != "rollouts":
            rule = "no column has a usual name of optimiser steps"
            raise SettingError("import.columns.step", "null", rule, "import.columns={step:COLUMN}")
        sizes = np.array([np.prod(table.size(code)) for code in range(len(table.names))])
        table.rows["step"] = np.round(table.rows["compute"] / sizes[table.run])
    steps = table.rows["step"].dropna()
    for row, step in steps[(steps < 0) | (steps % 1 != 0) | (steps >= _CLOCK)].items():
        given = table.columns.found.get("step", "null")
        what = "a time in seconds" if step >= _CLOCK else "no count of steps"
        raise SettingError("import.columns.step", given, f"row {row + 1} has {step:g}, {what}")


def _evaluations(table: Table, notes: list[Note]) -> list["pandas.DataFrame"]:
    """Rows of every run that are evaluations, one a step, by step, with what it had spent there.

    Raises SettingError for compute that falls.
    """
    kept = []
    repeats, filled, twice = Counter[str](), Counter[str](), Counter[str]()
    # Of rows that are the same the first counts: no start that only repeats them replaces others.
    same = Counter[str]()
    back: dict[int, str] = {}
    untold = not (table.columns.has("run") or table.columns.has("seed"))
    for code, name in enumerate(table.names):
        rows = table.rows[(table.run == code) & table.rows["step"].notna()]
        if table.columns.has("compute"):
            spent, filled[name], twice[name] = _compute_spent(table, code, rows)
            rows = rows.assign(compute=spent)
        own = rows[rows["scored"] & ~rows["again"]]
        same[name] = int((rows["scored"] & rows["again"]).sum())
        valid = valid_rows(own["step"].to_numpy())
        if not valid.all():
            lost = own["step"][~valid]
            back[code] = f"{name} from step {int(lost.max())} to {int(lost.min())}"
        own = own[valid | untold]
        kept.append(_last_of_steps(own))
        repeats[name] = len(own) - len(kept[-1])
    if untold:
        _require_runs_apart(repeats.total(), sum(map(len, kept)), [*back.values()])
    for kind, of in (
        ("repeated", repeats + same),
        ("interpolated", filled),
        ("summed once", twice),
    ):
        if total := of.total():
            notes.append(Note(kind=kind, count=total, example=of.most_common(1)[0][0]))
    for kind, texts in (
        ("went back", [*back.values()]),
        ("no number", _lost_evaluations(table, kept, back)),
    ):
        if texts:
            notes.append(Note(kind=kind, count=len(texts), example=first_names(texts, _NAMED)))
    return kept


def _last_of_steps(rows: "pandas.DataFrame") -> "pandas.DataFrame":
    """The rows by step; of several of one step, as a resumed run logs them, the last."""
    return rows.sort_values("step", kind="stable").drop_duplicates("step", keep="last")


def valid_rows(steps: Floats) -> NDArray[np.bool_]:
    """Which rows of a run's log no later start has replaced: (rows,), in the order of logging.

    Where steps go back, the rows logged before from that step on are of a state that the run was
    not continued from. Rows that are only out of order, as of evaluations that end later than
    others, replace nothing.
    """
    valid = np.ones(len(steps), dtype=bool)
    starts = [*(np.flatnonzero(np.diff(steps) < 0) + 1).tolist(), len(steps)]
    if _IN_ORDER * (len(starts) - 1) > len(steps):
        return valid
    for start, end in pairwise(starts):
        own, before = steps[start:end], steps[:start][valid[:start]]
        inside = before[(before >= own[0]) & (before <= own[-1])]
        begins = own[0] <= np.unique(before)[:2][-1] and (before > own[0]).sum() > _JUMP
        again = np.isin(inside, own).any() or (begins and len(inside) > 0)
        # One row alone is an evaluation that was logged again.
        if own[-1] > own[0] and again:
            valid[:start] &= steps[:start] < own[0]
    return valid


def _lost_evaluations(
    table: Table, kept: list["pandas.DataFrame"], back: Collection[int]
) -> list[str]:
    """Runs with rows that have no number as reward where an evaluation was due, and the step from
    which on; but for those that went `back`, whose rows are partly of another start."""
    rows = table.rows
    scored = [own["step"].to_numpy() for own in kept]
    logged = [np.unique(rows["step"][table.run == code].dropna()) for code in range(len(kept))]
    every = np.concatenate(scored)
    dense = len(every) > _DENSE * sum(map(len, logged))
    lost = []
    for code, (steps, own) in enumerate(zip(logged, scored, strict=True)):
        if not len(own) or code in back:
            continue
        due = steps[~np.isin(steps, own)]
        elsewhere, gaps = np.isin(due, every), np.diff(own)
        if dense:
            due = due[elsewhere | ((due > own[0]) & (len(due) > 1))]
        elif len(gaps):
            usual = np.median(gaps)
            regular = (gaps == usual).mean() >= _REGULAR
            beside = np.isin(due, own + usual) | (due == own[0] - usual)
            due = due[(due > own[-1] + 2 * gaps.max()) | (elsewhere & beside & regular)]
        else:
            due = due[:0]
        infinite = rows["step"][rows["infinite"] & (table.run == code)]
        if len(due := np.append(due, infinite[~infinite.isin(own)])):
            lost.append(f"{table.names[code]} from step {int(due.min())}")
    return lost


def _require_runs_apart(repeated: int, kept: int, back: list[str]) -> None:
    """Raise SettingError where no column tells runs apart, and several seem to be read as one."""
    if repeated >= _MANY * kept:
        rule = (
            f"no column tells runs or seeds apart, and {repeated} of {repeated + kept} evaluations "
            "are of a step of their n and B that there is already"
        )
    elif back:
        rule = f"no column tells runs or seeds apart, and rows go back: {back[0]}"
    else:
        return
    raise SettingError(
        "import.columns.run",
        "null",
        rule,
        "import.columns={run:COLUMN}, or import.columns={seed:COLUMN}",
    )


def _compute_spent(
    table: Table, code: int, rows: "pandas.DataFrame"
) -> tuple["pandas.Series[float]", int, int]:
    """What the run had spent at each row, nan beyond the last that says it; at how many evaluations
    that is between rows that say it, and how many rows of a sum were of steps logged again."""
    known = rows[rows["compute"].notna()]
    if (known["compute"] < 0).any():
        table.refuse("compute", code, f"has {known['compute'].min():g}")
    valid = known[~known["again"]]
    valid = valid[valid_rows(valid["step"].to_numpy())]
    last = _last_of_steps(valid)
    steps, spent = last["step"].to_numpy(), last["compute"].to_numpy()
    told = valid["compute"]
    if table.config.per_step:
        spent = np.cumsum(spent)
        told = last["compute"].cumsum()
    for k in np.flatnonzero(np.diff(spent) < 0):
        fall = f"falls from {spent[k]:g} to {spent[k + 1]:g} at step {steps[k + 1]:g}"
        rule = f"{fall}: it can only grow"
        table.refuse("compute", code, rule, "import.per_step=true, if each row has its own")
    twice = len(known) - len(last) if table.config.per_step else 0
    told = told.reindex(rows.index)
    if not len(last):
        return told, 0, twice
    at = rows["step"]
    between = rows["scored"] & (at > 0) & (at <= steps[-1]) & ~at.isin(steps)
    if steps[0] > 0:
        steps, spent = np.append(0.0, steps), np.append(0.0, spent)
    told = told.where(told.notna(), np.interp(at, steps, spent, right=np.nan))
    return told, int(between.sum()), twice


def _make_run(
    table: Table, code: int, own: "pandas.DataFrame", notes: list[Note], least: int
) -> ForeignRun | None:
    """The run of these evaluations; None where fewer than `least` tell a reward."""
    if len(own) < least:
        return None
    (n, B), unit, name = table.size(code), table.columns.unit, table.names[code]
    if not table.columns.has("compute"):
        if unit != "rollouts":
            nearest = "import.columns={compute:COLUMN} or budget_unit=rollouts"
            rule = f"no column has a usual name of {unit}"
            raise SettingError("import.columns.compute", "null", rule, nearest)
        own = own.assign(compute=own["step"] * n * B)
    if lost := int(own["compute"].isna().sum()):
        notes.append(Note(kind="no compute", count=lost, example=name))
        own = own.dropna(subset="compute")
    steps, compute = own["step"].to_numpy(dtype=np.int64), own["compute"].to_numpy()
    if len(steps) and steps[0] == 0 and compute[0] > 0:
        # Steps are then counted from 0, and 0 is the first update.
        steps = steps + 1
        notes.append(Note(kind="counted from zero", count=1, example=name))
    for k in np.flatnonzero((compute <= 0) & (steps > 0)):
        table.refuse("compute", code, f"has {compute[k]:g} at step {steps[k]}")
    for k in np.flatnonzero(np.diff(compute) <= 0):
        rule = f"is the same at steps {steps[k + 1]} and before: it can only grow"
        table.refuse("compute", code, rule, "import.per_step=true, if each row has its own")
    if len(steps) < least:
        return None
    rollouts = steps[-1] * n * B
    if unit == "tokens" and compute[-1] < rollouts:
        rule = f"has {compute[-1]:g} tokens at step {steps[-1]}, after {rollouts:,} rollouts"
        table.refuse("compute", code, rule, "all tokens, of prompts and completions, so far")
    sets = table.sets.loc[own.index]
    read = _counts if table.scored == "successes" else _rewards
    return ForeignRun(
        name=name,
        num_generations=n,
        problems_per_batch=B,
        seed=int(table.seeds[code]),
        steps=steps,
        compute=compute,
        sets={str(of): _shares(table, "sets", code, sets[of].to_numpy()) for of in sets},
        **read(table, code, own),
    )


def _rewards(table: Table, code: int, own: "pandas.DataFrame") -> dict[str, Any]:
    """Rewards and their errors: those told, a binomial's, or None."""
    rewards = _shares(table, "reward", code, own["reward"].to_numpy())
    low, high = table.config.reward_range or (0.0, 1.0)
    if table.columns.has("standard_error"):
        errors = own["standard_error"].to_numpy() / (high - low)
        if (errors < 0).any():
            table.refuse("standard_error", code, f"has {np.nanmin(errors):g}")
        return {"rewards": rewards, "errors": None if np.isnan(errors).any() else errors}
    samples = table.sizes["problems"][code] * table.sizes["samples"][code]
    if np.isnan(samples):
        return {"rewards": rewards}
    # With one success and one failure added, as records that count have it.
    rate = (rewards * samples + 1) / (samples + 2)
    return {"rewards": rewards, "errors": np.sqrt(rate * (1 - rate) / samples)}


def _shares(table: Table, quantity: str, code: int, values: Floats) -> Floats:
    """Rewards as shares of their range. Raises SettingError for one beyond it."""
    low, high = table.config.reward_range or (0.0, 1.0)
    shares = (values - low) / (high - low)
    for k in np.flatnonzero((shares < -_ROUNDING) | (shares > 1 + _ROUNDING)):
        _refuse_range(table, quantity, code, float(values[k]))
    return np.clip(shares, 0.0, 1.0)


def _refuse_range(table: Table, quantity: str, code: int, value: float) -> NoReturn:
    low, high = table.config.reward_range or (0.0, 1.0)
    every = table.rows["reward"].fillna(value)
    least, most = every.min(), every.max()
    usual = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0), (-100.0, 100.0))
    fits = next((r for r in usual if r[0] <= least and most <= r[1]), (least, most))
    # Of several columns only the first is what is beyond.
    given = table.columns.found.get(quantity, ", ".join((table.config.sets or {}).values()))
    rule = f"run {table.names[code]} has {value:g}, and a reward lies from {low:g} to {high:g}"
    nearest = f"import.reward_range=[{fits[0]:g},{fits[1]:g}]"
    if fits == (0.0, 100.0) and table.rows.groupby("run")["reward"].max().min() <= 1:
        rule += "; other runs have shares up to 1, so that percentages and shares seem mixed"
        nearest = "all runs in one unit"
    raise SettingError(f"import.columns.{quantity}", given, rule, nearest)


def _counts(table: Table, code: int, own: "pandas.DataFrame") -> dict[str, Any]:
    """Successes of every problem, and of how many samples."""
    column = table.columns.found["successes"]
    if np.isnan(table.sizes["samples"][code]):
        rule = "counts successes, and of how many samples each is not known"
        nearest = "import.columns={samples:COLUMN}, or a number"
        raise SettingError("import.columns.successes", column, rule, nearest)
    samples = int(table.sizes["samples"][code])
    found = []
    for row, value in table.frame[column].loc[own.index].items():
        try:
            counts = list(json.loads(value) if isinstance(value, str) else value)
            whole = all(float(each).is_integer() and 0 <= each <= samples for each in counts)
        except (ValueError, TypeError):
            counts, whole = [], False
        if not (counts and whole):
            rule = f"row {row + 1} has no list of whole numbers from 0 to {samples}"
            raise SettingError("import.columns.successes", column, rule)
        found.append(tuple(int(each) for each in counts))
    if len({len(each) for each in found}) > 1:
        rule = f"has lists of {len(found[0])} and of other numbers of problems"
        table.refuse("successes", code, rule)
    rewards = np.array([sum(each) / (len(each) * samples) for each in found])
    return {"rewards": rewards, "successes": tuple(found), "samples": samples}


def _require_one_unit(runs: list[ForeignRun], columns: Columns) -> None:
    """Raise SettingError where a rollout costs a hundred times as much in one run as in another."""
    if not columns.has("compute"):
        return
    costs = {
        run.name: float(
            run.compute[-1] / (run.steps[-1] * run.num_generations * run.problems_per_batch)
        )
        for run in runs
    }
    dear, cheap = max(costs, key=lambda r: costs[r]), min(costs, key=lambda r: costs[r])
    if costs[dear] > _TWO_UNITS * costs[cheap]:
        rule = (
            f"a rollout costs {costs[dear]:.3g} in run {dear} and {costs[cheap]:.3g} in run "
            f"{cheap}: the runs seem to have different units"
        )
        raise SettingError(
            "import.columns.compute", columns.found["compute"], rule, "all runs in one unit"
        )


def _with_seeds(runs: list[ForeignRun], notes: list[Note]) -> list[ForeignRun]:
    """The runs by n, B and seed. Of several with the same seed (-1: not told) the later ones are
    given the next that is free: they are runs of their own all the same."""
    pairs = Counter(run.pair for run in runs)
    told = {(run.pair, run.seed) for run in runs}
    given: set[tuple[tuple[int, int], int]] = set()
    found, same = [], []
    for run in runs:
        seed = run.seed
        if seed < 0 or (run.pair, seed) in given:
            same += [run] if seed >= 0 else []
            seed = next(k for k in count() if (run.pair, k) not in told | given)
        given.add((run.pair, seed))
        found.append(replace(run, seed=seed))
    if same:
        notes.append(Note(kind="same seed", count=len(same), example=same[0].name))
    # Of a pair's only run its number says nothing.
    if numbered := sum(run.seed < 0 and pairs[run.pair] > 1 for run in runs):
        notes.append(Note(kind="no seeds", count=numbered))
    return sorted(found, key=lambda run: (run.pair, run.seed))


def _other_settings(table: Table, runs: list[ForeignRun]) -> list[Note]:
    """Settings by which runs of one (n, B) differ, so that they are no seeds of one another."""
    pairs = {run.name: run.pair for run in runs}
    notes = []
    for column in map(str, table.frame.columns):
        if re.split(r"[./]", column)[-1] not in _SETTINGS:
            continue
        told = table.frame[column].groupby(table.run).agg(["first", "nunique"])
        values: dict[tuple[int, int], set[str]] = {}
        for name, value, different in zip(table.names, told["first"], told["nunique"], strict=True):
            # Of what changes in a run, as a learning rate does, there is no one value.
            if name in pairs and different == 1:
                values.setdefault(pairs[name], set()).add(str(value))
        if several := sum(len(of) > 1 for of in values.values()):
            notes.append(Note(kind="settings differ", count=several, example=column))
    return notes
