"""The table of studies is what is stored of their records."""

from pathlib import Path
from typing import Any

import pytest

from isosweep.words.numbers import interval
from tests.contract.stored_numbers import SWEEPS_OF_STUDIES, stored

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"
# Beside the largest budget a row has this one, read off the same runs.
SMALL = {"few_problems": 2.03e10, "smollm2": 128.0}


@pytest.mark.parametrize("name", [n for n in stored() if n.startswith(SWEEPS_OF_STUDIES)])
def test_the_table_of_a_study_is_what_its_records_show(name: str) -> None:
    own, setting = stored()[name], name.split()[-1]
    small = next(budget for study, budget in SMALL.items() if name.startswith(study))
    first = min(own["at"], key=lambda at: abs(at["budget"] - small))
    last, judged = own["at"][-1], own["enough"]
    cells = (
        *(f"`{setting}`", words(first["n_star"]), words(last["n_star"]), words(last["n_d"])),
        f"{judged['probabilities']['grew']:.1%}",
        f"{own['use']['expected']:.3f}",
        f"`{judged['verdict']}`",
    )
    assert f"| {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8").splitlines()


def words(found: list[Any]) -> str:
    """An n with its interval, as the report has it."""
    median, low, high, below, above = found
    return interval(median, low, high, below=below, above=above)
