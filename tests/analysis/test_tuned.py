"""Values of settings in the places of n and B."""

import pytest

from isosweep.analysis.load import load_view
from isosweep.analysis.pairs import Pair
from isosweep.analysis.tuned import Scale, scales_of, tuned_cells
from isosweep.modes.directory import store_plan, sweep_paths
from isosweep.plan.study import resolve
from tests.analysis.tuned import ANALYSIS, RATE
from tests.conftest import make_config


def test_values_lie_apart_by_their_ratios() -> None:
    scale = Scale(setting=RATE, values=(1e-6, 3e-6, 1.2e-5))
    assert scale.places == (1024, 3072, 12288)
    for value in scale.values:
        assert scale.value_of(scale.place_of(value)) == pytest.approx(value)
    assert scale.value_of(2048) == pytest.approx(2e-6)


def test_values_with_a_zero_lie_apart_by_steps() -> None:
    scale = Scale(setting="recipe.beta", values=(0.0, 0.01, 0.1))
    assert scale.places == (1024, 2048, 4096)
    assert [scale.value_of(place) for place in scale.places] == [0.0, 0.01, 0.1]
    assert scale.value_of(1024 * 2**0.5) == pytest.approx(0.005)
    assert (scale.value_of(512), scale.value_of(9000)) == (0.0, 0.1)


def test_a_plan_is_seen_cell_by_cell(tmp_path: object) -> None:
    axes = "grid.axes={recipe.learning_rate:[4e-4,1e-4,2e-4],recipe.beta:[0.0,0.01,0.04]}"
    tune = ("search=tune", "search.cells=[[16,4],[8,4]]", "budget=1e11", f"sweeps_dir={tmp_path}")
    study = resolve(make_config(*tune, axes))
    paths = sweep_paths(study)
    store_plan(study, paths)
    plan = study.plan
    assert [scale.values for scale in scales_of(plan)] == [(1e-4, 2e-4, 4e-4), (0.0, 0.01, 0.04)]
    cells = tuned_cells(plan, [load_view(paths, ANALYSIS, axes) for axes in plan.axes])
    assert [cell.cell for cell in cells] == [Pair(8, 4), Pair(16, 4)]
    for cell in cells:
        assert len(cell.plan.runs) == 3 * 3 * 3
        assert {Pair.of(run) for run in cell.plan.runs} == {
            Pair(first, second) for first in (1024, 2048, 4096) for second in (1024, 2048, 4096)
        }
        known = {run.run_id: run for run in plan.runs}
        for run in cell.plan.runs:
            assert cell.values_at(run) == known[run.run_id].axes
