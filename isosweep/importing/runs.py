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

from isosweep.config.importing import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, Columns
from isosweep.importing.text import name_text
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
    def label(self) -> str:
        """n, B and seed, on one line."""
        return f"n={self.num_generations} B={self.problems_per_batch} seed={self.seed}"

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
    frame = frame.reset_index(drop=True)
    table = _Table(frame, columns, config)
    notes: list[Note] = []
    kept = _merged_steps(table, notes)
    runs = [_make_run(table, code, rows, notes, least) for code, rows in enumerate(kept)]
    found = [run for run in runs if run is not None and run.num_generations > 1]
    if lone := [run for run in runs if run is not None and run.num_generations == 1]:
        notes.append(Note(kind="lone n", count=len(lone), example=lone[0].name))
    if empty := [table.names[code] for code, run in enumerate(runs) if run is None]:
        notes.append(Note(kind="no reward", count=len(empty), example=empty[0]))
    if not found:
        _refuse_all(table, [code for code, rows in enumerate(kept) if len(rows) >= least])
    _require_one_unit(found, columns)
    if columns.found.get(table.scored) == "reward" and "reward" in columns.guessed:
        notes.append(Note(kind="training reward"))
    notes += [*table.notes, *_other_settings(table, found)]
    return _with_seeds(found, notes), notes


def _refuse_all(table: "_Table", rewarded: list[int]) -> NoReturn:
    """Raise SettingError about a table without one run. `rewarded`: those with enough rewards."""
    given = table.columns.found
    if not rewarded:
        raise SettingError(
            f"import.columns.{table.scored}", given[table.scored], "no run has two rewards by it"
        )
    if table.compute is None or not np.isnan(table.compute[table.codes == rewarded[0]]).all():
        raise SettingError("import.columns.n", given["n"], "every run with two rewards has n = 1")
    spent = np.unique(table.codes[~np.isnan(table.compute)])
    rule = f"{len(rewarded)} runs have rewards and no compute ({table.names[rewarded[0]]})"
    if len(spent):
        rule += f", {len(spent)} have compute and no two rewards ({table.names[spent[0]]})"
    nearest = "logs with both in each run, or budget_unit=rollouts, which are n x B x step"
    raise SettingError("import.columns.compute", given["compute"], rule, nearest)


