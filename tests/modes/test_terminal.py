"""What others wrote reaches a terminal as text, and never as a command to it."""

import io
import subprocess
import time
from pathlib import Path

import pytest

from isosweep.files import write_json
from isosweep.modes.observed import Jobs
from isosweep.modes.status import show_status
from isosweep.modes.terminal import Terminal, typed
from isosweep.store.attempts import Status
from tests.conftest import make_config
from tests.modes.looked_after import printed, submitted, sweep_in

# A title (OSC), a cleared screen, colours begun by C0 and by C1, a line's end turned around.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mname\u202egnp.exe\u2066\rX\x00\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31mname\u202egnp.exe\u2066\x0dX\x00\x7f"


def screen() -> Terminal:
    return Terminal(file=io.StringIO(), force_terminal=True, width=200, highlight=False)


def obeyed(text: str) -> set[str]:
    """Control characters that are neither a newline nor begin one of rich's own sequences."""
    own = text.replace("\x1b[", "").replace("\x1b]8", "")
    return {c for c in own if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"}


def test_status_and_logs_obey_nobody(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run = sweep.paths.run(sweep.plan.runs[0].run_id)
    submitted(run).end(Status.FAILED, HOSTILE)
    by = {"host": f"node{HOSTILE}", "pid": 1, "start": 1}
    driver = {"user": HOSTILE, "by": by, "unix_time": time.time(), "left": None}
    sweep.paths.drivers.mkdir()
    write_json(sweep.paths.drivers / "1.json", driver)
    logs = run.attempt_logs(1)
    logs.mkdir(parents=True)
    (logs / "worker.err").write_text(HOSTILE)
    console = screen()
    config = make_config("mode=status", f"sweeps_dir={tmp_path}", f"runs=[{run.run_id}]")
    show_status(sweep, config, Jobs(sweep.config), console)
    text = printed(console)
    assert text.count(r"\x1b]0;owned") >= 3
    assert r"\x9b31mname\u202egnp.exe" in text
    assert obeyed(text) == set()


@pytest.mark.parametrize(
    "name", ["x;touch ran", "$(touch ran)", "x\ntouch ran #", "it's `touch ran`"]
)
def test_a_shown_command_with_a_name_of_somebody_s_is_one_command(
    name: str, tmp_path: Path
) -> None:
    shown = f"echo {typed('sweep', name)}"
    assert "\n" not in shown
    done = subprocess.run(
        ["bash", "-c", shown], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"sweep={name}\n".replace("x\n", "x\\n")
    assert not [*tmp_path.iterdir()]
