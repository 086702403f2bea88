"""MLflow's own pages of a sweep: what `mode=dashboard` opens."""

import re
import signal
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.commands import Command, in_process
from tests.conftest import SMALL, isosweep, refused
from tests.modes.sweeps import write_records
from tests.runs import wait_for

# Of which the made records have spent all.
BUDGETS = ("budget_unit=device_hours", "budget=[0.005,0.01]")
SWEEP = (*BUDGETS, *SMALL, "grid.num_generations=[2,4,8]")


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a sweep of made records, and the line that its analysis ended with."""
    cwd = tmp_path_factory.mktemp("dashboard")
    in_process(("mode=plan", *SWEEP), cwd)
    write_records(cwd)
    done = isosweep("mode=analyse", *SWEEP, cwd=cwd)
    assert re.search(r"^dashboard: python -m isosweep mode=dashboard sweep=", done.stdout, re.M)
    return cwd


@pytest.mark.mlflow
def test_a_store_without_the_sweep_is_refused_with_what_makes_it(analysed: Path) -> None:
    for setting, said in (
        ("tracking=none", "tracking=none: keeps no store that could be shown"),
        (f"tracking.uri=sqlite:///{analysed}/no.db", "no.db: holds no run of the sweep in exp"),
        ("tracking.uri=http://127.0.0.1:1", "http://127.0.0.1:1: [Errno 111] Connection refused"),
    ):
        assert said in refused("mode=dashboard", setting, cwd=analysed)
    assert not (analysed / "no.db").exists()


@pytest.mark.mlflow
def test_the_link_shows_mlflows_pages_until_ctrl_c(analysed: Path) -> None:
    # What an earlier command has written would be taken for its link.
    command = Command("mode=dashboard", cwd=analysed, output=analysed / "written")
    try:
        wait_for(lambda: "until Ctrl-C" in command.written)
        found = re.search(r"^dashboard: (\S+)#\S+", command.written, re.M)
        assert found is not None
        wait_for(lambda: b"<title>MLflow</title>" in _page(found[1]))
    finally:
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
    assert _page(found[1]) == b""


def _page(address: str) -> bytes:
    """What a server answers; nothing where there is none."""
    try:
        with urlopen(address) as answer:
            return bytes(answer.read())
    except URLError:
        return b""
