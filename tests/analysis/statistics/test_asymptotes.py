"""A is given where the end of the curves confirms it."""

import pytest

from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.asymptotes import _over_seeds
from isosweep.analysis.statistics.fits import Estimate, Fit, FitStatus


def fits(*tails: float | None) -> list[Fit]:
    """Of runs whose sigmoids end at 0.60 and a little more."""
    return [
        Fit(
            run_id=f"run-{i}",
            status=FitStatus.FITTED,
            num_records=20,
            base_reward=0.2,
            asymptote=Estimate(value=0.6 + 0.005 * i, standard_error=0.002),
            share_risen=0.95,
            base_effect=0.0,
            tail_limit=tail,
        )
        for i, tail in enumerate(tails)
    ]


@pytest.mark.parametrize(
    ("tails", "given"),
    [
        ((0.600, 0.606, 0.61), True),
        # One tail that runs away is an accident, most of them are not.
        ((0.600, 0.606, 0.90), True),
        ((0.700, 0.720, 0.71), False),
        ((0.500, 0.520, 0.51), False),
        ((None, None, None), False),
    ],
)
def test_a_limit_that_the_tails_deny_is_not_given(
    tails: tuple[float | None, ...], given: bool
) -> None:
    found = _over_seeds(Pair(8, 4), fits(*tails), 0.9)
    assert found.num_identified == 3
    assert (found.value is not None) == given
    assert (found.low is not None) == given
