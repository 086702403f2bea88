"""Settings of tasks that have rows of a dataset or of a file."""

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import AfterValidator

from isosweep.config.base import Settings
from isosweep.config.identity import OUTSIDE
from isosweep.config.values import Positive, Whole
from isosweep.errors import SettingError


def _data_file(path: str) -> str:
    if not path.endswith((".jsonl", ".json", ".parquet")):
        raise ValueError("must be a .jsonl, .json or .parquet file")
    return path


class RowsConfig(Settings):
    """Rows of a Hugging Face dataset or of a file; the `*_column` settings name what a row has."""

    dataset: str | None = None
    """Name of a Hugging Face dataset; null with a `path`."""
    subset: str | None = None
    """Configuration (subset) of the dataset."""
    split: str = "train"
    """Split of the dataset."""
    revision: str | None = None
    """Revision of the dataset; null: the newest."""
    # A file's content counts (`data_sha256`), not where it lies.
    path: Annotated[Annotated[str, AfterValidator(_data_file)] | None, OUTSIDE] = None
    """JSON lines, a JSON list of rows, or Parquet; null with a `dataset`."""
    data_sha256: str | None = None
    """Hash of the file; filled in automatically."""
    problem_column: str | None = "problem"
    """Column of the problem's text, or of messages; dots lead into a column. null, for task.math:
    recognised from the first row, with the answer's."""
    id_column: str | None = None
    """Column of the problem's id; null: a hash of its text."""
    level_column: str | None = None
    """Column of the problem's level; null: no levels."""

    def _check(self) -> None:
        if (self.dataset is None) == (self.path is None):
            rule = f"beside {self.group}.dataset={self.dataset}: one of them is null, and one only"
            if self.path is None:
                rule = f"has to be given, a file, where {self.group}.dataset is null"
            raise SettingError(f"{self.group}.path", self.path, rule)


class MathConfig(RowsConfig, group="task.math"):
    """Rows whose answers math-verify checks."""

    answer_column: str | None = "answer"
    """Column of the answer; null together with `problem_column`."""
    answer_after: str | None = None
    """The answer follows the last of these marks (GSM8K: `####`); null: the whole column is the
    answer."""
    skip_unparseable: bool = False
    """Leave out rows whose answer math-verify cannot read, or reads as something else; otherwise
    they are an error."""

    def _check(self) -> None:
        super()._check()
        if (self.problem_column is None) != (self.answer_column is None):
            rule = f"beside task.math.problem_column={self.problem_column}: null is both or none"
            raise SettingError("task.math.answer_column", self.answer_column, rule)


class CodeConfig(RowsConfig, group="task.code"):
    """Rows with tests for Python programs, which run in a sandbox."""

    tests_column: str = "tests"
    """Column of the tests: inputs and outputs, or assert statements."""
    entry_point_column: str | None = None
    """Column with the name of the function that the tests' `check(candidate)` receives; null: tests
    call functions by name."""
    skip_unusable: bool = False
    """Leave out rows whose tests cannot be used; otherwise they are an error."""
    time_limit_s: Positive = 10.0
    """Seconds for all tests of one program."""
    memory_mb: Annotated[Whole, Ge(128), Le(8000)] = 1024
    """Memory of one program, in MB; Python alone takes 128."""
