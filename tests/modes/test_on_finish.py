"""`launcher.on_finish` is run when a sweep ends, and what goes wrong with it is one line."""

from pathlib import Path

from isosweep.modes.follow import run_on_finish


def test_a_command_has_the_facts_in_its_environment(tmp_path: Path) -> None:
    command = f"sh -c 'echo $ISOSWEEP_STATUS $ISOSWEEP_DONE > {tmp_path}/told'"
    assert run_on_finish(command, {"status": "failed", "done": 3}) is None
    assert (tmp_path / "told").read_text() == "failed 3\n"


def test_a_command_that_fails_or_hangs_is_reported_and_ended() -> None:
    said = run_on_finish("sh -c \"echo 'no such channel' >&2; exit 3\"", {})
    assert said == "no such channel"
    hangs = run_on_finish("sleep 30", {}, timeout_s=0.3)
    assert hangs == "sleep gave no answer in 0.3 s"
    assert "No such file" in (run_on_finish("/no/command", {}) or "")
