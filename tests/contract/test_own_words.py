"""What a stored sweep executes is its owner's where the file that says it is, and nobody else's."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL
from tests.contract.surface import isosweep

_SWEEP = ("budget=6.4e9", *SMALL, "grid.num_generations=[4]", "tracking=none", "sweep=s")
_RESUME = ("mode=resume", "sweep=s", "tracking=none")


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
    told = f"launcher.on_finish='touch {tmp_path}/told'"
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
    assert (tmp_path / "told").exists()


def test_a_file_that_others_may_write_is_refused_by_its_name(project: Path, tmp_path: Path) -> None:
    config = project / "sweeps" / "s" / "config.json"
    assert "on_finish" in json.dumps(json.loads(config.read_text()))
    config.chmod(0o666)
    done = isosweep(*_RESUME, cwd=project, check=False)
    assert done.returncode == 2
    assert f"{config} may be written by everybody" in done.stdout + done.stderr
    assert not (tmp_path / "told").exists()


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
# Whom every system has, in none of root's groups.
_SECOND_USER = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
# What they are given, in the place of a file.
_REPLACE = 'cat >"$1.new" && mv -f "$1.new" "$1"'


@pytest.fixture
def lab() -> Iterator[Path]:
    """A planned sweep where everybody may write, as pytest's own directory is closed."""
    with tempfile.TemporaryDirectory() as directory:
        lab = Path(directory)
        isosweep("mode=plan", *_SWEEP, cwd=lab)
        for path in (lab, *lab.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        yield lab


def _replaced_by_the_other(path: Path, document: dict[str, Any]) -> None:
    command = [*_SECOND_USER, "/bin/sh", "-c", _REPLACE, "sh", str(path)]
    subprocess.run(command, input=json.dumps(document), text=True, check=True)


@as_root
def test_nothing_that_another_user_wrote_is_executed(lab: Path, tmp_path: Path) -> None:
    config = lab / "sweeps" / "s" / "config.json"
    document = json.loads(config.read_text())
    document["launcher"]["on_finish"] = f"touch {tmp_path}/ran"
    _replaced_by_the_other(config, document)
    done = isosweep(*_RESUME, cwd=lab, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 2
    assert f"launcher.on_finish=touch {tmp_path}/ran: would be executed" in said
    assert f"{config} belongs to nobody" in said
    isosweep("mode=status", "sweep=s", cwd=lab)
    assert not (tmp_path / "ran").exists()
    isosweep(*_RESUME, "trust=true", cwd=lab)
    assert (tmp_path / "ran").exists()
