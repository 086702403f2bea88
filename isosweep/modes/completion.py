"""Completion of the command line: a shell script with every mode, choice and setting in it.

The script asks nothing of Python at a press of the key, which would take a second; sweeps are what
lies in `sweeps/` then. Sources: bash(1), "Programmable Completion"; zshcompsys(1), `bashcompinit`;
fish's `complete`.
"""

from pathlib import Path

from isosweep.config.choices import one_of
from isosweep.config.hydra import choices_of, setting_names
from isosweep.modes.usage import MODES

SHELLS = ("bash", "zsh", "fish")

# Whoever may write in `sweeps/` chose the names there, and `compgen -W` executes what it is given:
# a name of other characters than these is not offered.
_HARMLESS = "A-Za-z0-9._+-"

_BASH = """\
_isosweep() {
  local line=${COMP_LINE:0:$COMP_POINT} plan name
  local word=${line##* }
  COMPREPLY=()
  case $word in
    name=* | sweep_dir=* | from=*)
      for plan in sweeps/*/plan.json; do
        name=${plan#sweeps/}
        name=${name%/plan.json}
        case $name in *[!HARMLESS]*) continue ;; esac
        case ${word%%=*}=$name in "$word"*) COMPREPLY+=("${word%%=*}=$name") ;; esac
      done ;;
  esac
  [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -W "$_isosweep_words" -- "$word"))
  case "${COMPREPLY[*]}" in *=) compopt -o nospace 2>/dev/null ;; esac
  # bash breaks words at "=", and wants what follows the last one.
  case "$BASH_VERSION $word" in [0-9]*=*) COMPREPLY=("${COMPREPLY[@]#*=}") ;; esac
}
complete -F _isosweep isosweep
""".replace("HARMLESS", _HARMLESS)
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_FISH = r"""
function _isosweep_sweeps
  for plan in sweeps/*/plan.json
    set -l name (string replace -rf '^sweeps/([HARMLESS]+)/plan\.json$' '$1' -- $plan)
    and printf '%s\n' name=$name sweep_dir=$name from=$name
  end
end
complete -c isosweep -f -a "$_isosweep_words"
complete -c isosweep -f -a '(_isosweep_sweeps)'
""".replace("HARMLESS", _HARMLESS)


def completion_script(shell: str, conf: Path) -> str:
    """What `eval "$(isosweep --completion bash)"` reads; `conf`: the config groups' directory.

    Raises SettingError for a shell that is none of `SHELLS`.
    """
    one_of("--completion", shell, SHELLS)
    words = " ".join(_words(conf))
    if shell == "fish":
        return f"set -g _isosweep_words {words}{_FISH}"
    return f"{_ZSH if shell == 'zsh' else ''}_isosweep_words='{words}'\n{_BASH}"


def _words(conf: Path) -> list[str]:
    """Modes, choices of groups, and names of settings, each as far as it can be told."""
    groups = sorted(path.name for path in conf.iterdir() if path.is_dir())
    choices = [
        f"{'+' if group == 'experiment' else ''}{group}={choice}"
        for group in groups
        for choice in choices_of(conf, group)
    ]
    names = dict.fromkeys(setting_names())
    settings = [f"{name}=" for name in names if name not in (*groups, "mode")]
    options = ["--help", "--version", "--multirun", "--config-dir", "--completion"]
    return [*(f"mode={mode}" for mode in MODES), *choices, *settings, *options]
