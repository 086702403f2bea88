"""Runs of a table: what of its rows is one run, and whether they can be what they are said to be.

Nothing is repaired in silence: what is left out or worked out is a `Note`, and what cannot be right
is refused with the row that shows it.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from isosweep.config.study import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, UPDATES, Columns, first_names, name_text
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Numbers that a run has one of, and those that each row has.
_OF_RUN = ("n", "B", "completions", "problems", "samples")
_OF_ROW = ("step", "compute", "reward", "standard_error")
_APART = "import.columns={run:COLUMN} that tells runs apart"
_PER_STEP = "import.per_step=true, if each row has its own"
# What runs that update their policy differently often on a batch of rollouts differ in.
UPDATES_AXIS = "import.updates_per_batch"
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
# A table has only evaluations if so many of its steps have a reward.
_DENSE = 2 / 3
# Runs that a note names.
_NAMED = 4
# Costs of a rollout that differ by this factor are of two units, or of two questions.
_TWO_UNITS = 100.0
# Usual ranges of rewards.
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0), (-100.0, 100.0))
# Usual names of settings that make runs of one (n, B) runs of another question.
_SETTINGS = ("learning_rate", "lr", "model", "model_name", "model_name_or_path", "model.path")


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignRun:
    """A run that was trained elsewhere: its evaluations by step, as far as the table has them.

    `steps`, `compute` (in the budgets' unit), `rewards` and `errors` (None: not known) are
    (records,), rewards as shares of their range; `successes`: (records, problems), of `samples`
    each, where they are known; `sets`: rewards on further evaluation sets, nan where there is none;
    `axes`: in what its setting differs from that of other runs beside n and B.
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
    axes: dict[str, Any] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[int, int]:
        """n and B."""
        return self.num_generations, self.problems_per_batch

    @property
    def setting(self) -> tuple[Any, ...]:
        """All that runs which are repetitions of one another share."""
        return (*self.axes.values(), *self.pair)

    @property
    def digest(self) -> str:
        """Hash of all that was read of it: the same table again makes the same run."""
        sizes = [self.num_generations, self.problems_per_batch, self.seed, self.samples]
        known = {**self.sets, "steps": self.steps, "compute": self.compute, "rewards": self.rewards}
        if self.errors is not None:
            known["errors"] = self.errors
        arrays = {name: of.tolist() for name, of in known.items()} | self.axes
        text = json.dumps([self.name, sizes, arrays, self.successes])
        return hashlib.sha256(text.encode()).hexdigest()


def read_runs(
    frame: "pandas.DataFrame", columns: Columns, config: ImportConfig, *, least: int = 2
) -> tuple[list[ForeignRun], list[Note]]:
    """The table's runs, by n, B and seed, and what was done to read them; a run has `least` rewards
    or more.

    Raises SettingError for values that cannot be what their column is said to be.
    """
    table = _Table(frame.reset_index(drop=True), columns, config)
    notes: list[Note] = []
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
    several = table.sizes["batches"][table.sizes["batches"] != 1]
    if not columns.has("compute"):
        for batches, of in several.groupby(several):
            known = Note(kind="several updates", count=len(of), example=table.names[of.index[0]])
            notes.append(replace(known, value=float(1 / batches)))
    if len({run.axes[UPDATES_AXIS] for run in found}) == 1:
        found = [replace(run, axes={}) for run in found]
    elif columns.updates:
        example = ", ".join(columns.updates.values())
        notes.append(Note(kind="updates differ", count=len(found), example=example))
    notes += [*table.notes, *_other_settings(table, found)]
    return _with_seeds(found, notes), notes


class _Table:
    """The table as numbers, nan where nothing is known.

    `names`: of the runs; `sizes`: a row for each run, with the numbers that it has one of, its
    `seed` (-1: not known), the `updates` on each batch of rollouts, and the `batches` of rollouts
    that one step is; `rows`: a row for each row of `frame`, with the place of its run among `names`
    (`run`), what it has of each quantity, whether it is an evaluation (`is_scored`), whether its
    reward was `infinite`, and whether a row before it has the same of everything (`again`); `sets`:
    rewards on further evaluation sets.
    """

    def __init__(self, frame: "pandas.DataFrame", columns: Columns, config: ImportConfig) -> None:
        """Raises SettingError for values that cannot be what their column is said to be."""
        import pandas

        self.frame, self.columns, self.config = frame, columns, config
        self.notes: list[Note] = []
        self.scored = "successes" if columns.has("successes") else "reward"
        self.names, run = self._runs()
        self.rows = pandas.DataFrame({"run": run} | {q: self._numbers(q) for q in _OF_ROW})
        self.sizes = pandas.DataFrame({each: self._size(each) for each in _OF_RUN})
        self._complete_sizes()
        self._require_steps()
        infinite = np.isinf(self.rows["reward"])
        self.rows["reward"] = self.rows["reward"].mask(infinite)
        told = self.rows["reward"]
        if self.scored == "successes":
            told = frame[columns.found["successes"]]
        sets = {name: self._column("import.sets", of) for name, of in (config.sets or {}).items()}
        self.sets = pandas.DataFrame(sets, index=frame.index)
        every = pandas.concat([self.rows, self.sets, told.map(str)], axis=1)
        self.rows = self.rows.assign(
            is_scored=told.notna(), infinite=infinite, again=every.duplicated()
        )

    def refuse(self, quantity: str, code: int, rule: str, nearest: str = "") -> NoReturn:
        """Raise SettingError about one run."""
        self.columns.refuse(quantity, f"run {self.names[code]} {rule}", nearest)

    def _runs(self) -> tuple[list[str], "pandas.Series[int]"]:
        """Names of the runs, and which one each row is of."""
        import pandas

        found = self.columns.found
        named = isinstance(found.get("run"), str)
        quantities = ("run",) if named else ("n", "B", "completions", "seed")
        keys = [str(found[q]) for q in quantities if isinstance(found.get(q), str)]
        keys += [FILE] if named and FILE in self.frame else []
        if not keys:
            return ["all rows"], pandas.Series(0, index=self.frame.index)
        keys = list(dict.fromkeys([*keys, *([] if named else self.columns.updates.values())]))
        own = self.frame[keys]
        if named:
            own = own.map(name_text)
            own = own.where(own != "")
        for row in np.flatnonzero(own.isna().any(axis=1))[:1]:
            rule = f"row {row + 1} has no {' or '.join(keys)}, so that its run is not known"
            self.columns.refuse("run", rule, "import.columns={run:COLUMN}")
        run = own.groupby(keys).ngroup()
        names = []
        for parts in own.groupby(run).first().itertuples(index=False, name=None):
            shown = parts if named else (f"{k}={v}" for k, v in zip(keys, parts, strict=True))
            names.append(" ".join(dict.fromkeys(map(str, shown))))
        return names, run

    def _numbers(self, quantity: str) -> "pandas.Series[float]":
        """What every row has of it."""
        import pandas

        given = self.columns.found.get(quantity)
        if isinstance(given, str):
            return self._column(f"import.columns.{quantity}", given)
        return pandas.Series(np.nan if given is None else float(given), index=self.frame.index)

    def _column(self, setting: str, column: str) -> "pandas.Series[float]":
        """A column as numbers. Raises SettingError for a value that is none."""
        import pandas

        values: Any = self.frame[column]
        if not isinstance(values, pandas.Series):
            raise SettingError(setting, column, "is the name of two columns")
        read = pandas.to_numeric(values, errors="coerce").astype(float)
        text = values.astype(str).str.strip().str.lower()
        blank = values.isna() | text.isin(("", "null", "none", "nan"))
        for row in np.flatnonzero(read.isna() & ~blank)[:1]:
            shown = str(values.iloc[row])
            nearest = "the column without % signs, and import.reward_range=[0,100]"
            if not shown.strip().endswith("%"):
                nearest = ""
            raise SettingError(setting, column, f"row {row + 1} has {shown!r}, no number", nearest)
        # A reward that is infinite is a lost evaluation.
        for row in np.flatnonzero(np.isinf(read) & (setting != "import.columns.reward"))[:1]:
            raise SettingError(setting, column, f"row {row + 1} has {read[row]}")
        return read

    def _size(self, quantity: str) -> "pandas.Series[float]":
        """The one value that every run has, a count. Raises SettingError for anything else."""
        values = self._numbers(quantity).groupby(self.rows["run"]).agg(["min", "max"])
        for code, least, most in values[values["min"] < values["max"]].itertuples():
            self.refuse(quantity, code, f"has both {least:g} and {most:g}", _APART)
        known = values["min"].dropna()
        for code, value in known[(known % 1 != 0) | (known < 1)].items():
            self.refuse(quantity, int(str(code)), f"has {value:g}, no count")
        return values["min"]

    def _complete_sizes(self) -> None:
        """Work out B, updates and seeds. Raises SettingError where sizes lack or contradict."""
        import pandas

        sizes, run = self.sizes, self.rows["run"]
        for code in np.flatnonzero(sizes["n"].isna())[:1]:
            self.refuse("n", code, "has none")
        for code in np.flatnonzero(sizes["B"].isna() & sizes["completions"].isna())[:1]:
            self.refuse("B" if self.columns.has("B") else "completions", code, "has none")
        for code in np.flatnonzero(sizes["B"].isna() & (sizes["completions"] % sizes["n"] > 0))[:1]:
            completions, n = sizes.loc[code, ["completions", "n"]]
            self.refuse("completions", code, f"has {completions:g}, no multiple of its n={n:g}")
        sizes["B"] = sizes["B"].fillna(sizes["completions"] / sizes["n"])
        known = {
            key: pandas.to_numeric(self.frame[column], errors="coerce").groupby(run).first()
            for key, column in self.columns.updates.items()
        }
        of = pandas.DataFrame(known, index=sizes.index).reindex(columns=[*UPDATES])
        # TRL's steps are updates, of which several are taken on one batch; verl's are batches.
        accumulated = of["accumulated"].where(of["parts"].notna())
        taken = of["iterations"].fillna(1) * (of["parts"] / accumulated).fillna(1)
        verl = (sizes["B"] / of["mini_batch"]).fillna(1) * of["epochs"].fillna(1)
        sizes["updates"], sizes["batches"] = taken * verl, 1 / taken
        sizes["seed"] = self._seeds()

    def _seeds(self) -> "pandas.Series[int]":
        """Every run's seed; seeds that are text are numbered."""
        import pandas

        given, runs = self.columns.found.get("seed"), range(len(self.names))
        if not isinstance(given, str):
            return pandas.Series(-1 if given is None else int(given), index=runs)
        told = self.frame[given].groupby(self.rows["run"]).agg(["first", "nunique"])
        for code in told.index[told["nunique"] > 1]:
            self.refuse("seed", code, "has several", _APART)
        texts = told["first"].dropna().map(str)
        if all(re.fullmatch(r"\d+(\.0)?", each) for each in texts):
            return texts.map(lambda each: int(float(each))).reindex(runs, fill_value=-1)
        names = sorted(set(texts))
        self.notes.append(Note(kind="text seeds", count=len(names), example=names[0]))
        return texts.map(names.index).reindex(runs, fill_value=-1)

    def _require_steps(self) -> None:
        """Complete steps by rollouts where no column has them. Raises SettingError for others."""
        rows = self.rows
        if not self.columns.has("step"):
            # Every rollout is counted, so that a step is n x B of them.
            if self.columns.unit != "rollouts":
                rule, nearest = "no column has a usual name of optimiser steps", "{step:COLUMN}"
                self.columns.refuse("step", rule, f"import.columns={nearest}")
            of_step = self.sizes["n"] * self.sizes["B"] * self.sizes["batches"]
            rows["step"] = (rows["compute"] / rows["run"].map(of_step)).round()
        steps = rows["step"].dropna()
        for row, step in steps[(steps < 0) | (steps % 1 != 0) | (steps >= _CLOCK)].items():
            what = "a time in seconds" if step >= _CLOCK else "no count of steps"
            self.columns.refuse("step", f"row {int(str(row)) + 1} has {step:g}, {what}")


def _refuse_all(table: _Table, rewarded: list[int]) -> NoReturn:
    """Raise SettingError about a table without one run. `rewarded`: those with enough rewards."""
    columns = table.columns
    if not rewarded:
        columns.refuse(table.scored, "no run has two rewards by it")
    spent = table.rows.groupby("run")["compute"].any()
    if not columns.has("compute") or spent[rewarded[0]]:
        columns.refuse("n", "every run with two rewards has n = 1")
    rule = f"{len(rewarded)} runs have rewards and no compute ({table.names[rewarded[0]]})"
    if spent.any():
        others = f"{spent.sum()} have compute and no two rewards"
        rule += f", {others} ({table.names[spent.argmax()]})"
    nearest = "logs with both in each run, or budget_unit=rollouts, which are n x B x step"
    columns.refuse("compute", rule, nearest)


def _evaluations(table: _Table, notes: list[Note]) -> list["pandas.DataFrame"]:
    """Rows of every run that are evaluations, one a step, by step, with what it had spent there.

    Raises SettingError for compute that falls.
    """
    kept: list[pandas.DataFrame] = []
    counts = {kind: Counter[str]() for kind in ("repeated", "interpolated", "summed once")}
    # Of rows that are the same the first counts: no start that only repeats them replaces others.
    back: dict[int, str] = {}
    apart = table.columns.has("run") or table.columns.has("seed")
    replaced = 0
    logged = table.rows[table.rows["step"].notna()]
    for code, name in enumerate(table.names):
        rows = logged[logged["run"] == code]
        if table.columns.has("compute"):
            spent, *found = _compute_spent(table, code, rows)
            counts["interpolated"][name], counts["summed once"][name] = found
            rows = rows.assign(compute=spent)
        scored = rows[rows["is_scored"]]
        own = scored[~scored["again"]]
        valid = valid_rows(own["step"].to_numpy())
        if not valid.all():
            lost = own["step"][~valid]
            back[code] = f"{name} from step {int(lost.max())} to {int(lost.min())}"
        own = own[valid] if apart else own
        kept.append(_last_of_steps(own))
        replaced += len(own) - len(kept[-1])
        again = int(scored["again"].sum())
        counts["repeated"][name] = again + len(own) - len(kept[-1])
    if not apart:
        _require_runs_apart(table.columns, replaced, sum(map(len, kept)), [*back.values()])
    for kind, of in counts.items():
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
    table: _Table, kept: list["pandas.DataFrame"], back: dict[int, str]
) -> list[str]:
    """Runs with rows that have no number as reward where an evaluation was due, and the step from
    which on; but for those that went `back`, whose rows are partly of another start.

    Due is what a repetition has, what lies far behind the last, and in a table that has hardly any
    other rows each of them.
    """
    rows = table.rows.dropna(subset="step").drop_duplicates(["run", "step"])
    dense = sum(map(len, kept)) > _DENSE * len(rows)
    steps = [own["step"].to_numpy() for own in kept]
    settings = [*table.sizes[["n", "B", "updates"]].itertuples(index=False, name=None)]
    lost = []
    for code, own in enumerate(steps):
        if not len(own) or code in back:
            continue
        alike = [of for of, each in zip(steps, settings, strict=True) if each == settings[code]]
        logged = rows[(rows["run"] == code) & ~rows["step"].isin(own)]
        far = own[-1] + 2 * np.diff(own).max(initial=0) if len(own) > 1 else np.inf
        due = logged["step"].isin(np.concatenate(alike)) | (logged["step"] > far)
        due |= logged["infinite"] | (dense & (logged["step"] > own[0]))
        if due.any():
            lost.append(f"{table.names[code]} from step {int(logged['step'][due].min())}")
    return lost


