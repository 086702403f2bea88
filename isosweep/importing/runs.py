"""Runs of a table: which of its rows are one run, and whether they can be what they are said to be.

What is left out or worked out is a `Note`; what cannot be right is refused with the row or run.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import count, groupby, pairwise
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

# Numbers that a run has one of.
_SIZES = ("n", "B", "completions", "problems", "samples", "seed")
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
# Runs that a note names.
_NAMED = 4
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
    def setting(self) -> tuple[Any, ...]:
        """All that runs which are repetitions of one another share."""
        return (*self.axes.values(), self.num_generations, self.problems_per_batch)

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
    """Return the table's runs, by n, B and seed, and what was done to read them. A run has `least`
    rewards or more.

    Raises SettingError for values that cannot be what their column is said to be.
    """
    table = _Table(frame.reset_index(drop=True), columns, config)
    read = [_read_run(table, code, own, least) for code, own in table.rows.groupby("run")]
    if not (columns.has("run") or columns.has("seed")):
        _require_runs_apart(table)
    found = [run for run in read if run is not None and run.num_generations > 1]
    if not found:
        _refuse_all(table, least)
    if len({run.axes[UPDATES_AXIS] for run in found}) == 1:
        found = [replace(run, axes={}) for run in found]
    elif columns.updates:
        table.seen["updates differ"][", ".join(columns.updates.values())] = len(found)
    if columns.found.get("reward") == "reward" and "reward" in columns.guessed:
        table.seen["training reward"]["reward"] = 1
    _see_other_settings(table, found)
    found = _with_seeds(found, table.seen)
    notes = [
        Note(kind=kind, count=of.total(), example=first_names([*of], _NAMED))
        for kind, known in table.seen.items()
        if (of := +known)
    ]
    batches = table.sizes["batches"]
    if not columns.has("compute"):
        for share, of in batches[batches != 1].groupby(batches):
            known = Note(kind="several updates", count=len(of), example=table.names[of.index[0]])
            notes.append(replace(known, value=float(1 / share)))
    return found, notes


class _Table:
    """The table as numbers, nan where nothing is known.

    `names`: of the runs; `run`: which one each row of `frame` is of; `sizes`: a row for each run,
    with the numbers that it has one of, its `seed` (-1: not known), the `updates` on each batch of
    rollouts, the `batches` of rollouts that one step is, and the `rollouts` of a step; `rows`: a
    row for each row of `frame` that has a step, with what it has of each quantity, in the order of
    logging, the same row once; `duplicates`: how many rows with a reward are left out so; `seen`:
    by kind of note, the runs that it is about, and how often.
    """

    def __init__(self, frame: "pandas.DataFrame", columns: Columns, config: ImportConfig) -> None:
        """Raises SettingError for values that cannot be what their column is said to be."""
        import pandas

        self.frame, self.columns, self.config = frame, columns, config
        self.seen = defaultdict[str, Counter[str]](Counter)
        self.names, self.run = self._runs()
        self.sizes = self._sizes()
        quantities = ("step", "compute", "reward", "standard_error")
        rows = pandas.DataFrame({"run": self.run} | {q: self._numbers(q) for q in quantities})
        for name, column in (config.sets or {}).items():
            rows[_set(name)] = self._column("import.sets", column)
        if columns.has("successes"):
            samples = self.run.map(self.sizes["samples"])
            rows["successes"] = self._counts(samples)
            right, problems = (rows["successes"].map(f, "ignore").astype(float) for f in (sum, len))
            rows["reward"] = right / (problems * samples)
        if not columns.has("step"):
            # Every rollout is counted, so that a step is n x B of them.
            if columns.unit != "rollouts":
                rule = "no column has a usual name of optimiser steps"
                columns.refuse("step", rule, "import.columns={step:COLUMN}")
            rows["step"] = (rows["compute"] / self.run.map(self.sizes["rollouts"])).round()
        steps = rows["step"].dropna()
        for row, step in steps[(steps < 0) | (steps % 1 != 0) | (steps >= _CLOCK)].items():
            what = "a time in seconds" if step >= _CLOCK else "no count of steps"
            columns.refuse("step", f"row {int(str(row)) + 1} has {step:g}, {what}")
        again = rows.duplicated()
        for kind, quantity in (("repeated", "reward"), ("summed once", "compute")):
            if kind == "repeated" or config.per_step:
                self.seen[kind].update(self.run[again & rows[quantity].notna()].map(self.name))
        self.duplicates = self.seen["repeated"].total()
        self.rows = rows[~again].dropna(subset="step")

    def name(self, code: int) -> str:
        """A run's name."""
        return self.names[code]

    def _runs(self) -> tuple[list[str], "pandas.Series[int]"]:
        import pandas

        found = self.columns.found
        named = isinstance(found.get("run"), str)
        quantities = ("run",) if named else ("n", "B", "completions", "seed")
        keys = [str(found[q]) for q in quantities if isinstance(found.get(q), str)]
        keys += [FILE] if named and FILE in self.frame else []
        keys += [] if named else self.columns.updates.values()
        if not keys:
            return ["all rows"], pandas.Series(0, index=self.frame.index)
        own = self.frame[list(dict.fromkeys(keys))]
        if named:
            own = own.map(name_text).replace("", None)
        for row in np.flatnonzero(own.isna().any(axis=1))[:1]:
            rule = f"row {row + 1} has no {' or '.join(own)}, so that its run is not known"
            self.columns.refuse("run", rule, "import.columns={run:COLUMN}")
        groups = own.groupby([*own])
        firsts = groups.first().index.to_frame().itertuples(index=False, name=None)
        shown = (each if named else map("{}={}".format, own, each) for each in firsts)
        return [" ".join(dict.fromkeys(map(str, each))) for each in shown], groups.ngroup()

    def _numbers(self, quantity: str) -> "pandas.Series[float]":
        """What every row has of a quantity."""
        import pandas

        given = self.columns.found.get(quantity)
        if isinstance(given, str):
            return self._column(f"import.columns.{quantity}", given)
        return pandas.Series(np.nan if given is None else float(given), index=self.frame.index)

    def _column(self, setting: str, column: str) -> "pandas.Series[float]":
        """A column as numbers; what is infinite was lost. Raises SettingError for text."""
        import pandas

        values = self.frame[column]
        read = pandas.to_numeric(values, errors="coerce").astype(float)
        text = values.astype(str).str.strip().str.lower()
        blank = values.isna() | text.isin(("", "null", "none", "nan"))
        for row in np.flatnonzero(read.isna() & ~blank)[:1]:
            if setting == "import.columns.seed":
                # Names of seeds are numbered in their order.
                places = pandas.factorize(values.map(str).mask(blank), sort=True)[0]
                return pandas.Series(places, dtype=float).mask(blank)
            raise SettingError(setting, column, f"row {row + 1} has {values[row]!r}, no number")
        return read.mask(np.isinf(read))

    def _sizes(self) -> "pandas.DataFrame":
        """Raises SettingError for sizes that lack, change within a run or are no counts."""
        import pandas

        sizes = pandas.DataFrame(index=range(len(self.names)))
        for quantity in _SIZES:
            known = self._numbers(quantity).groupby(self.run).agg(["min", "max"])
            for code, least, most in known[known["min"] < known["max"]].itertuples():
                rule = f"run {self.names[code]} has both {least:g} and {most:g}"
                self.columns.refuse(
                    quantity, rule, "import.columns={run:COLUMN} that tells runs apart"
                )
            sizes[quantity] = known["min"]
        sizes["seed"] = sizes["seed"].fillna(-1).astype(int)
        sizes["B"] = sizes["B"].fillna(sizes["completions"] / sizes["n"])
        for quantity in ("n", "B", "problems", "samples"):
            own = sizes[quantity].fillna(0 if quantity in ("n", "B") else 1)
            for code, value in own[(own % 1 != 0) | (own < 1)].items():
                given = quantity if self.columns.has(quantity) else "completions"
                rule = f"run {self.name(code)} has {quantity} = {value:g}, no count"
                self.columns.refuse(given, rule)
        of = pandas.DataFrame(index=sizes.index, columns=[*UPDATES], dtype=float)
        for key, column in self.columns.updates.items():
            told = pandas.to_numeric(self.frame[column], errors="coerce")
            of[key] = told.groupby(self.run).first()
        # TRL's steps are updates, of which several are taken on one batch; verl's are batches.
        accumulated = of["accumulated"].where(of["parts"].notna())
        taken = of["iterations"].fillna(1) * (of["parts"] / accumulated).fillna(1)
        verl = (sizes["B"] / of["mini_batch"]).fillna(1) * of["epochs"].fillna(1)
        sizes["updates"], sizes["batches"] = taken * verl, 1 / taken
        sizes["rollouts"] = sizes["n"] * sizes["B"] * sizes["batches"]
        return sizes

    def _counts(self, samples: "pandas.Series[float]") -> "pandas.Series[Any]":
        """Successes of every problem. Raises SettingError for what cannot be counts."""
        import pandas

        if samples.isna().any():
            rule = "counts successes, and of how many samples each is not known"
            self.columns.refuse("successes", rule, "import.columns={samples:COLUMN}, or a number")
        column, found = self.frame[self.columns.found["successes"]].dropna(), {}
        for row, value in zip(column.index.tolist(), column, strict=True):
            try:
                counts = json.loads(value) if isinstance(value, str) else [*value]
            except (ValueError, TypeError):
                counts = []
            if not counts or not all(each in range(int(samples[row]) + 1) for each in counts):
                rule = f"row {row + 1} has no list of whole numbers from 0 to {samples[row]:g}"
                self.columns.refuse("successes", rule)
            found[row] = tuple(map(int, counts))
        return pandas.Series(found, dtype=object).reindex(self.frame.index)


