"""A search whose study is in a real PostgreSQL, as `search.storage` has it for several machines."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from isosweep.errors import StorageError
from isosweep.modes.follow import DrivenSweep
from isosweep.modes.sweeps import sweep_paths
from isosweep.plan.study import resolve
from tests.conftest import make_config, missing
from tests.search.test_asking import SEARCH, ids, opened

pytestmark = pytest.mark.slow


class Postgres:
    """A server in `root` that listens on a socket there alone; it refuses to run as root."""

    def __init__(self, root: Path, commands: Path) -> None:
        self.storage = f"postgresql+psycopg2://postgres@/studies?host={root}"
        self._data, self._commands = root / "data", commands
        shutil.chown(root, "postgres")
        self._run("initdb", "-D", str(self._data), "--auth=trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{root}' -c fsync=off"
        log = str(root / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")
        self._run("createdb", "-h", str(root), "studies")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def _run(self, command: str, *arguments: str) -> None:
        done = subprocess.run(
            ["runuser", "-u", "postgres", "--", str(self._commands / command), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    # Debian keeps PostgreSQL's own commands out of PATH, in a directory for each version.
    commands = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not commands or shutil.which("runuser") is None:
        missing("postgres", "PostgreSQL or runuser is not installed")
    # A socket's path is short.
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        server = Postgres(Path(root), commands[-1])
        yield server
        # A test may have stopped it.
        if (server._data / "postmaster.pid").exists():
            server.stop()


def test_a_search_in_postgresql_goes_on_in_another_process_and_names_a_server_that_is_gone(
    postgres: Postgres, tmp_path: Path
) -> None:
    storage = f"search.storage='{postgres.storage}'"
    first = opened(tmp_path, storage, places=1)
    assert ids(first.next({})) == ["tiny-sort-n2-B4"]
    first.close()

    again = opened(tmp_path, storage, places=2)
    assert [(run.num_generations, run.milestones) for run in again.runs] == [(2, (6.4e9,))]

    study = resolve(make_config(*SEARCH, f"sweeps_dir={tmp_path}", storage))
    sweep = DrivenSweep(study=study, paths=sweep_paths(study), search=again)
    postgres.stop()
    again._next_look = 0.0
    with pytest.raises(StorageError, match=r"studies.* Go on with: .* mode=resume sweep="):
        sweep.next_steps({})