def _require_runs_apart(columns: Columns, repeated: int, kept: int, back: list[str]) -> None:
    """Raise SettingError where no column tells runs apart, and several seem to be read as one."""
    rule = "no column tells runs or seeds apart, and "
    if repeated >= _MANY * kept:
        rule += f"{repeated} of {repeated + kept} evaluations "
        rule += "are of a step of their n and B that there is already"
    elif back:
        rule += f"rows go back: {back[0]}"
    else:
        return
    nearest = "import.columns={run:COLUMN}, or import.columns={seed:COLUMN}"
    columns.refuse("run", rule, nearest)


def _compute_spent(
    table: _Table, code: int, rows: "pandas.DataFrame"
) -> tuple["pandas.Series[float]", int, int]:
    """What the run had spent at each row, nan beyond the last that says it; at how many evaluations
    that is between rows that say it, and how many rows of a sum were of steps logged again."""
    known = rows[rows["compute"].notna()]
    if (known["compute"] < 0).any():
        table.refuse("compute", code, f"has {known['compute'].min():g}")
    valid = known[~known["again"]]
    valid = valid[valid_rows(valid["step"].to_numpy())]
    last = _last_of_steps(valid)
    told = valid["compute"]
    if table.config.per_step:
        told = last["compute"].cumsum()
    steps, spent = last["step"].to_numpy(), told.loc[last.index].to_numpy()
    for k in np.flatnonzero(np.diff(spent) < 0):
        fall = f"falls from {spent[k]:g} to {spent[k + 1]:g} at step {steps[k + 1]:g}"
        table.refuse("compute", code, f"{fall}: it can only grow", _PER_STEP)
    twice = len(known) - len(last) if table.config.per_step else 0
    told = told.reindex(rows.index)
    if not len(last):
        return told, 0, twice
    at = rows["step"]
    between = rows["is_scored"] & (at > 0) & (at <= steps[-1]) & ~at.isin(steps)
    if steps[0] > 0:
        steps, spent = np.append(0.0, steps), np.append(0.0, spent)
    told = told.where(told.notna(), np.interp(at, steps, spent, right=np.nan))
    return told, int(between.sum()), twice