def _set(name: str) -> str:
    """The column of a further evaluation set."""
    return f"set {name}"


def _by_step(rows: "pandas.DataFrame") -> "pandas.DataFrame":
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


def _read_run(table: _Table, code: Any, rows: "pandas.DataFrame", least: int) -> ForeignRun | None:
    """The run of these rows; None where fewer than `least` of them tell a reward."""
    columns, seen = table.columns, table.seen
    name, of = table.names[code], table.sizes.loc[code]
    scored = rows.dropna(subset="reward")
    valid = scored[valid_rows(scored["step"].to_numpy())]
    own = _by_step(valid)
    seen["repeated"][name] += len(valid) - len(own)
    if len(valid) < len(scored):
        lost = scored.drop(valid.index)["step"]
        seen["went back"][f"{name} from step {lost.max():.0f} to {lost.min():.0f}"] = 1
    elif len(own) > 1:
        # Rows that go on for more than one evaluation after the last.
        due = own["step"].iloc[-1] + own["step"].diff().max()
        if rows["step"].max() > due:
            seen["no number"][f"{name} from step {due:.0f}"] = 1
    own = _with_compute(table, name, rows, own, float(of["rollouts"]))
    steps, compute = own["step"].to_numpy(dtype=np.int64), own["compute"].to_numpy()
    if len(own) < least:
        seen["no reward"][name] = 1
        return None
    if of["n"] == 1:
        seen["lone n"][name] = 1
    if steps[0] == 0 and compute[0] > 0:
        # Steps are then counted from 0, and 0 is the first update.
        steps = steps + 1
        seen["counted from zero"][name] = 1
    spent = compute if steps[0] == 0 else np.append(0.0, compute)
    for k in np.flatnonzero(np.diff(spent) <= 0)[:1]:
        rule = f"run {name} has {spent[k + 1]:g} after {spent[k]:g}: it can only grow"
        columns.refuse("compute", rule, "import.per_step=true, if each row has its own")
    known: dict[str, Any] = {"rewards": own["reward"].to_numpy()}
    if columns.has("successes"):
        known |= {"successes": tuple(own["successes"]), "samples": int(of["samples"])}
        if len({*map(len, known["successes"])}) > 1:
            columns.refuse("successes", f"run {name} has lists of several numbers of problems")
    else:
        known["rewards"] = _shares(table, "reward", name, own["reward"])
        known["errors"] = _errors(
            table, own, known["rewards"], float(of["problems"] * of["samples"])
        )
    return ForeignRun(
        name=name,
        num_generations=int(of["n"]),
        problems_per_batch=int(of["B"]),
        seed=int(of["seed"]),
        steps=steps,
        compute=compute,
        sets={
            each: _shares(table, "sets", name, own[_set(each)]) for each in table.config.sets or {}
        },
        axes={UPDATES_AXIS: round(float(of["updates"]), 3)},
        **known,
    )