class _Table:
    """The table as numbers: what every row has of each quantity."""

    def __init__(self, frame: "pandas.DataFrame", columns: Columns, config: ImportConfig) -> None:
        self.frame, self.columns, self.config = frame, columns, config
        self.notes: list[Note] = []
        self.scored = "successes" if columns.has("successes") else "reward"
        self.names, self.codes = self._runs()
        self.seeds = self._seeds()
        numbers = ("n", "B", "completions", "problems", "samples")
        constant = {name: self._of_run(name) for name in numbers if columns.has(name)}
        self.constant = constant
        self.step = self.numbers("step") if columns.has("step") else None
        self.compute = self.numbers("compute") if columns.has("compute") else None
        self.reward = self.numbers("reward") if columns.has("reward") else None
        self.infinite = np.zeros(len(frame), dtype=bool)
        if self.reward is not None:
            self.infinite = np.isinf(self.reward)
            self.reward[self.infinite] = np.nan
        self.error = self.numbers("standard_error") if columns.has("standard_error") else None
        self.sets = {
            name: self.numbers_of("import.sets", column)
            for name, column in (config.sets or {}).items()
        }

    def _is_column(self, quantity: str) -> bool:
        return isinstance(self.columns.found.get(quantity), str)

    def numbers(self, quantity: str) -> Floats:
        """What every row has of it: (rows,), nan where nothing."""
        given = self.columns.found[quantity]
        if not isinstance(given, str):
            return np.full(len(self.frame), float(given))
        return self.numbers_of(f"import.columns.{quantity}", given)

    def numbers_of(self, setting: str, column: str) -> Floats:
        """A column as numbers. Raises SettingError for a value that is none."""
        import pandas

        values = self.frame[column]
        if not isinstance(values, pandas.Series):
            raise SettingError(setting, column, "is the name of two columns")
        read = pandas.to_numeric(values, errors="coerce")
        text = values.astype(str).str.strip().str.lower()
        blank = values.isna() | text.isin(("", "null", "none", "nan"))
        for row in np.flatnonzero(read.isna() & ~blank)[:1]:
            shown = str(values.iloc[row])
            percent = shown.strip().endswith("%")
            nearest = (
                "the column without % signs, and import.reward_range=[0,100]" if percent else ""
            )
            raise SettingError(setting, column, f"row {row + 1} has {shown!r}, no number", nearest)
        # A copy: compute is completed in its place.
        found = np.array(read, dtype=np.float64)
        for row in np.flatnonzero(np.isinf(found))[: setting != "import.columns.reward"]:
            raise SettingError(setting, column, f"row {row + 1} has {found[row]}")
        return found

    def _runs(self) -> tuple[list[str], Ints]:
        """Names of the runs, and which one each row is of."""
        keys = []
        if self._is_column("run"):
            named = self.columns.found["run"]
            keys = [named, FILE] if FILE in self.frame and named != FILE else [named]
        else:
            keys = [
                self.columns.found[q]
                for q in ("n", "B", "completions", "seed")
                if self._is_column(q)
            ]
        keys = list(dict.fromkeys(keys))
        if not keys:
            return ["all rows"], np.zeros(len(self.frame), dtype=np.int64)
        for key in keys:
            if key in (FILE, self.columns.found.get("run")):
                texts = self.frame[key].map(name_text)
                self.frame = self.frame.assign(**{str(key): texts.where(texts != "")})
        lacking = self.frame[keys].isna().any(axis=1)
        for row in np.flatnonzero(lacking)[:1]:
            rule = (
                f"row {row + 1} has no {' or '.join(map(str, keys))}, so that its run is not known"
            )
            raise SettingError(
                "import.columns.run",
                self.columns.found.get("run", "null"),
                rule,
                "import.columns={run:COLUMN}",
            )
        grouped = self.frame.groupby(keys, sort=True, observed=True)
        codes = np.asarray(grouped.ngroup(), dtype=np.int64)
        ways = list(grouped.indices)
        alone = self._is_column("run")
        names = []
        for way in ways:
            parts = way if isinstance(way, tuple) else (way,)
            shown = (
                map(str, parts) if alone else (f"{k}={v}" for k, v in zip(keys, parts, strict=True))
            )
            names.append(" ".join(dict.fromkeys(shown)))
        return names, codes

    def _of_run(self, quantity: str) -> Floats:
        """The one value that every run has: (runs,), nan where none has one."""
        setting, given = f"import.columns.{quantity}", self.columns.found[quantity]
        values = self.numbers(quantity)
        known = np.flatnonzero(~np.isnan(values))
        found = np.full(len(self.names), np.nan)
        found[self.codes[known]] = values[known]
        for row in known[values[known] != found[self.codes[known]]][:1]:
            code = self.codes[row]
            rule = f"run {self.names[code]} has both {values[row]:g} and {found[code]:g}"
            raise SettingError(
                setting, given, rule, "import.columns={run:COLUMN} that tells runs apart"
            )
        for code in np.flatnonzero(~np.isnan(found)):
            if not float(found[code]).is_integer() or found[code] < 1:
                rule = f"run {self.names[code]} has {found[code]:g}, no count"
                raise SettingError(setting, given, rule)
        return found

    def _seeds(self) -> Ints:
        """Every run's seed: (runs,), -1 where none is told; seeds that are text are numbered."""
        seeds = np.full(len(self.names), -1, dtype=np.int64)
        if not self.columns.has("seed"):
            return seeds
        if not self._is_column("seed"):
            return np.full(len(self.names), int(self.numbers("seed")[0]), dtype=np.int64)
        column = self.frame[self.columns.found["seed"]]
        told = column.groupby(self.codes).agg(["first", "nunique"])
        for code in np.flatnonzero(told["nunique"] > 1)[:1]:
            self.refuse(
                "seed",
                int(code),
                "has several",
                "import.columns={run:COLUMN} that tells runs apart",
            )
        known = {str(each) for each in told["first"].dropna()}
        digits = all(re.fullmatch(r"\d+(\.0)?", each) for each in known)
        number = {each: int(float(each)) if digits else k for k, each in enumerate(sorted(known))}
        if not digits:
            self.notes.append(Note(kind="text seeds", count=len(known), example=min(known)))
        for code, each in told["first"].dropna().items():
            seeds[code] = number[str(each)]
        return seeds

    def sizes(self, code: int) -> tuple[int, int]:
        """n and B of a run. Raises SettingError where they are not known, or contradict."""
        n = self.constant["n"][code]
        if np.isnan(n):
            self.refuse("n", code, "has none")
        if "B" in self.constant and not np.isnan(B := self.constant["B"][code]):
            return int(n), int(B)
        if "completions" not in self.constant or np.isnan(self.constant["completions"][code]):
            self.refuse("B" if "B" in self.constant else "completions", code, "has none")
        completions = self.constant["completions"][code]
        if completions % n:
            self.refuse("completions", code, f"has {completions:g}, no multiple of its n={n:g}")
        return int(n), int(completions / n)

    def refuse(self, quantity: str, code: int, rule: str, nearest: str = "") -> NoReturn:
        """Raise SettingError about one run."""
        given = self.columns.found[quantity]
        raise SettingError(
            f"import.columns.{quantity}", given, f"run {self.names[code]} {rule}", nearest
        )

    def scored_rows(self) -> NDArray[np.bool_]:
        """Which rows are evaluations: (rows,)."""
        if self.scored == "successes":
            return np.asarray(self.frame[self.columns.found["successes"]].notna())
        assert self.reward is not None
        return ~np.isnan(self.reward)


