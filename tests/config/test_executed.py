"""What is executed out of files that others may have written: only what this user said or saw."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config import executed as module
from isosweep.config.executed import (
    EXECUTED,
    VOUCHED,
    Executed,
    executed,
    foreign,
    require_own,
    require_unpickled,
    require_vouched,
    vouch,
    vouched,
)
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.modes.directory import read_sweep
from isosweep.modes.on_finish import Finish, on_finish
from isosweep.modes.price import NotConfirmedError
from isosweep.modes.run import resume_sweep
from isosweep.modes.trust import require_trusted
from isosweep.tasks import problem_sets
from tests.conftest import make_config
from tests.modes.looked_after import printed, sweep_in, terminal

FINISH = Finish(sweep_dir="/s", status="finished", report="", done=1, failed=0)


def custom(function: str, **others: Any) -> dict[str, Any]:
    """The settings of a task that is a function, as a stored config has them."""
    own = {"function": function, "parameters": None, "directory": None, **others}
    tokens = {"prompt_tokens": 5, "completion_tokens": 5, "max_completion_tokens": 5}
    return {"kind": "custom", "sort": None, "template": None, "custom": own, **tokens}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAID", module._Said())
    monkeypatch.delenv(VOUCHED, raising=False)
    # As monkeypatch undoes what is set later.
    monkeypatch.setenv(VOUCHED, "")


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
    config = make_config("mode=resume", f"sweep_dir={root}", f"tracking={tracking}")
    module.said(config)
    with pytest.raises(SettingError) as error:
        resume_sweep(config, terminal())
    return str(error.value)


def test_the_table_names_settings_that_there_are() -> None:
    config = make_config()
    for setting in EXECUTED:
        value: Any = config
        for part in setting.split("."):
            value = getattr(value, part)


def test_a_command_of_others_is_refused_with_the_file_the_rule_and_what_helps(
    shared: Callable[..., Path], tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    root = shared(launcher={"on_finish": f"touch {mark}"})
    said = refused(root)
    assert said.startswith(f"launcher.on_finish=touch {mark}: would be executed")
    assert f"{root / 'config.json'} may be written by everybody (-rw-rw-rw-)" in said
    assert "trust=true" in said
    # Nor where no mode has asked.
    with pytest.raises(SettingError):
        on_finish(f"touch {mark}", FINISH)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("setup", ["touch x"]),
        ("python", "sh -c 'touch x'"),
        ("srun_args", ["--task-prolog=/x"]),
        ("additional", {"export": "ALL,BASH_ENV=/x"}),
    ],
)
def test_slurm_s_are_refused(setting: str, value: Any, shared: Callable[..., Path]) -> None:
    root = shared(launcher={"name": "slurm", "slurm": {setting: value}})
    assert refused(root).startswith(f"launcher.slurm.{setting}=")


def test_a_function_of_others_is_not_imported_by_whoever_reads_it(
    shared: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    root = shared(task=custom("evil:f", directory=str(tmp_path)))
    assert "task.custom=" in refused(root)
    with pytest.raises(SettingError, match=r"task\.custom"):
        problem_sets(read_sweep(root).config.task)
    assert not (tmp_path / "ran").exists()


def test_a_loss_of_others_is_refused_wherever_it_is_named(shared: Callable[..., Path]) -> None:
    said = refused(shared(recipe={"loss_type": "os:system"}))
    assert said.startswith("recipe.loss_type=os:system: would be executed")
    assert "recipe.loss_type=... typed" in said
    axes = {"recipe.loss_type": ["dapo", "os:system"]}
    root = shared(recipe={"loss_type": "dapo"}, grid={"axes": axes})
    assert refused(root).startswith("recipe.loss_type=os:system")


def test_one_hidden_in_an_axis_or_a_set_is_found(shared: Callable[..., Path]) -> None:
    in_axis = {"variant": {"a": {}, "b": {f"task.{k}": v for k, v in custom("os:system").items()}}}
    root = shared(grid={"axes": in_axis})
    assert [each.setting for each in executed(read_sweep(root).config)] == ["task.custom"]
    of_set = {"x": {"problems": "heldout", "task": custom("os:system")}}
    root = shared(grid={"axes": None}, evaluation={"sets": of_set})
    assert "os:system" in refused(root)


def test_what_this_command_says_itself_is_trusted(shared: Callable[..., Path]) -> None:
    root = shared(launcher={"on_finish": "evil"})
    config = read_sweep(root).config
    wanted = executed(config)
    assert foreign(wanted) == wanted
    module.said(make_config("launcher.on_finish=evil"))
    assert foreign(wanted) == []
    assert foreign([Executed.of("launcher.on_finish", "other")])


def test_trust_is_a_word_of_the_command_and_not_of_the_file(shared: Callable[..., Path]) -> None:
    root = shared(launcher={"on_finish": "evil"})
    stored = json.loads((root / "config.json").read_text())
    (root / "config.json").write_text(json.dumps({**stored, "trust": True}))
    assert "launcher.on_finish=evil" in refused(root)
    module.said(make_config("trust=true"))
    require_own({"launcher.on_finish": "evil"})
    require_trusted(read_sweep(root).config, root, terminal())


def test_a_terminal_is_shown_all_of_it_and_asked(
    shared: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shared(launcher={"on_finish": "evil"})
    config = read_sweep(root).config
    monkeypatch.setattr("isosweep.modes.trust.is_terminal", lambda stream: True)
    for answer in ("n", "y"):
        console = terminal()
        monkeypatch.setattr(console, "input", lambda *_, answer=answer, **__: answer)
        if answer == "n":
            with pytest.raises(NotConfirmedError, match="trust=true"):
                require_trusted(config, root, console)
        else:
            require_trusted(config, root, console)
        assert "  launcher.on_finish=evil\n" in printed(console)
    require_own({"launcher.on_finish": "evil"})


@pytest.mark.parametrize("setting", ["tracking.uri", "search.storage", "sweeps_dir"])
def test_addresses_and_directories_of_others_are_not_used_unasked(
    setting: str, shared: Callable[..., Path], tmp_path: Path
) -> None:
    root = shared()
    document = json.loads((root / "config.json").read_text())
    place = {"sweeps_dir": str(tmp_path / "mine")}.get(setting, "sqlite:////mine/x.db")
    if setting == "sweeps_dir":
        document |= {setting: place, "sweep_dir": str(root)}
    else:
        group, _, name = setting.partition(".")
        document[group][name] = place
        document["search"] |= {"name": "frontier", "kind": "frontier"}
        document["tracking"]["name"] = "mlflow"
    (root / "config.json").write_text(json.dumps(document))
    said = refused(root, tracking="mlflow")
    assert said.startswith(f"{setting}={place}: would be used in your name")


def test_a_file_of_ones_own_needs_no_word(shared: Callable[..., Path]) -> None:
    root = shared(launcher={"on_finish": "true"})
    (root / "config.json").chmod(0o644)
    require_trusted(read_sweep(root).config, root, terminal())


def test_optuna_s_own_samplers_are_no_code_of_others(shared: Callable[..., Path]) -> None:
    read_sweep(shared(launcher={"on_finish": "evil"}))
    require_own({"search.sampler": "optuna.samplers.TPESampler"})
    with pytest.raises(SettingError):
        require_own({"search.sampler": "evil.Sampler"})


def spec_task(config: SweepConfig, directory: str) -> SweepConfig:
    plain = custom("evil:f", directory=directory)
    return replace(config, task=replace(config.task, **plain))


def test_a_worker_executes_of_a_spec_only_what_was_vouched_for(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text("{}")
    own, other = (spec_task(make_config(), place) for place in ("/mine", "/other"))
    wanted = [*module.executed_by_run(own)]
    require_vouched(spec, wanted)
    spec.chmod(0o666)
    with pytest.raises(SettingError, match=r"stands in .*spec\.json, which others may have"):
        require_vouched(spec, wanted)
    vouch([own])
    assert vouched() == f"export {VOUCHED}={wanted[0].digest}"
    require_vouched(spec, wanted)
    # The directory is no part of a run's identity.
    with pytest.raises(SettingError):
        require_vouched(spec, module.executed_by_run(other))


def test_sharded_states_of_others_are_not_unpickled(tmp_path: Path) -> None:
    state = tmp_path / "optimizer" / "__0_0.distcp"
    state.parent.mkdir()
    state.write_text("")
    state.chmod(0o644)
    require_unpickled(tmp_path)
    state.chmod(0o666)
    with pytest.raises(SettingError, match="pickle"):
        require_unpickled(tmp_path)
    module.said(make_config("trust=true"))
    vouch([])
    require_unpickled(tmp_path)
    assert os.environ[VOUCHED] == "checkpoints"
