"""Pages of studies say what the records that are shipped say."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from isosweep.analysis.statistics.intervals import Interval
from isosweep.analysis.statistics.optima import BestGenerations, Range
from isosweep.files import read_json
from tests.conftest import isosweep

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("archive", "page", "sweeps", "small"),
    [
        ("few_problems", "studies.md", {"few_problems": 3}, 2.03e10),
        ("smollm2", "studies.md", {"smollm2_few": 1, "smollm2_many": 1}, 128),
    ],
)
def test_the_table_of_a_study_is_what_its_records_show(
    tmp_path: Path, archive: str, page: str, sweeps: dict[str, int], small: float
) -> None:
    """`sweeps`: how many settings each has; `small`: rows of the table are of this budget, read off
    the same runs, and of the largest."""
    with tarfile.open(DOCS / "studies" / f"{archive}.tar.xz") as records:
        records.extractall(tmp_path, filter="data")
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    # The figures of studies are no part of the table.
    quiet = ("tracking=none", "analysis.formats=[]")
    for sweep, count in sweeps.items():
        isosweep("mode=analyse", f"sweep_dir={tmp_path / sweep}", *quiet, cwd=tmp_path)
        answers = sorted((tmp_path / sweep / "analysis").glob("**/answer.json"))
        assert len(answers) == count
        for file in answers:
            document = read_json(file)
            assert document is not None
            setting = file.parent.name.partition("=")[2] or sweep
            written = next(line for line in lines if line.startswith(f"| `{setting}`"))
            assert row(setting, document, small) == written


def row(setting: str, document: dict[str, Any], small: float) -> str:
    """The line of the table for one setting."""
    optima = {at["budget"]: words(at) for at in document["optima"]}
    enough = document["optima"][-1]["enough"]
    first = min(optima, key=lambda budget: abs(budget - small))
    reward = document["use"]["expected"]
    cells = (
        f"`{setting}`",
        optima[first],
        optima[max(optima)],
        Range(**enough | {"interval": Interval(**enough["interval"])}).words,
        f"{document['growth']['grew']:.1%}",
        f"{reward:.3f}",
        f"`{document['verdict']}`",
    )
    return f"| {' | '.join(cells)} |"


def words(at: dict[str, Any]) -> str:
    """n* at one budget, as the report has it."""
    return BestGenerations(**at | {"interval": Interval(**at["interval"])}).words