def _with_compute(
    table: _Table, name: str, rows: "pandas.DataFrame", own: "pandas.DataFrame", rollouts: float
) -> "pandas.DataFrame":
    """A run's evaluations with what it had spent by then, without those after all compute.

    `rows`: all rows of the run; `rollouts`: of one step.
    """
    if not table.columns.has("compute"):
        if table.columns.unit != "rollouts":
            rule = f"no column has a usual name of {table.columns.unit}"
            nearest = "import.columns={compute:COLUMN} or budget_unit=rollouts"
            table.columns.refuse("compute", rule, nearest)
        return own.assign(compute=own["step"] * rollouts)
    known = rows.dropna(subset="compute")
    last = _by_step(known[valid_rows(known["step"].to_numpy())])
    steps, spent = last["step"].to_numpy(), last["compute"].to_numpy()
    if table.config.per_step:
        spent = spent.cumsum()
        table.seen["summed once"][name] += len(known) - len(last)
    if not len(last):
        return own[:0]
    between = (own["step"] > 0) & (own["step"] <= steps[-1]) & ~own["step"].isin(steps)
    table.seen["interpolated"][name] = int(between.sum())
    if steps[0] > 0:
        steps, spent = np.append(0.0, steps), np.append(0.0, spent)
    own = own.assign(compute=np.interp(own["step"], steps, spent, right=np.nan))
    table.seen["no compute"][name] = int(own["compute"].isna().sum())
    return own.dropna(subset="compute")