def _make_run(
    table: _Table, code: int, own: "pandas.DataFrame", notes: list[Note], least: int
) -> ForeignRun | None:
    """The run of these evaluations; None where fewer than `least` tell a reward."""
    if len(own) < least:
        return None
    columns, name, of = table.columns, table.names[code], table.sizes.loc[code]
    n, B, batches = int(of["n"]), int(of["B"]), float(of["batches"])
    if not columns.has("compute"):
        if columns.unit != "rollouts":
            nearest = "import.columns={compute:COLUMN} or budget_unit=rollouts"
            columns.refuse("compute", f"no column has a usual name of {columns.unit}", nearest)
        own = own.assign(compute=own["step"] * n * B * batches)
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
        table.refuse("compute", code, rule, _PER_STEP)
    if len(steps) < least:
        return None
    rollouts = round(steps[-1] * n * B * batches)
    if columns.unit == "tokens" and compute[-1] < rollouts:
        rule = f"has {compute[-1]:g} tokens at step {steps[-1]}, after {rollouts:,} rollouts"
        table.refuse("compute", code, rule, "all tokens, of prompts and completions, so far")
    sets = table.sets.loc[own.index]
    read = _counts if table.scored == "successes" else _rewards
    return ForeignRun(
        name=name,
        num_generations=n,
        problems_per_batch=B,
        seed=int(of["seed"]),
        steps=steps,
        compute=compute,
        sets={str(each): _shares(table, "sets", code, sets[each].to_numpy()) for each in sets},
        axes={UPDATES_AXIS: round(float(of["updates"]), 3)},
        **read(table, code, own),
    )


