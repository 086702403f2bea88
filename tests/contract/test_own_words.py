"""What a stored sweep executes is its owner's where the file that says it is."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from tests.conftest import SMALL
from tests.contract.surface import isosweep

_SWEEP = ("budget=6.4e9", *SMALL, "grid.num_generations=[4]", "tracking=none", "name=s")
_RESUME = ("mode=resume", "name=s", "tracking=none")


# The group "users" of every system: root may give it a directory, others have one of their own.
_USERS = 100


def _open(directory: Path) -> None:
    with contextlib.suppress(PermissionError):
        os.chown(directory, -1, _USERS)
    directory.chmod(0o2775)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory as a lab's projects have it: its group may write all directories below."""
    project = tmp_path / "project"
    project.mkdir()
    _open(project)
    told = f"launcher.on_finish='echo done >> {tmp_path}/told'"
    isosweep(*_SWEEP, told, cwd=project)
    (tmp_path / "told").unlink()
    for path in project.rglob("*"):
        if path.is_dir():
            _open(path)
    return project


def test_the_owner_of_a_projects_directory_is_not_refused_his_own_words(
    project: Path, tmp_path: Path
) -> None:
    isosweep(*_RESUME, cwd=project)
    assert (tmp_path / "told").read_text() == "done\n"


def test_a_file_that_others_may_write_is_refused_by_its_name(project: Path, tmp_path: Path) -> None:
    config = project / "sweeps" / "s" / "config.json"
    assert "on_finish" in json.dumps(json.loads(config.read_text()))
    config.chmod(0o666)
    done = isosweep(*_RESUME, cwd=project, check=False)
    assert done.returncode == 2
    assert f"{config} may be written by everybody" in done.stdout + done.stderr
    assert not (tmp_path / "told").exists()
