"""Verdicts, n*, n_d with their intervals and rewards to expect are those that are stored, to 1e-6.

| sweeps | read by | where |
|---|---|---|
| ten simulated ones, and the study `smollm2` | `import isosweep` | `make test` |
| one of the ten | `mode=import` and `mode=analyse` | `make test` |
| the other fifty, and the study `few_problems` | `import isosweep` | `make test-system` |

`stored_numbers` says what the sweeps are, and how the numbers are made again.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.stored_numbers import (
    ARCHIVES,
    SWEEPS_OF_STUDIES,
    Numbers,
    differences,
    numbers_of,
    numbers_of_archive,
    numbers_of_sweep,
    stored,
    tables,
)
from tests.contract.surface import QUANTITIES, import_rows

# With every verdict but `grew`, and most ways in which a table is ragged.
QUICK = (
    "ten flat",
    "ten hard",
    "ten bump",
    "ten several B",
    "ten behind",
    "ten holes",
    "ten n missing",
    "ten one seed",
    "36 constant",
    "36 one collapsed",
)
BY_COMMANDS = ("ten behind", "best")


def slow_but_for(quick: tuple[str, ...], names: tuple[str, ...]) -> list[Any]:
    """The names for parametrize."""
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


def require_same(before: dict[str, Numbers], now: dict[str, Numbers]) -> None:
    moved = differences(before, now)
    if moved:
        pytest.fail("\n".join(["numbers that moved, stored and now:", *moved]), pytrace=False)


@pytest.mark.parametrize("name", slow_but_for(QUICK, tuple(tables())))
def test_a_simulated_sweep_has_its_numbers(name: str, tmp_path: Path) -> None:
    require_same({name: stored()[name]}, {name: numbers_of_sweep(name, tmp_path)})


@pytest.mark.parametrize("name", slow_but_for(("smollm2",), tuple(ARCHIVES)))
def test_a_study_has_its_numbers(name: str, tmp_path: Path) -> None:
    before = {each: own for each, own in stored().items() if each.startswith(ARCHIVES[name])}
    require_same(before, numbers_of_archive(name, tmp_path))


@pytest.mark.parametrize(("name", "quantity"), [BY_COMMANDS])
def test_commands_find_the_same_numbers(name: str, quantity: str, tmp_path: Path) -> None:
    _, answer = import_rows(tmp_path, tables()[name].to_dict("records"), quantity=quantity)
    of_others = {each for each in QUANTITIES if each != quantity}
    before = {key: own for key, own in stored()[name].items() if key not in of_others}
    require_same({name: before}, {name: numbers_of({quantity: answer})})


def test_all_that_is_stored_is_compared() -> None:
    of_studies = [name for name in stored() if name.startswith(SWEEPS_OF_STUDIES)]
    assert len(of_studies) == 5
    assert {*stored()} == {*tables(), *of_studies}
    assert len(tables()) == 60
