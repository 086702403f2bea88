"""A run has collapsed where two records say so."""

import numpy as np
import pytest

from isosweep.analysis.curves import Curve, collapse, with_witnesses
from tests.analysis.sweeps import make_plan

BEFORE = [0.1, 0.3, 0.5, 0.6]


@pytest.mark.parametrize(
    ("after", "diverged_by", "first"),
    [
        ([0.15], None, None),
        ([0.15, 0.14], None, 4),
        ([0.15, 0.58], None, None),
        # Training's own reward has said so already.
        ([0.15], "collapse", 4),
    ],
)
def test_one_bad_record_is_no_collapse(
    after: list[float], diverged_by: str | None, first: int | None
) -> None:
    assert collapse(np.array(BEFORE + after), 4096, diverged_by) == first


def curve_of(rewards: list[float], seed: int, n: int) -> Curve:
    plan = make_plan(seeds=range(4))
    (run,) = (r for r in plan.runs if (r.seed, r.num_generations) == (seed, n))
    steps = np.arange(len(rewards))
    compute = (steps * 1e6).astype(np.float64)
    return Curve(
        run=run,
        steps=steps,
        generations=steps,
        compute=compute,
        flops=compute,
        reward=np.array(rewards),
        successes=np.zeros((len(rewards), 512), dtype=np.int64),
        samples_per_problem=8,
        status="finished",
        status_reason=None,
    )


def test_a_last_record_is_believed_where_another_run_of_the_same_n_fell_too() -> None:
    fallen, kept = [*BEFORE, 0.15], [*BEFORE, 0.59]
    alone = [curve_of(fallen, 0, 8), curve_of(kept, 1, 8), curve_of(fallen, 0, 16)]
    assert [c.collapsed_at for c in with_witnesses(alone)] == [None, None, None]
    both = [*alone, curve_of(fallen, 2, 8)]
    assert [c.collapsed_at for c in with_witnesses(both)] == [4, None, None, 4]
