"""`--help`: what isosweep is, its modes, examples, and the groups of settings."""

import textwrap
from pathlib import Path

from isosweep.config.refusals import choices_of
from isosweep.version import __version__

_WHAT = """\
isosweep: how to split a compute budget C of an LLM reinforcement-learning run among n rollouts per
problem, B problems per batch and T update steps, found by experiment.

usage: python -m isosweep [mode=MODE] [SETTING=VALUE ...]      one sweep
       python -m isosweep -m SETTING=VALUE,VALUE [...]         several (Hydra multirun)

examples:
  python -m isosweep                                           the built-in model: minutes, no GPU
  python -m isosweep mode=plan budget=1e20 model=qwen-1.5b     the plan and its price, in a second
  python -m isosweep mode=plan total=2000h model=qwen-1.5b     budgets for 2,000 device-hours in all
  python -m isosweep budget=1e20 model=qwen-1.5b launcher=slurm launcher.slurm.partition=gpu
  python -m isosweep budget=[1e19,1e20] model=qwen-1.5b search=frontier   less than the whole grid
  python -m isosweep mode=recommend budget=1e21 sweep=NAME     n, B, T and learning rate
"""

MODES = {
    "run": "plan, launch, follow and analyse (the default)",
    "plan": "the plan and its price; nothing is launched",
    "launch": "start what there are places for, and leave",
    "resume": "finish an interrupted sweep",
    "status": "all sweeps; how the runs of one stand; what a run has printed",
    "cancel": "stop runs",
    "clean": "move what no sweep needs to trash/",
    "analyse": "the analysis and report again, from the records",
    "recommend": "n, B, T and learning rate for a budget",
    "next": "the further runs that would decide a sweep",
    "compare": "sweeps side by side",
    "difficulty": "how often the base model solves each problem",
    "dashboard": "the sweep in MLflow's pages, in a browser",
    "import": "logs of runs trained elsewhere as a sweep, to analyse",
}

_MORE = """\
more: --help SETTING says what one means, its type, default and an example; --cfg job shows all as
they are composed, --cfg job --package grid those of a group; FILE.yaml reads settings of a file;
format=json prints a document for programs (docs/json.md); --config-dir DIR adds groups of your own;
--version; --hydra-help has Hydra's own options."""

# Groups first that a sweep is asked with; the others follow by name.
_FIRST = ("model", "task", "recipe", "grid", "search", "generation", "launcher", "hardware")
_WIDTH = 100


def version_text() -> str:
    """`isosweep 0.1.0`."""
    return f"isosweep {__version__}"


def help_text(conf: Path) -> str:
    """What `--help` prints; `conf`: the directory of the config groups."""
    modes = "".join(f"  {name:<12}{what}\n" for name, what in MODES.items())
    names = sorted(path.name for path in conf.iterdir() if path.is_dir())
    groups = []
    for name in [*_FIRST, *(name for name in names if name not in _FIRST)]:
        label = f"  {'+experiment' if name == 'experiment' else name:<12}"
        choices = ", ".join(choices_of(conf, name))
        wrapped = textwrap.wrap(choices, _WIDTH - len(label), break_on_hyphens=False)
        groups.append(f"\n{' ' * len(label)}".join([label + wrapped[0], *wrapped[1:]]))
    listed = "\n".join(groups)
    return f"{_WHAT}\nmodes:\n{modes}\ngroups, GROUP=CHOICE:\n{listed}\n\n{_MORE}"
