"""A table of logs as numbers: which run each row is of, and what it says of each quantity."""

import re
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from isosweep.config.study import ImportConfig
from isosweep.errors import SettingError
from isosweep.importing.columns import FILE, Columns
from isosweep.importing.text import name_text
from isosweep.plan.document import Note

if TYPE_CHECKING:
    import pandas

# Numbers that a run has one of, and those that each row has.
_OF_RUN = ("n", "B", "completions", "problems", "samples")
_OF_ROW = ("step", "compute", "reward", "standard_error")
_APART = "import.columns={run:COLUMN} that tells runs apart"


class Table:
    """Runs and rows of a table, as numbers, nan where nothing is known.

    `names`: of the runs; `sizes`: a row for each run, with the numbers that it has one of; `rows`:
    a row for each row of the table, with the place of its run among `names` (`run`), what it has of
    each quantity, whether it is an evaluation (`scored`), whether its reward was `infinite`, and
    whether a row before it has the same of everything (`again`); `sets`: rewards on further
    evaluation sets; `seeds`: of each run, -1 where none is known.
    """

    def __init__(self, frame: "pandas.DataFrame", columns: Columns, config: ImportConfig) -> None:
        """Raises SettingError for values that cannot be what their column is said to be."""
        import pandas

        self.frame, self.columns, self.config = frame.reset_index(drop=True), columns, config
        self.notes: list[Note] = []
        self.scored = "successes" if columns.has("successes") else "reward"
        self.names, self.run = self._runs()
        self.seeds = self._seeds()
        self.sizes = pandas.DataFrame({each: self._of_run(each) for each in _OF_RUN})
        self.rows = pandas.DataFrame({"run": self.run} | {q: self._numbers(q) for q in _OF_ROW})
        self.rows["infinite"] = np.isinf(self.rows["reward"])
        self.rows.loc[self.rows["infinite"], "reward"] = np.nan
        told = self.rows["reward"]
        if self.scored == "successes":
            told = self.frame[columns.found["successes"]]
        self.rows["scored"] = told.notna()
        self.sets = pandas.DataFrame(
            {name: self._column("import.sets", of) for name, of in (config.sets or {}).items()},
            index=self.frame.index,
        )
        every = pandas.concat([self.rows, self.sets, told.map(str)], axis=1)
        self.rows["again"] = every.duplicated()

    def refuse(self, quantity: str, code: int, rule: str, nearest: str = "") -> NoReturn:
        """Raise SettingError about one run."""
        given = self.columns.found[quantity]
        raise SettingError(
            f"import.columns.{quantity}", given, f"run {self.names[code]} {rule}", nearest
        )

    def size(self, code: int) -> tuple[int, int]:
        """n and B of a run. Raises SettingError where they are not known, or contradict."""
        own = self.sizes.loc[code]
        if np.isnan(own["n"]):
            self.refuse("n", code, "has none")
        if not np.isnan(own["B"]):
            return int(own["n"]), int(own["B"])
        if np.isnan(own["completions"]):
            self.refuse("B" if self.columns.has("B") else "completions", code, "has none")
        if own["completions"] % own["n"]:
            rule = f"has {own['completions']:g}, no multiple of its n={own['n']:g}"
            self.refuse("completions", code, rule)
        return int(own["n"]), int(own["completions"] / own["n"])

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

    def _runs(self) -> tuple[list[str], "pandas.Series[int]"]:
        """Names of the runs, and which one each row is of."""
        import pandas

        found = self.columns.found
        named = isinstance(found.get("run"), str)
        given = ("run",) if named else ("n", "B", "completions", "seed")
        keys = [str(found[q]) for q in given if isinstance(found.get(q), str)]
        if named and FILE in self.frame:
            keys.append(FILE)
        if not keys:
            return ["all rows"], pandas.Series(0, index=self.frame.index)
        keys = list(dict.fromkeys(keys))
        own = self.frame[keys]
        if named:
            own = own.map(name_text)
            own = own.where(own != "")
        for row in np.flatnonzero(own.isna().any(axis=1))[:1]:
            rule = f"row {row + 1} has no {' or '.join(keys)}, so that its run is not known"
            nearest = "import.columns={run:COLUMN}"
            raise SettingError("import.columns.run", found.get("run", "null"), rule, nearest)
        run = own.groupby(keys).ngroup()
        names = []
        for parts in own.groupby(run).first().itertuples(index=False, name=None):
            shown = parts if named else (f"{k}={v}" for k, v in zip(keys, parts, strict=True))
            names.append(" ".join(dict.fromkeys(map(str, shown))))
        return names, run

    def _of_run(self, quantity: str) -> "pandas.Series[float]":
        """The one value that every run has."""
        values = self._numbers(quantity).groupby(self.run).agg(["min", "max"])
        for code, least, most in values[values["min"] < values["max"]].itertuples():
            self.refuse(quantity, code, f"has both {least:g} and {most:g}", _APART)
        known = values["min"].dropna()
        for code, value in known[(known % 1 != 0) | (known < 1)].items():
            self.refuse(quantity, code, f"has {value:g}, no count")
        return values["min"]

    def _seeds(self) -> "pandas.Series[int]":
        """Every run's seed; seeds that are text are numbered."""
        import pandas

        given, runs = self.columns.found.get("seed"), range(len(self.names))
        if not isinstance(given, str):
            return pandas.Series(-1 if given is None else int(given), index=runs)
        told = self.frame[given].groupby(self.run).agg(["first", "nunique"])
        for code in told.index[told["nunique"] > 1]:
            self.refuse("seed", code, "has several", _APART)
        texts = told["first"].dropna().map(str)
        if all(re.fullmatch(r"\d+(\.0)?", each) for each in texts):
            return texts.map(lambda each: int(float(each))).reindex(runs, fill_value=-1)
        names = sorted(set(texts))
        self.notes.append(Note(kind="text seeds", count=len(names), example=names[0]))
        return texts.map(names.index).reindex(runs, fill_value=-1)