def _merged_steps(table: _Table, notes: list[Note]) -> list[Ints]:
    """Rows of every run that are evaluations, one a step, by step; steps and compute are completed.

    Raises SettingError for steps that are none, and compute that falls.
    """
    if table.step is None:
        # Every rollout is counted, so that a step is n x B of them.
        if table.columns.unit != "rollouts":
            rule = "no column has a usual name of optimiser steps"
            raise SettingError("import.columns.step", "null", rule, "import.columns={step:COLUMN}")
        sizes = np.array([np.prod(table.sizes(code)) for code in range(len(table.names))])
        assert table.compute is not None
        table.step = np.round(table.compute / sizes[table.codes])
    bad = (table.step < 0) | (table.step != np.floor(table.step)) | (table.step >= _CLOCK)
    for row in np.flatnonzero(~np.isnan(table.step) & bad)[:1]:
        given = table.columns.found.get("step", "null")
        what = "a time in seconds" if table.step[row] >= _CLOCK else "no count of steps"
        raise SettingError(
            "import.columns.step", given, f"row {row + 1} has {table.step[row]:g}, {what}"
        )
    order = np.lexsort((np.arange(len(table.step)), table.step, table.codes))
    bounds = np.searchsorted(table.codes[order], np.arange(len(table.names) + 1))
    scored = table.scored_rows() & ~np.isnan(table.step)
    kept: list[Ints] = []
    repeats: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    twice: Counter[str] = Counter()
    back: dict[int, str] = {}
    untold = not (table.columns.has("run") or table.columns.has("seed"))
    for code, name in enumerate(table.names):
        rows = order[bounds[code] : bounds[code + 1]]
        if table.compute is not None:
            filled[name], twice[name] = _complete_compute(table, code, rows, scored)
        own = np.sort(rows[scored[rows]])
        valid = valid_rows(table.step[own])
        if not valid.all():
            to = int(table.step[own[~valid]].min())
            back[code] = f"{name} from step {int(table.step[own[~valid]].max())} to {to}"
        own = own[valid | untold]
        own = own[np.argsort(table.step[own], kind="stable")]
        # A run that was resumed has logged steps again: the last row counts.
        last = np.append(table.step[own][1:] != table.step[own][:-1], True)[: len(own)]
        repeats[name] += int(len(own) - last.sum())
        kept.append(own[last])
    if untold:
        _require_runs_apart(repeats.total(), sum(map(len, kept)), [*back.values()])
    for kind, of in (("repeated", repeats), ("interpolated", filled), ("summed once", twice)):
        if total := sum(of.values()):
            example = of.most_common(1)[0][0]
            notes.append(Note(kind=kind, count=total, example=example))
    if back:
        notes.append(Note(kind="went back", count=len(back), example=_few([*back.values()])))
    if lost := _lost_evaluations(table, kept, back):
        notes.append(Note(kind="no number", count=len(lost), example=_few(lost)))
    return kept


