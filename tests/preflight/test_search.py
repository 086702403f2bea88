"""What a search cannot use is refused by a plan, as by a launch, and nothing is stored."""

from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.run import Launch, together
from isosweep.plan.study import resolve
from isosweep.preflight.search import require_search
from tests.conftest import SMALL, make_config

SEARCH = (*SMALL, "budget=[6.4e9,1.28e10]", "search=frontier")


def test_a_limit_that_pays_for_no_first_step_is_refused_with_one_that_does() -> None:
    require_search(resolve(make_config(*SEARCH, "search.max_compute=6.4e9")))
    low = resolve(make_config(*SEARCH, "search.max_compute=1"))
    with pytest.raises(SettingError, match=r"=1: the cheapest.* 6\.4e\+09 .*compute=6\.4e\+09$"):
        require_search(low)
    axes = "grid.axes={recipe.num_iterations:[1,2]}"
    half = resolve(make_config(*SEARCH, axes, "search.max_compute=6.4e9"))
    with pytest.raises(SettingError, match=r"2 variants have equal parts.*compute=1\.28e\+10$"):
        require_search(half)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("foo://bar", r"foo://bar: cannot be opened \(Can't load plugin"),
        ("sqlite:////no/such/directory/x.db", "/no/such/directory is no directory"),
        ("postgresql+nosuch://user:secret@host/db", r"user:\*\*\*@host/db: cannot be opened"),
    ],
)
def test_a_storage_of_no_known_kind_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        require_search(resolve(make_config(*SEARCH, f"search.storage='{url}'")))


def test_one_sweep_is_not_searched_in_two_ways_by_one_command(tmp_path: Path) -> None:
    here = f"sweeps_dir={tmp_path}"
    one, two = (
        Launch(studies=(resolve(make_config(*SEARCH, here, more)),), follow=True)
        for more in ("search=frontier", "search=optuna")
    )
    together([one, one])
    with pytest.raises(SettingError, match=r"^search=frontier,optuna: these jobs are one sweep, "):
        together([one, two])