def _rewards(table: _Table, code: int, own: "pandas.DataFrame") -> dict[str, Any]:
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


def _shares(table: _Table, quantity: str, code: int, values: Floats) -> Floats:
    """Rewards as shares of their range. Raises SettingError for one beyond it."""
    low, high = table.config.reward_range or (0.0, 1.0)
    shares = (values - low) / (high - low)
    for value in values[(shares < -_ROUNDING) | (shares > 1 + _ROUNDING)]:
        every = table.rows["reward"].fillna(value)
        ends = float(every.min()), float(every.max())
        fits = next((r for r in _RANGES if r[0] <= ends[0] and ends[1] <= r[1]), ends)
        # Of several columns only the first is what is beyond.
        given = table.columns.found.get(quantity, ", ".join((table.config.sets or {}).values()))
        rule = f"run {table.names[code]} has {value:g}, and a reward lies from {low:g} to {high:g}"
        nearest = f"import.reward_range=[{fits[0]:g},{fits[1]:g}]"
        if fits == (0.0, 100.0) and table.rows.groupby("run")["reward"].max().min() <= 1:
            rule += "; other runs have shares up to 1, so that percentages and shares seem mixed"
            nearest = "all runs in one unit"
        raise SettingError(f"import.columns.{quantity}", given, rule, nearest)
    return np.clip(shares, 0.0, 1.0)


