"""Paths may have any signs, in every setting that takes one."""

from pathlib import Path

import pytest

import isosweep as package
from tests.contract.surface import isosweep, refused

NAMES = [
    "run#1",
    "lr=1e-5",
    "R&D",
    "a b(1)",
    "müller",
    "数",
    "it's",
    'say "x"',
    "{n}[1]",
    "a;b!",
    "%^",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_of_sweeps_may_have_any_signs(name: str, tmp_path: Path) -> None:
    isosweep("mode=plan", f"sweeps_dir={tmp_path}/{name}", cwd=tmp_path)
    assert list((tmp_path / name).glob("*/plan.json"))


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    isosweep("mode=plan", "sweeps_dir=~/sweeps", cwd=tmp_path)
    assert list((tmp_path / "home" / "sweeps").glob("*/plan.json"))
    said = refused("mode=compare", "sweep=[~/one,~/two (2)]", cwd=tmp_path)
    assert f"sweep={tmp_path}/home/one: holds no plan.json" in said
    with pytest.raises(
        package.IsosweepError, match=f"model.path={tmp_path}/home/mine: must contain"
    ):
        package.make_plan({"model": "local", "model.path": "~/mine"})


@pytest.mark.parametrize(
    "typed",
    [
        "model=local model.path={}",
        "task=math_file task.math.path={}",
        "mode=status sweep={}",
        "mode=recommend sweep={}",
        "mode=import import.files={} import.columns={{n:8}}",
        "mode=import import.files=. import.runs={}",
        "task=custom task.custom.function=lab:f task.custom.directory={}",
        "evaluation.sets={{hard:{{task:{{kind:math,math:{{path:{}}}}}}}}}",
    ],
)
@pytest.mark.parametrize("name", ["/no/run#1(2)", "~/x=y", "/no/ü&"])
def test_a_path_that_is_not_there_is_refused_in_words(
    typed: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/no/home")
    given = typed.format(name).split()
    said = refused(*([] if "mode=" in typed else ["mode=plan"]), *given, cwd=tmp_path)
    assert said.startswith("isosweep: ")


def test_a_comma_separates_directories_and_is_quoted_in_a_name(tmp_path: Path) -> None:
    said = refused("mode=plan", "sweeps_dir=one(1),two", cwd=tmp_path)
    assert "sweeps_dir=one(1),two: " in said
    isosweep("mode=plan", 'sweeps_dir="one,two"', cwd=tmp_path)
    assert list((tmp_path / "one,two").glob("*/plan.json"))


def test_options_may_stand_between_overrides(tmp_path: Path) -> None:
    (tmp_path / "conf" / "recipe").mkdir(parents=True)
    own = "defaults: [tiny, _self_]\nname: ours\nlearning_rate: 0.001\n"
    (tmp_path / "conf" / "recipe" / "ours.yaml").write_text(own)
    isosweep("mode=plan", "--config-dir", "conf", "recipe=ours", cwd=tmp_path)
    said = refused("mode=plan", "--config-dir", "conf", "recipe=our", cwd=tmp_path)
    assert "Nearest choice that works: recipe=ours\n" in said
    isosweep("mode=plan", "-m", "recipe=ours,tiny", "--config-dir=conf", cwd=tmp_path)
    assert len(list((tmp_path / "sweeps").glob("*/plan.json"))) == 2


@pytest.mark.parametrize("name", ["1e3", "20261128", "true", "3.10"])
def test_a_sweep_may_be_called_as_a_number_is_written(name: str, tmp_path: Path) -> None:
    isosweep("mode=plan", f"sweep={name}", cwd=tmp_path)
    assert (tmp_path / "sweeps" / name / "plan.json").is_file()
