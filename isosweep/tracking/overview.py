"""What came of a sweep, beside its runs' points: what its own run in MLflow says and holds."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from isosweep.files import open_plain
from isosweep.tracking.artifacts import Artifacts

# mlflow.utils.mlflow_tags: a run's description, in Markdown.
NOTE_TAG = "mlflow.note.content"
# mlflow.utils.mlflow_tags: which artifacts the pages show as tables.
_TABLES_TAG = "mlflow.loggedArtifacts"
# MLflow's limit of a tag's value.
_MAX_NOTE = 8000
# Pixels of the figure in the description, which MLflow shows as large as it is.
_FIGURE_SIZE = (720, 720)
_SMALL = "figures/small.png"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table whose cells are numbers, words, or None for what is not known."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


@dataclass(frozen=True)
class Problems:
    """Problems that the runs are trained on, or scored on: `source` says which they are."""

    name: str
    context: Literal["training", "evaluation"]
    count: int
    source: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What an analysis, or a search, says of the sweep's runs, by run id, and of its own by None.

    `note`: Markdown, and `notes` of single runs, by run id; `figure`: the one shown in `note`.
    `metrics` are held by `unix_time`, when they were found. `files`: artifacts beside figures and
    report; `problems`: its inputs. `collapsed`: runs that lost what they had gained; None where
    nobody has looked. `stopped`: runs of a search that has ended, as far as they could go or not;
    None while it goes on.
    """

    note: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    figure: Path | None = None
    tags: Mapping[str | None, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unix_time: float = 0.0
    tables: Mapping[str, Table] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    problems: tuple[Problems, ...] = ()
    collapsed: frozenset[str] | None = None
    stopped: frozenset[str] | None = None

    def tags_of(self, run_id: str | None, mlflow_id: str) -> dict[str, str]:
        """The tags of a run that MLflow calls `mlflow_id`."""
        tags = dict(self.tags.get(run_id, {}))
        if run_id is not None:
            return tags | ({NOTE_TAG: self.notes[run_id]} if run_id in self.notes else {})
        if self.note:
            tags[NOTE_TAG] = self._described(mlflow_id)
        if self.tables:
            shown = [{"path": _path(name), "type": "table"} for name in self.tables]
            tags[_TABLES_TAG] = json.dumps(shown)
        return tags

    def _described(self, mlflow_id: str) -> str:
        note = self.note[:_MAX_NOTE]
        if self.figure is None:
            return note
        # As the pages themselves ask for artifacts.
        query = urlencode({"path": _SMALL, "run_uuid": mlflow_id})
        return f"{note}\n\n![{self.figure.stem}](get-artifact?{query})"


def put_artifacts(artifacts: Artifacts, overview: Overview) -> None:
    """Replace the tables and files that the run has, and add its inputs. Raises as `Artifacts`.

    `log_table` of MLflow adds rows to a table that is there, so that each analysis would double
    them; this is the form that it writes.
    """
    from PIL import Image

    for name, table in overview.tables.items():
        document = {"columns": list(table.columns), "data": [list(row) for row in table.rows]}
        artifacts.put(_path(name), json.dumps(document).encode())
    if overview.figure is not None:
        small = BytesIO()
        with open(overview.figure, "rb", opener=open_plain) as figure, Image.open(figure) as image:
            image.thumbnail(_FIGURE_SIZE)
            image.save(small, "PNG")
        artifacts.put(_SMALL, small.getvalue())
    for file in overview.files:
        artifacts.add(file)
    # MLflow adds what the run has already no second time.
    artifacts.client.log_inputs(artifacts.mlflow_id, [_dataset(each) for each in overview.problems])


def _dataset(problems: Problems) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = json.dumps(problems.source, sort_keys=True)
    dataset = Dataset(
        name=problems.name,
        digest=hashlib.sha256(source.encode()).hexdigest()[:8],
        source_type="isosweep",
        source=source,
        profile=json.dumps({"num_problems": problems.count}),
    )
    # mlflow.utils.mlflow_tags: what it is used for.
    return DatasetInput(dataset, [InputTag("mlflow.data.context", problems.context)])


def _path(name: str) -> str:
    return f"tables/{name}.json"