def _counts(table: _Table, code: int, own: "pandas.DataFrame") -> dict[str, Any]:
    """Successes of every problem, and of how many samples."""
    if np.isnan(table.sizes["samples"][code]):
        rule = "counts successes, and of how many samples each is not known"
        table.columns.refuse("successes", rule, "import.columns={samples:COLUMN}, or a number")
    samples = int(table.sizes["samples"][code])
    found = []
    for row, value in table.frame[table.columns.found["successes"]].loc[own.index].items():
        try:
            counts = list(json.loads(value) if isinstance(value, str) else value)
            whole = all(float(each).is_integer() and 0 <= each <= samples for each in counts)
        except (ValueError, TypeError):
            counts, whole = [], False
        if not (counts and whole):
            rule = f"row {row + 1} has no list of whole numbers from 0 to {samples}"
            table.columns.refuse("successes", rule)
        found.append(tuple(int(each) for each in counts))
    if len({len(each) for each in found}) > 1:
        rule = f"has lists of {len(found[0])} and of other numbers of problems"
        table.refuse("successes", code, rule)
    rewards = np.array([sum(each) / (len(each) * samples) for each in found])
    return {"rewards": rewards, "successes": tuple(found), "samples": samples}


def _require_one_unit(runs: list[ForeignRun], columns: Columns) -> None:
    """Raise SettingError where a rollout costs a hundred times as much in one run as in another."""
    costs = {
        run.name: float(run.compute[-1] / (run.steps[-1] * np.prod(run.pair)))
        for run in runs
        if run.steps[-1]
    }
    if not costs:
        return
    dear, cheap = max(costs, key=lambda r: costs[r]), min(costs, key=lambda r: costs[r])
    if columns.has("compute") and costs[dear] > _TWO_UNITS * costs[cheap]:
        rule = (
            f"a rollout costs {costs[dear]:.3g} in run {dear} and {costs[cheap]:.3g} in run "
            f"{cheap}: the runs seem to have different units"
        )
        columns.refuse("compute", rule, "all runs in one unit")


