"""What `--completion` prints completes a command line in a real shell."""

import subprocess
from pathlib import Path

import pytest

from isosweep.config.hydra import config_directory
from isosweep.modes.completion import completion_script


def completed(line: str, directory: Path) -> list[str]:
    """What bash puts in the place of the last word of `line`, in `directory`."""
    press = (
        'COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=(); _isosweep; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    script = completion_script("bash", config_directory()) + press
    done = subprocess.run(
        ["bash", "-c", script, "bash", line],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("isosweep mode=re", ["resume", "recommend"]),
        ("isosweep mode=plan hardware=h", ["h100", "h200"]),
        ("isosweep +experiment=tiny/d", ["tiny/data_reuse"]),
        ("isosweep recipe.learning_", ["recipe.learning_rate=", "recipe.learning_rate_rule="]),
        ("isosweep mode=status name=f", ["first"]),
        ("isosweep mode=compare from=", ["first", "second"]),
        ("isosweep model=_", []),
    ],
)
def test_a_press_of_the_key_completes_modes_choices_settings_and_sweeps(
    line: str, words: list[str], tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / "sweeps" / name).mkdir(parents=True)
        (tmp_path / "sweeps" / name / "plan.json").touch()
    (tmp_path / "sweeps" / "runs").mkdir()
    assert completed(line, tmp_path) == words
