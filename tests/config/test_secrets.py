"""Passwords in addresses of databases: no file holds them, and nothing prints them."""

from pathlib import Path

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import (
    hidden,
    without_password,
)
from isosweep.modes.sweeps import store_plan, stored_sweep, sweep_paths
from isosweep.plan.study import resolve
from tests.commands import in_process
from tests.conftest import SMALL, make_config

URL = "postgresql+psycopg2://me:secretword@127.0.0.1:1/studies"
SEARCH = (*SMALL, "budget=[6.4e9,1.28e10]", "search=frontier", "tracking=mlflow")
TYPED = (f"tracking.uri='{URL}'",)


@pytest.mark.parametrize(
    ("url", "stored", "shown"),
    [
        (URL, URL.replace(":secretword", ""), URL.replace("secretword", "***")),
        ("mysql://me:a/b:c@d@host/x", "mysql://me@host/x", "mysql://me:***@host/x"),
        ("https://me:pw@host:5000/a", "https://me@host:5000/a", "https://me:***@host:5000/a"),
        ("postgresql:///x?user=me&password=pw&host=h", "postgresql:///x?user=me&host=h", None),
        ("postgresql:///x?password=pw", "postgresql:///x", "postgresql:///x?password=***"),
        ("postgresql://me@host:5432/x", "postgresql://me@host:5432/x", None),
        ("http://host:5000", "http://host:5000", "http://host:5000"),
        ("http://host:5000/a@b", "http://host:5000/a@b", "http://host:5000/a@b"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
    ],
)
def test_addresses_are_stored_and_shown_without_a_password(
    url: str, stored: str, shown: str | None
) -> None:
    assert without_password(url) == stored
    assert "pw" not in hidden(url)
    assert shown is None or hidden(f"at {url}\nor {url}") == f"at {shown}\nor {shown}"


def stored(cwd: Path) -> SweepConfig:
    """What was typed for a sweep in `cwd`, which is stored there."""
    config = make_config(*SEARCH, *TYPED, f"sweeps_dir={cwd}")
    study = resolve(config)
    store_plan(study, sweep_paths(study))
    return config


def test_a_sweeps_directory_holds_no_password(tmp_path: Path) -> None:
    stored(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert not [path for path in files if "secretword" in path.read_text()]
    known = stored_sweep(make_config(f"sweeps_dir={tmp_path}")).config
    assert known.tracking.uri == URL.replace(":secretword", "")


def test_a_multirun_writes_no_password(tmp_path: Path) -> None:
    both = ("-m", *SEARCH, *TYPED, "mode=plan", "grid.seeds=[1],[0]")
    planned = in_process(both, tmp_path)
    assert planned.returncode == 0
    assert list(tmp_path.glob("sweeps/multirun/*/multirun.yaml"))
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in (planned.stdout, planned.stderr, *texts) if "secretword" in text]