def _with_seeds(runs: list[ForeignRun], notes: list[Note]) -> list[ForeignRun]:
    """The runs by setting and seed. Of several with the same seed (-1: not told) the later ones are
    given the next that is free: they are runs of their own all the same."""
    settings = Counter(run.setting for run in runs)
    told = {(run.setting, run.seed) for run in runs}
    given: set[tuple[tuple[Any, ...], int]] = set()
    found, same = [], []
    for run in runs:
        seed = run.seed
        if seed < 0 or (run.setting, seed) in given:
            same += [run] if seed >= 0 else []
            seed = next(k for k in count() if (run.setting, k) not in told | given)
        given.add((run.setting, seed))
        found.append(replace(run, seed=seed))
    if same:
        notes.append(Note(kind="same seed", count=len(same), example=same[0].name))
    # Of a setting's only run its number says nothing.
    if numbered := sum(run.seed < 0 and settings[run.setting] > 1 for run in runs):
        notes.append(Note(kind="no seeds", count=numbered))
    return sorted(found, key=lambda run: (run.setting, run.seed))


def _other_settings(table: _Table, runs: list[ForeignRun]) -> list[Note]:
    """Settings by which runs of one (n, B) differ, so that they are no seeds of one another."""
    setting = {run.name: str(run.setting) for run in runs}
    notes = []
    for column in map(str, table.frame.columns):
        if re.split(r"[./]", column)[-1] not in _SETTINGS:
            continue
        told = table.frame[column].groupby(table.rows["run"]).agg(["first", "nunique"])
        # Of what changes in a run, as a learning rate does, there is no one value.
        known = np.array([name in setting for name in table.names])
        alone = told[(told["nunique"] == 1) & known]
        values = alone["first"].groupby([setting[table.names[code]] for code in alone.index])
        if several := int((values.nunique() > 1).sum()):
            notes.append(Note(kind="settings differ", count=several, example=column))
    return notes
