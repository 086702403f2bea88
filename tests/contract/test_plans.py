"""Twelve plans as stored numbers, and what holds of every plan.

`python -m tests.contract.test_plans` stores the numbers again, in plans/: after a change that is
meant to alter plans. A stored row holds, for one n and B at one budget, all seeds that share it.
"""

import json
import tempfile
from collections import Counter
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.contract.surface import PLANS, Plan

_STORED = Path(__file__).with_name("plans")


@cache
def plan_of(name: str) -> Plan:
    with tempfile.TemporaryDirectory() as cwd:
        return Plan.made_by(PLANS[name], Path(cwd))


def numbers(plan: Plan) -> dict[str, Any]:
    """Plain JSON of a plan: each row is axes, budget, n, B, seeds, T, then compute and FLOPs of a
    planned candidate, or the rules that a rejected one breaks."""
    planned = [(at, cell[:-1]) for at, cell in plan.planned]
    rejected = [(at, (why.steps, list(why.rules))) for at, why in plan.rejected]
    return {
        "unit": plan.unit,
        "budgets": plan.budgets,
        "runs": len({cell.run for _, cell in plan.planned}),
        "planned": _rows(planned),
        "rejected": _rows(rejected),
    }


def _rows(candidates: list[Any]) -> list[list[Any]]:
    ordered = sorted((*at[:-1], *values, at.seed) for at, values in candidates)
    rows = []
    for (axes, *at), same in groupby(ordered, key=lambda each: each[:-1]):
        rows.append([json.loads(axes), *at[:3], [seed for *_, seed in same], *at[3:]])
    return rows


def _split(rows: list[list[Any]]) -> tuple[list[list[Any]], list[float]]:
    """What has to be equal, and the numbers that have to be equal to rounding."""
    exact = [[value for value in row if not isinstance(value, float)] for row in rows]
    return exact, [value for row in rows for value in row if isinstance(value, float)]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_has_the_stored_numbers(name: str) -> None:
    stored = json.loads((_STORED / f"{name}.json").read_text())
    now = numbers(plan_of(name))
    for kind in ("planned", "rejected"):
        (exact, close), (expected, near) = _split(now.pop(kind)), _split(stored.pop(kind))
        assert exact == expected
        assert close == pytest.approx(near, rel=1e-9, abs=0)
    assert now == stored


@pytest.mark.parametrize("name", PLANS)
def test_every_candidate_is_planned_or_rejected_once(name: str) -> None:
    plan = plan_of(name)
    found = [candidate for candidate, _ in (*plan.planned, *plan.rejected)]
    assert Counter(found) == Counter(plan.enumerated)


@pytest.mark.parametrize("name", PLANS)
def test_every_cell_spends_within_the_tolerance_of_its_budget(name: str) -> None:
    plan = plan_of(name)
    for candidate, cell in plan.planned:
        off = abs(cell.compute - candidate.budget) / candidate.budget
        assert off <= plan.tolerance, (candidate, cell)
        if plan.unit == "rollouts":
            assert cell.compute == candidate.n * candidate.B * cell.steps
        if plan.unit == "flops":
            assert cell.compute == cell.flops


@pytest.mark.parametrize("name", PLANS)
def test_every_rejection_names_its_rules_with_numbers(name: str) -> None:
    for candidate, rejection in plan_of(name).rejected:
        assert rejection.rules, candidate
        assert any(letter.isdigit() for letter in rejection.reason), rejection


@pytest.mark.parametrize("name", PLANS)
def test_one_run_serves_the_cells_of_every_budget(name: str) -> None:
    plan = plan_of(name)
    settings = {(c.axes, c.n, c.B, c.seed): cell.run for c, cell in plan.planned}
    assert len(set(settings.values())) == len(settings)
    for c, cell in plan.planned:
        assert cell.run == settings[c.axes, c.n, c.B, c.seed]


def _store() -> None:
    _STORED.mkdir(exist_ok=True)
    for name in PLANS:
        document = numbers(plan_of(name))
        rows = {kind: document.pop(kind) for kind in ("planned", "rejected")}
        # A row on a line, so that a difference reads as what it changes.
        lines = [f'"{kind}": [\n{_lines(listed)}\n]' for kind, listed in rows.items()]
        text = json.dumps(document).removesuffix("}") + ",\n" + ",\n".join(lines) + "\n}\n"
        (_STORED / f"{name}.json").write_text(text)


def _lines(rows: list[list[Any]]) -> str:
    return ",\n".join(map(json.dumps, rows))


if __name__ == "__main__":
    _store()
