"""What a machine lacks is reported before anything is launched."""

import sys
from pathlib import Path

import pytest

from isosweep.difficulty.variants import choose_variants
from isosweep.errors import PreflightError, SettingError
from isosweep.preflight.machine import preflight
from tests.conftest import make_config
from tests.tasks.files import ROWS, math_overrides, write_rows


def checked(*overrides: str) -> None:
    config = make_config(*overrides)
    preflight(config, choose_variants(config))


@pytest.mark.parametrize(
    ("task", "package"),
    [("reasoning_gym", "reasoning_gym"), ("math", "math_verify"), ("math", "pyarrow")],
)
def test_a_tasks_missing_package_is_named(
    task: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PreflightError) as caught:
        checked(f"task={task}")
    assert f"missing: the package {package}" in str(caught.value)
    assert "pip install 'isosweep[train]'" in str(caught.value)
    checked()


def test_problems_are_drawn_before_anything_is_launched(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    checked(*math_overrides(path))
    axes = "grid.axes={task.num_eval_problems:[4,100]}"
    with pytest.raises(SettingError, match=r"asks for 108 distinct problems"):
        checked(*math_overrides(path, axes))
