"""What is executed out of files that others may have written: only what this user said or saw."""

import grp
import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isosweep.config import trust as module
from isosweep.config.base import AXIS_GROUPS
from isosweep.config.trust import (
    executed,
    others_may_write,
    require_own,
    require_unpickled,
)
from isosweep.errors import SettingError
from isosweep.modes.launch import resume_sweep
from isosweep.modes.sweeps import read_sweep, stored_sweep
from isosweep.tasks import problem_sets
from tests.conftest import make_config
from tests.modes.looked_after import sweep_in, terminal


def custom(function: str, **others: Any) -> dict[str, Any]:
    """The settings of a task that is a function, as a stored config has them."""
    own = {"function": function, "parameters": None, "directory": None, **others}
    tokens = {"prompt_tokens": 5, "completion_tokens": 5, "max_completion_tokens": 5}
    return {"kind": "custom", "sort": None, "template": None, "custom": own, **tokens}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FOREIGN", {})


@pytest.fixture
def shared(tmp_path: Path) -> Callable[..., Path]:
    """A sweep whose config.json others may write, changed by the settings given by group."""

    def made(**groups: dict[str, Any]) -> Path:
        root = sweep_in(tmp_path, "tracking=none").paths.root
        document = json.loads((root / "config.json").read_text())
        for group, settings in groups.items():
            document[group].update(settings)
        (root / "config.json").write_text(json.dumps(document))
        (root / "config.json").chmod(0o666)
        return root

    return made


def refused(root: Path, tracking: str = "none") -> str:
    config = make_config("mode=resume", f"sweep={root}", f"tracking={tracking}")
    with pytest.raises(SettingError) as error:
        resume_sweep(config, terminal())
    return str(error.value)


@pytest.mark.parametrize(
    ("launcher", "setting", "value"),
    [
        ("slurm", "setup", ["touch x"]),
        ("slurm", "python", "sh -c 'touch x'"),
        ("slurm", "additional", {"export": "ALL,BASH_ENV=/x"}),
    ],
)
def test_every_launcher_s_are_refused(
    launcher: str, setting: str, value: Any, shared: Callable[..., Path]
) -> None:
    root = shared(launcher={"name": launcher, launcher: {setting: value}})
    assert refused(root).startswith(f"launcher.{launcher}.{setting}=")


def test_a_function_of_others_is_not_imported_by_whoever_reads_it(
    shared: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    root = shared(task=custom("evil:f", directory=str(tmp_path)))
    assert "task.custom=" in refused(root)
    with pytest.raises(SettingError, match=r"task\.custom"):
        problem_sets(read_sweep(root).config.task)
    assert not (tmp_path / "ran").exists()


def test_one_hidden_in_an_axis_or_a_set_is_found(shared: Callable[..., Path]) -> None:
    root = shared(grid={"axes": {"v": {"a": {}}}})
    document = json.loads((root / "config.json").read_text())
    groups = {name: document[name] for name in AXIS_GROUPS}
    groups["recipe"] = {**document["recipe"], "loss_type": "os:system"}
    groups["task"] = {**document["task"], **custom("os:system")}
    document["variants"] = [{"axes": {"v": "a"}, **groups, "grid": {}}]
    (root / "config.json").write_text(json.dumps(document))
    found = [setting for setting, _ in executed(read_sweep(root).config)]
    assert found == ["task.custom", "recipe.loss_type"]
    whole = {**document["task"], **custom("os:system")}
    of_set = {"x": {"problems": "heldout", "task": whole}}
    root = shared(grid={"axes": None}, evaluation={"sets": of_set})
    assert "os:system" in refused(root)


def test_trust_is_a_word_of_the_command_and_not_of_the_file(shared: Callable[..., Path]) -> None:
    root = shared(launcher={"on_finish": "evil"})
    stored = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps({**stored, "trust": True}))
    assert "launcher.on_finish=evil" in refused(root)
    stored_sweep(make_config("mode=resume", f"sweep={root}", "trust=true"))
    require_own(("launcher.on_finish", "evil"))


def test_an_option_of_ones_own_lets_no_other_one_through(shared: Callable[..., Path]) -> None:
    root = shared(launcher={"slurm": {"additional": {"export": "ALL,BASH_ENV=/evil"}}})
    asked = f"sweep={root}", "+launcher.slurm.additional.qos=high"
    with pytest.raises(SettingError, match="BASH_ENV=/evil"):
        resume_sweep(make_config("mode=resume", "tracking=none", *asked), terminal())


def test_sharded_states_of_others_are_not_unpickled(tmp_path: Path) -> None:
    state = tmp_path / "optimizer" / "__0_0.distcp"
    state.parent.mkdir()
    state.write_text("")
    state.chmod(0o644)
    require_unpickled(tmp_path)
    state.chmod(0o666)
    with pytest.raises(SettingError, match="pickle"):
        require_unpickled(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a" / "config.json"
    path.parent.mkdir(mode=0o755)
    path.write_text("{}")
    path.chmod(0o644)
    return path


def test_a_group_of_ones_own_is_nobody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me, group = pwd.getpwuid(os.geteuid()), file.stat().st_gid
    file.chmod(0o664)

    def known(name: str, members: list[str], *others: int) -> str | None:
        users = [SimpleNamespace(pw_name=me.pw_name, pw_uid=me.pw_uid, pw_gid=group)]
        users += [SimpleNamespace(pw_name="x", pw_uid=uid, pw_gid=group) for uid in others]
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: users[0])
        monkeypatch.setattr(pwd, "getpwall", lambda: users)
        monkeypatch.setattr(
            grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_mem=members)
        )
        return others_may_write(file)

    assert known(me.pw_name, []) is None
    assert known(me.pw_name, [me.pw_name]) is None
    shared = f"{file} may be written by its group (-rw-rw-r--)"
    # One that has every user of the site, who are no members by the books.
    assert known("users", []) == shared
    assert known(me.pw_name, ["mallory"]) is not None
    assert known(me.pw_name, [], 4711) is not None


def test_an_access_list_counts_as_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o664)
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
    assert "has an access list" in str(others_may_write(file))


def test_optuna_s_own_samplers_are_no_code_of_others(shared: Callable[..., Path]) -> None:
    search = {"name": "optuna", "sampler": "evil.Sampler"}
    search["pruner"] = "optuna.pruners.NopPruner"
    read_sweep(shared(search=search))
    require_own(("search.pruner", "optuna.pruners.NopPruner"))
    with pytest.raises(SettingError):
        require_own(("search.sampler", "evil.Sampler"))
