"""An import's own budgets are those that its n allow; which n and B go less far is named."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import isosweep as library
from tests.contract import logs
from tests.contract.surface import refused, write_csv


def ladder(low: float, high: float, per_decade: int = 10) -> list[float]:
    """Computes of evaluations, evenly by their logarithm."""
    number = round(per_decade * math.log10(high / low))
    return [low * (high / low) ** (k / number) for k in range(number + 1)]


def table(path: Path, records: Mapping[tuple[int, int], Iterable[float]]) -> Path:
    """A table of rewards at each compute, by n and B, with two seeds."""
    return write_csv(
        path,
        [
            {"n": n, "B": B, "seed": seed, "rollouts": round(at / (n * B)) * n * B}
            | {"reward": round(0.1 + 0.05 * math.log10(at) + 0.001 * seed, 5)}
            for (n, B), computes in records.items()
            for seed in (0, 1)
            for at in computes
        ],
    )


def budgets(tmp_path: Path, records: Any, *overrides: str) -> tuple[str, list[float]]:
    source = table(tmp_path / "a.csv", records)
    printed, _ = logs.imported(tmp_path, f"import.files={source}", *overrides)
    return printed, sorted(library.open(tmp_path / "sweeps" / "x").plan["budget"].unique())


def test_budgets_end_where_all_n_have_been_trained_to(tmp_path: Path) -> None:
    """Two n that go on by a quarter of a decade would be the only ones there."""
    records = {(n, 128): ladder(2e5, 3.8e6 if n < 32 else 2.2e6) for n in (8, 16, 32, 64, 128)}
    printed, found = budgets(tmp_path, records)
    assert 2e6 < found[-1] <= 2.2e6
    note = "n = 32, 64, 128 (B = 128): no records beyond the last budget, while other runs go on to"
    assert f"{note} 3.8e6 rollouts" in printed
    printed, found = budgets(tmp_path, records, "budget=[1e6,3.16e6]")
    assert found == [1e6, 3.16e6]
    assert "n = 32, 64, 128 (B = 128): no records at the last budget of 3.16e6 rollouts" in printed


def test_three_n_that_go_on_do_not_make_later_budgets(tmp_path: Path) -> None:
    records = {(n, 64): ladder(1e5, 4e6 if n < 32 else 2e6) for n in (4, 8, 16, 32, 64, 128)}
    printed, found = budgets(tmp_path, records)
    assert found[-1] <= 2e6
    assert "n = 32, 64, 128 (B = 64): no records beyond the last budget" in printed


def test_an_n_that_was_given_up_early_does_not_end_all_budgets(tmp_path: Path) -> None:
    records = {(n, 64): ladder(1e4, 1e6 if n > 4 else 5e4) for n in (4, 8, 16, 32)}
    printed, found = budgets(tmp_path, records)
    assert found[-1] > 9e5
    assert "n = 4 (B = 64): no records at the last budget of" in printed


def test_budgets_are_where_two_n_overlap_if_no_three_do(tmp_path: Path) -> None:
    """All runs have as many steps, so that a larger n begins and ends later."""
    records = {(n, 64): [64 * n * step for step in (50, 75, 100)] for n in (4, 10, 14)}
    _, found = budgets(tmp_path, records)
    assert 44_800 <= found[0] <= found[-1] <= 64_000
    source = table(tmp_path / "b.csv", {key: of for key, of in records.items() if key[0] != 14})
    said = refused("mode=import", f"import.files={source}", cwd=tmp_path)
    assert "no two n were evaluated at the same compute" in said


def test_a_b_that_goes_less_far_is_named(tmp_path: Path) -> None:
    records = {(n, 64): ladder(1e4, 1e6) for n in (4, 8, 16)}
    records |= {(n, 256): ladder(1e4, 2e5) for n in (8, 16)}
    printed, found = budgets(tmp_path, records)
    assert found[-1] > 9e5
    assert "n = 8, 16 (B = 256): no records at the last budget of" in printed


def test_no_budget_lies_between_records_that_are_far_apart(tmp_path: Path) -> None:
    records = {(n, 32): [*ladder(1e4, 1e5), *ladder(1e7, 2.5e7)] for n in (4, 8, 16, 32, 64, 128)}
    _, found = budgets(tmp_path, records)
    assert not [budget for budget in found if 1.01e5 < budget < 0.99e7]
    assert [budget for budget in found if budget < 1.01e5]
    assert [budget for budget in found if budget > 0.99e7]


def test_budgets_of_one_evaluation_a_decade_are_at_evaluations(tmp_path: Path) -> None:
    at = [1.3e4, 1.1e5, 1.2e6, 1.05e7]
    _, found = budgets(tmp_path, {(n, 32): at for n in (4, 8, 16)})
    assert found == pytest.approx(at, rel=0.02)


def test_n_that_cannot_be_read_at_the_same_compute_are_refused(tmp_path: Path) -> None:
    at = {4: [1e4, 1e5, 1e6], 8: [3e4, 3e5, 3e6], 16: [6e4, 6e5, 6e6]}
    source = table(tmp_path / "a.csv", {(n, 32): each for n, each in at.items()})
    said = refused("mode=import", f"import.files={source}", cwd=tmp_path)
    assert "evaluations of a run are more than a factor of 3.2 apart" in said