def _shares(table: _Table, quantity: str, name: str, values: "pandas.Series[float]") -> Floats:
    """Rewards as shares of their range. Raises SettingError for one beyond it."""
    low, high = table.config.reward_range or (0.0, 1.0)
    shares = ((values - low) / (high - low)).to_numpy()
    for value in values[(shares < -_ROUNDING) | (shares > 1 + _ROUNDING)][:1]:
        ends = min(values.min(), low), max(values.max(), high)
        fits = next((r for r in _RANGES if r[0] <= ends[0] and ends[1] <= r[1]), ends)
        rule = f"run {name} has {value:g}, and a reward lies from {low:g} to {high:g}"
        table.columns.refuse(quantity, rule, f"import.reward_range=[{fits[0]:g},{fits[1]:g}]")
    return np.asarray(np.clip(shares, 0.0, 1.0))


def _errors(
    table: _Table, own: "pandas.DataFrame", rewards: Floats, samples: float
) -> Floats | None:
    """Standard errors of rewards: those told, a binomial's of `samples`, or None."""
    low, high = table.config.reward_range or (0.0, 1.0)
    if table.columns.has("standard_error"):
        told = own["standard_error"].to_numpy() / (high - low)
        return None if np.isnan(told).any() else told
    if np.isnan(samples):
        return None
    # With one success and one failure added, as records that count have it.
    rate = (rewards * samples + 1) / (samples + 2)
    return np.asarray(np.sqrt(rate * (1 - rate) / samples))


def _require_runs_apart(table: _Table) -> None:
    """Raise SettingError where several runs seem to be read as one."""
    again = table.seen["repeated"].total() - table.duplicates
    number, back = int(table.rows["reward"].count()), [*table.seen["went back"]]
    if back or again >= _MANY * (number - again):
        what = f"{again} of {number} evaluations are of a step that there is already"
        what = f"rows go back: {back[0]}" if back else what
        nearest = "import.columns={run:COLUMN}, or import.columns={seed:COLUMN}"
        table.columns.refuse("run", f"no column tells runs or seeds apart, and {what}", nearest)


def _refuse_all(table: _Table, least: int) -> NoReturn:
    """Raise SettingError about a table without one run."""
    rows = table.rows.groupby("run")[["reward", "compute"]].count()
    rewarded = [table.names[code] for code in rows.index[rows["reward"] >= least]]
    spent = [table.names[code] for code in rows.index[rows["compute"] > 0]]
    if not rewarded:
        scored = "successes" if table.columns.has("successes") else "reward"
        table.columns.refuse(scored, "no run has two rewards by it")
    if table.seen["lone n"]:
        table.columns.refuse("n", "every run with two rewards has n = 1")
    rule = f"{len(rewarded)} runs have rewards and no compute ({rewarded[0]})"
    if spent:
        rule += f", {len(spent)} have compute and no two rewards ({spent[0]})"
    nearest = "logs with both in each run, or budget_unit=rollouts, which are n x B x step"
    table.columns.refuse("compute", rule, nearest)


def _with_seeds(runs: list[ForeignRun], seen: dict[str, Counter[str]]) -> list[ForeignRun]:
    """The runs by setting and seed. Of several with the same seed (-1: not told) the later ones are
    given the next that is free: they are runs of their own all the same."""
    found = []
    for _, of in groupby(sorted(runs, key=lambda run: run.setting), lambda run: run.setting):
        own = [*of]
        told = {run.seed: run for run in reversed(own) if run.seed >= 0}
        free = (number for number in count() if number not in told)
        for run in own:
            kept = told.get(run.seed) is run
            # Of a setting's only run its number says nothing.
            if not kept and len(own) > 1:
                seen["no seeds" if run.seed < 0 else "same seed"][run.name] = 1
            found.append(run if kept else replace(run, seed=next(free)))
    return sorted(found, key=lambda run: (run.setting, run.seed))


def _see_other_settings(table: _Table, runs: list[ForeignRun]) -> None:
    """Note settings by which runs of one (n, B) differ, so that they are no seeds of another."""
    for column in map(str, table.frame.columns):
        if re.split(r"[./]", column)[-1] in _SETTINGS:
            # Of what changes in a run, as a learning rate does, there is no one value.
            told = table.frame[column].groupby(table.run).agg(["first", "nunique"])
            alone = told["first"][told["nunique"] == 1].rename(table.name)
            values = {(run.setting, alone[run.name]) for run in runs if run.name in alone}
            settings = Counter(setting for setting, _ in values)
            table.seen["settings differ"][column] = sum(n > 1 for n in settings.values())
