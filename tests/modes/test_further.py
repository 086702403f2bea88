"""One n more for a grid is offered where the planner takes it, and else what keeps it out."""

import re

import pytest

from isosweep import words
from isosweep.modes.further import further_n
from tests.conftest import make_config, plan_of

GRID = ("budget=[4e10,8e10]", "grid.num_generations=[4,8,16]", "grid.problems_per_batch=[4]")


def offered(n: int, *overrides: str) -> str:
    config = make_config(*GRID, *overrides)
    return words.line("answer", "add_n", further_n(plan_of(config), config, n))


@pytest.mark.parametrize(("n", "grid"), [(32, "[4,8,16,32]"), (2, "[2,4,8,16]")])
def test_what_is_offered_can_be_typed_and_keeps_what_was_trained(n: int, grid: str) -> None:
    said = offered(n)
    assert said == f"grid.num_generations={grid} (3 runs, 33% more compute; what was trained stays)"
    (typed,) = re.findall(r"^\S+", said)
    own, wide = plan_of(make_config(*GRID)), plan_of(make_config(*GRID[:1], *GRID[2:], typed))
    ids = {run.run_id for run in own.runs}
    assert ids < {run.run_id for run in wide.runs}
    assert len(wide.runs) == len(own.runs) + 3


def test_where_n_x_b_is_fixed_the_batch_comes_with_it() -> None:
    fixed = ("grid.problems_per_batch=[4,8,16]", "grid.completions_per_step=[64]")
    assert offered(32, *fixed).startswith(
        "grid.num_generations=[4,8,16,32] grid.problems_per_batch=[2,4,8,16] (3 runs, "
    )


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("grid.max_completions_per_step=64", "grid.max_completions_per_step"),
        ("grid.min_steps=60", "grid.min_steps"),
    ],
)
def test_what_keeps_an_n_out_is_named(setting: str, rule: str) -> None:
    said = offered(32, setting)
    assert said.startswith(f"n = 32, which {rule} keeps out at ")
    # Asked for already, and left out: no more use.
    assert offered(32, setting, "grid.num_generations=[4,8,16,32]") == said


def test_of_several_variants_each_has_its_own() -> None:
    config = make_config(*GRID, "grid.axes={recipe.beta:[0.0,0.01]}")
    plan = plan_of(config)
    for axes in plan.axes:
        assert "(3 runs of each variant, 33% more" in words.line(
            "answer", "add_n", further_n(plan.of_axes(axes), config, 32)
        )