def _few(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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


def _lost_evaluations(table: _Table, kept: list[Ints], back: Collection[int]) -> list[str]:
    """Runs with rows that have no number as reward where an evaluation was due, and the step from
    which on; but for those that went `back`, whose rows are partly of another start."""
    assert table.step is not None
    logged, scored = [], []
    for code, rows in enumerate(kept):
        steps = table.step[table.codes == code]
        scored.append(table.step[rows])
        logged.append(np.unique(steps[~np.isnan(steps)]))
    every = np.concatenate(scored)
    dense = sum(map(len, scored)) > _DENSE * sum(map(len, logged))
    lost = []
    for code, name in enumerate(table.names):
        steps, own = logged[code], scored[code]
        if not len(own) or code in back:
            continue
        due = steps[~np.isin(steps, own)]
        elsewhere = np.isin(due, every)
        if dense:
            due = due[elsewhere | ((due > own[0]) & (len(due) > 1))]
        elif len(gaps := np.diff(own)):
            usual = np.median(gaps)
            regular = (gaps == usual).mean() >= _REGULAR
            beside = np.isin(due, own + usual) | (due == own[0] - usual)
            due = due[(due > own[-1] + 2 * gaps.max()) | (elsewhere & beside & regular)]
        else:
            due = due[:0]
        infinite = table.step[table.infinite & (table.codes == code)]
        if len(due := np.append(due, infinite[~np.isin(infinite, own)])):
            lost.append(f"{name} from step {int(due.min())}")
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


def _complete_compute(
    table: _Table, code: int, rows: Ints, scored: NDArray[np.bool_]
) -> tuple[int, int]:
    """Work out what the run had spent at its evaluations; at how many between rows that say it, and
    how many rows of a sum were of steps that were logged again."""
    compute, step = table.compute, table.step
    assert compute is not None
    assert step is not None
    known = np.sort(rows[~np.isnan(compute[rows]) & ~np.isnan(step[rows])])
    if (compute[known] < 0).any():
        table.refuse("compute", code, f"has {compute[known].min():g}")
    valid = valid_rows(step[known])
    last = known[valid][np.argsort(step[known[valid]], kind="stable")]
    # Of rows of one step the last counts, as of rewards.
    last = last[np.append(step[last][1:] != step[last][:-1], True)[: len(last)]]
    spent = compute[last]
    if table.config.per_step:
        spent = np.cumsum(spent)
        compute[known] = np.nan
    compute[known[~valid]] = np.nan
    compute[last] = spent
    falls = np.flatnonzero(np.diff(spent) < 0)
    for k in falls[:1]:
        rule = (
            f"falls from {spent[k]:g} to {spent[k + 1]:g} at step {step[last[k + 1]]:g}: it can "
            "only grow"
        )
        table.refuse("compute", code, rule, "import.per_step=true, if each row has its own")
    twice = len(known) - len(last) if table.config.per_step else 0
    lacking = rows[scored[rows] & np.isnan(compute[rows])]
    if not lacking.size or not last.size:
        return 0, twice
    inside = step[lacking] <= step[last[-1]]
    at = step[last]
    between = inside & (step[lacking] > 0) & ~np.isin(step[lacking], at)
    if at[0] > 0:
        at, spent = np.append(0.0, at), np.append(0.0, spent)
    compute[lacking[inside]] = np.interp(step[lacking[inside]], at, spent)
    return int(between.sum()), twice


def _make_run(
    table: _Table, code: int, rows: Ints, notes: list[Note], least: int
) -> ForeignRun | None:
    """The run of these rows; None where fewer than `least` tell a reward."""
    if len(rows) < least:
        return None
    n, B = table.sizes(code)
    assert table.step is not None
    steps = table.step[rows].astype(np.int64)
    if table.compute is None:
        if table.columns.unit != "rollouts":
            rule = f"no column has a usual name of {table.columns.unit}"
            raise SettingError(
                "import.columns.compute",
                "null",
                rule,
                "import.columns={compute:COLUMN} or budget_unit=rollouts",
            )
        compute = steps.astype(np.float64) * n * B
    else:
        compute = table.compute[rows]
        lost = np.isnan(compute)
        if lost.any():
            notes.append(Note(kind="no compute", count=int(lost.sum()), example=table.names[code]))
            rows, steps, compute = rows[~lost], steps[~lost], compute[~lost]
    if len(steps) and steps[0] == 0 and compute[0] > 0:
        # Steps are then counted from 0, and 0 is the first update.
        steps = steps + 1
        notes.append(Note(kind="counted from zero", count=1, example=table.names[code]))
    spends = (compute > 0) | (steps == 0)
    if not spends.all():
        table.refuse("compute", code, f"has {compute[~spends][0]:g} at step {steps[~spends][0]}")
    grows = np.append(True, np.diff(compute) > 0)[: len(compute)]
    if not grows.all():
        rule = f"is the same at steps {steps[~grows][0]} and before: it can only grow"
        table.refuse("compute", code, rule, "import.per_step=true, if each row has its own")
    if len(steps) < least:
        return None
    rollouts = steps[-1] * n * B
    if table.columns.unit == "tokens" and compute[-1] < rollouts:
        rule = f"has {compute[-1]:g} tokens at step {steps[-1]}, after {rollouts:,} rollouts"
        table.refuse("compute", code, rule, "all tokens, of prompts and completions, so far")
    run = ForeignRun(
        name=table.names[code],
        num_generations=n,
        problems_per_batch=B,
        seed=int(table.seeds[code]),
        steps=steps,
        compute=compute,
        rewards=np.zeros(0),
        sets={name: _shares(table, "sets", code, of[rows]) for name, of in table.sets.items()},
    )
    if table.scored == "successes":
        return replace(run, **_counts(table, code, rows))
    return replace(run, **_rewards(table, code, rows))


def _rewards(table: _Table, code: int, rows: Ints) -> dict[str, Any]:
    """Rewards and their errors: those told, a binomial's, or None."""
    assert table.reward is not None
    rewards = _shares(table, "reward", code, table.reward[rows])
    low, high = table.config.reward_range or (0.0, 1.0)
    if table.error is not None:
        errors = table.error[rows] / (high - low)
        if (errors < 0).any():
            table.refuse("standard_error", code, f"has {np.nanmin(errors):g}")
        return {"rewards": rewards, "errors": None if np.isnan(errors).any() else errors}
    if {"problems", "samples"} <= table.constant.keys():
        count = table.constant["problems"][code] * table.constant["samples"][code]
        # With one success and one failure added, as records that count have it.
        rate = (rewards * count + 1) / (count + 2)
        if not np.isnan(count):
            return {"rewards": rewards, "errors": np.sqrt(rate * (1 - rate) / count)}
    return {"rewards": rewards}


def _shares(table: _Table, quantity: str, code: int, values: Floats) -> Floats:
    """Rewards as shares of their range. Raises SettingError for one beyond it."""
    low, high = table.config.reward_range or (0.0, 1.0)
    shares = (values - low) / (high - low)
    beyond = (shares < -_ROUNDING) | (shares > 1 + _ROUNDING)
    if beyond.any():
        _refuse_range(table, quantity, code, float(values[beyond][0]))
    return np.clip(shares, 0.0, 1.0)


def _refuse_range(table: _Table, quantity: str, code: int, value: float) -> NoReturn:
    low, high = table.config.reward_range or (0.0, 1.0)
    every = table.reward if table.reward is not None else np.array([value])
    least, most = float(np.nanmin(every)), float(np.nanmax(every))
    usual = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0), (-100.0, 100.0))
    fits = next((r for r in usual if r[0] <= least and most <= r[1]), (least, most))
    # Of several columns only the first is what is beyond.
    given = table.columns.found.get(quantity, ", ".join((table.config.sets or {}).values()))
    per_run = [every[table.codes == each] for each in range(len(table.names))]
    tops = [float(np.nanmax(of)) for of in per_run if not np.isnan(of).all()]
    mixed = fits == (0.0, 100.0) and min(tops) <= 1
    rule = f"run {table.names[code]} has {value:g}, and a reward lies from {low:g} to {high:g}"
    nearest = f"import.reward_range=[{fits[0]:g},{fits[1]:g}]"
    if mixed:
        rule += "; other runs have shares up to 1, so that percentages and shares seem mixed"
        nearest = "all runs in one unit"
    raise SettingError(f"import.columns.{quantity}", given, rule, nearest)


