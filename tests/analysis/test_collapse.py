"""A run has collapsed where two records say so."""

import numpy as np
import pytest

from isosweep.analysis.curves import collapse

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
