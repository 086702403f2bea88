"""What a search is refused with, and what it leaves alone."""

import pytest

from isosweep.errors import SettingError
from isosweep.plan.study import resolve
from tests.conftest import SMALL, make_config


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["search.max_compute=1e10"], r"^search\.max_compute=.* is a search's, .*search=frontier"),
        (["search=frontier", "search.storage=a.db"], r"^search\.storage=a\.db: is no URL .*null$"),
        (["search=frontier", "mode=launch"], r"^mode=launch: leaves its runs, .*mode=run"),
        (["search=frontier", "checkpoint.keep=none"], r"^checkpoint\.keep=none: .*=resumable"),
    ],
)
def test_what_no_search_can_do_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_config(*overrides)


def test_a_search_has_the_plan_and_the_runs_of_its_grid() -> None:
    grid, search = (resolve(make_config(*SMALL, f"search={kind}")) for kind in ("grid", "frontier"))
    assert search.plan == grid.plan
    assert make_config().search.kind == "grid"