def _counts(table: _Table, code: int, rows: Ints) -> dict[str, Any]:
    """Successes of every problem, and of how many samples."""
    column = table.columns.found["successes"]
    if "samples" not in table.constant or np.isnan(table.constant["samples"][code]):
        rule = "counts successes, and of how many samples each is not known"
        raise SettingError(
            "import.columns.successes", column, rule, "import.columns={samples:COLUMN}, or a number"
        )
    samples = int(table.constant["samples"][code])
    found = []
    for value, row in zip(table.frame[column].iloc[rows], rows, strict=True):
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
        table.refuse(
            "successes", code, f"has lists of {len(found[0])} and of other numbers of problems"
        )
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
    taken: dict[tuple[int, int], set[int]] = {}
    for run in runs:
        pair = (run.num_generations, run.problems_per_batch)
        taken.setdefault(pair, set()).update({run.seed} - {-1})
    given: set[tuple[int, int, int]] = set()
    found, same = [], []
    for run in runs:
        n, B = run.num_generations, run.problems_per_batch
        if run.seed < 0 or (n, B, run.seed) in given:
            same += [run] if run.seed >= 0 else []
            seed = next(each for each in count() if each not in taken[n, B])
            taken[n, B].add(seed)
            run = replace(run, seed=seed)
        given.add((n, B, run.seed))
        found.append(run)
    if same:
        notes.append(Note(kind="same seed", count=len(same), example=same[0].name))
    pairs = Counter((run.num_generations, run.problems_per_batch) for run in runs)
    # Of a pair's only run its number says nothing.
    numbered = [
        run
        for run in runs
        if run.seed < 0 and pairs[run.num_generations, run.problems_per_batch] > 1
    ]
    if numbered:
        notes.append(Note(kind="no seeds", count=len(numbered)))
    return sorted(found, key=lambda r: (r.num_generations, r.problems_per_batch, r.seed))


def _other_settings(table: _Table, runs: list[ForeignRun]) -> list[Note]:
    """Settings by which runs of one (n, B) differ, so that they are no seeds of one another."""
    names = [str(name) for name in table.frame.columns]
    known = {run.name: (run.num_generations, run.problems_per_batch) for run in runs}
    notes = []
    for column in (name for name in names if re.split(r"[./]", name)[-1] in _SETTINGS):
        values: dict[tuple[int, int], set[str]] = {}
        first = table.frame[column].groupby(table.codes).agg(["first", "nunique"])
        for code, name in enumerate(table.names):
            # Of what changes in a run, as a learning rate does, there is no one value.
            if name in known and first["nunique"].iloc[code] == 1:
                values.setdefault(known[name], set()).add(str(first["first"].iloc[code]))
        if several := [pair for pair, of in values.items() if len(of) > 1]:
            notes.append(Note(kind="settings differ", count=len(several), example=column))
    return notes
