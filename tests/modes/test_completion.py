"""What `--completion` prints completes a command line in a real shell."""

import shutil
import subprocess
from pathlib import Path

import pytest

from isosweep.config.hydra import config_directory
from isosweep.modes.completion import completion_script

# What prints the completions of a line, as each shell has it.
PRESSES = {
    "bash": (
        'COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=(); _isosweep; printf "%s\\n" "${COMPREPLY[@]}"'
    ),
    # As bashcompinit has a function of bash's called.
    "zsh": (
        "() { emulate -L sh; setopt kshglob noshglob braceexpand; "
        "COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=(); _isosweep; "
        'printf "%s\\n" "${COMPREPLY[@]}"; } "$1"'
    ),
    "fish": 'complete -C "$argv[2]"',
}


def completed(line: str, directory: Path, shell: str = "bash") -> list[str]:
    """What the shell puts in the place of the last word of `line`, in `directory`."""
    zsh = "autoload -U compinit && compinit -u -D\n" if shell == "zsh" else ""
    press = f"{zsh}{completion_script(shell, config_directory())}\n{PRESSES[shell]}\n"
    options = ["-f"] if shell == "zsh" else []
    done = subprocess.run(
        [shell, *options, "-c", press, shell, line],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def sweeps_called(directory: Path, *names: str) -> None:
    for name in names:
        (directory / "sweeps" / name).mkdir(parents=True)
        (directory / "sweeps" / name / "plan.json").touch()


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
    sweeps_called(tmp_path, "first", "second")
    (tmp_path / "sweeps" / "runs").mkdir()
    assert completed(line, tmp_path) == words


@pytest.mark.parametrize("shell", PRESSES)
def test_the_name_of_a_sweep_is_never_executed(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    hostile = ["`id>ran`", "$(id>ran)", "$[$(id>ran)]", "a;id>ran", "a\nname=b", "${x:=$(id>ran)}"]
    sweeps_called(tmp_path, "good-1.x", *hostile)
    # fish shows the setting as well, to which something is to be added.
    words = {*completed("isosweep mode=status name=", tmp_path, shell)} - {"name="}
    assert {word.removeprefix("name=") for word in words} == {"good-1.x"}
    assert not [*tmp_path.rglob("ran")]
