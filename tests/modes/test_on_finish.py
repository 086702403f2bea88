"""`launcher.on_finish` is run when a sweep ends, and what goes wrong with it is one line."""

from pathlib import Path

from isosweep.modes.on_finish import Finish, on_finish

FINISH = Finish(
    sweep_dir="/data/my sweeps/a'b", status="failed", report="/r.html", done=3, failed=1
)


def test_a_command_is_given_what_it_names_each_as_one_word(tmp_path: Path) -> None:
    command = (
        f"printf '%s\\n' {{sweep_dir}} {{status}} {{report}} {{done}}/{{failed}} "
        f"\"$(echo x | awk '{{print $1}}')\" > {tmp_path}/told"
    )
    assert on_finish(command, FINISH) is None
    told = (tmp_path / "told").read_text().splitlines()
    assert told == ["/data/my sweeps/a'b", "failed", "/r.html", "3/1", "x"]


def test_a_command_that_fails_or_hangs_is_reported_and_ended() -> None:
    said = on_finish("echo first; echo 'no such channel' >&2; exit 3", FINISH)
    assert said == "launcher.on_finish: exit status 3: no such channel"
    assert on_finish("sleep 30", FINISH, timeout_s=0.3) == "launcher.on_finish: no end after 0.3 s"
