"""Why a law across entries is not identified, in words."""

from typing import get_args

import pytest

from isosweep import words
from isosweep.analysis.statistics.across import Failure, Unidentified

# By the amounts that only it has, as a document holds them.
LAWS: dict[str, dict[str, object]] = {
    "sizes": {"sizes": (1e9, 7e9), "num_generations": 8, "problems_per_batch": 4},
    "reuse": {"passes": (1, 4), "budget": 1e18, "num_generations": 8, "problems_per_batch": 4},
    "updates": {"updates": (1, 4), "num_generations": 8, "problems_per_batch": 4},
    "joint": {"updates": (1, 4), "batches": (4, 8), "num_generations": 8},
}


@pytest.mark.parametrize("law", LAWS)
def test_every_kind_of_failure_is_worded_and_no_two_alike(law: str) -> None:
    said = {
        words.line("comparison", "sentence", {**LAWS[law], "found": vars(found)}, False, "flops")
        for kind in get_args(Failure)
        for found in [Unidentified(kind=kind, found=0.01, least=0.04, of="batch")]
    }
    assert any(
        each.endswith("a run gains only 0.010 of reward, and more than 0.04 is needed.")
        for each in said
    )
    assert len(said) == len(get_args(Failure))
    assert all(
        "is not established: " in each and each.endswith(".") and ".." not in each for each in said
    )
    of = "n = 8" if law == "joint" else "n = 8, B = 4"
    assert all(of in each for each in said)
