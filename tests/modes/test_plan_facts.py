"""A plan's page has the command that launches it, and what the plan could find."""

import re
import shlex
from html import unescape
from pathlib import Path

from tests.commands import in_process


def test_the_page_of_a_plan_has_the_command_that_launches_it(tmp_path: Path) -> None:
    in_process(("mode=plan", "sweep=mine"), tmp_path)
    (page,) = tmp_path.glob("sweeps/*/plan.html")
    text = page.read_text()
    (command,) = re.findall(r"<code>(.*?)</code>", text)
    *python, mode, where = shlex.split(unescape(command))
    assert (python, mode) == (["python", "-m", "isosweep"], "mode=resume")
    assert Path(where.removeprefix("sweep=").strip("'")) == page.parent
    assert "Can find" in text
