"""What W&B alone is asked of: real directories of wandb, and a server that takes what it sends."""

import os
import subprocess
from pathlib import Path

import pytest
from filelock import Timeout
from PIL import Image

from isosweep.config.study import TrackingConfig
from isosweep.tracking.tracker import Overview
from isosweep.tracking.wandb import is_offline
from tests.runs import wait_for
from tests.tracking.conftest import KEY
from tests.tracking.sweeps import Sweep, send, set_state, sync_command, write_steps
from tests.tracking.wandb_server import Sent, WandbServer


@pytest.fixture
def sweep(in_wandb: Sweep) -> Sweep:
    return in_wandb


def sent(server: WandbServer, kind: str = "run") -> Sent:
    """What the server holds of the run that is half done, or of the `sweep`'s own."""
    (run,) = (run for run in server.runs.values() if run.said["jobType"] == kind)
    return run


def test_a_sweep_is_a_group_with_reward_against_compute_verdict_and_figures(
    sweep: Sweep, server: WandbServer
) -> None:
    figure, report = sweep.root / "reward.png", sweep.root / "report.html"
    Image.new("RGB", (30, 20)).save(figure)
    report.write_text("<p>the report")
    files = ((figure, "figures"), (report, ""))
    sweep.tracker(Overview(note="**saturated.** It has", files=files)).finish("KILLED")
    run, whole = sent(server), sent(server, "sweep")
    assert run.said["groupName"] == whole.said["groupName"] == f"it's a sweep@{sweep.plan.plan_id}"
    # By W&B's numbers: the name of a metric (1), or a pattern of names (2).
    names = {each.get("1", each.get("2")) for each in run.values["_wandb"]["m"]}
    assert names == {"compute/flops", "heldout/*", "sets/*"}
    assert run.values["n"] == 2, "numbers are compared as numbers"
    assert whole.said["notes"] == "**saturated.** It has"
    assert whole.summary["figures/reward"]["_type"] == "image-file"
    assert whole.summary["report"]["_type"] == "html-file"
    assert {"report.html", "reward.png"} <= {Path(name).name for name in whole.files}
    folder = next((sweep.paths.root / "wandb").glob(f"*run-*-{whole.key}"))
    assert (folder / "files" / "report.html").read_text() == "<p>the report"
    assert whole.exit_code == 255


def test_a_row_is_complete_before_it_is_sent(sweep: Sweep, server: WandbServer) -> None:
    # The evaluation of step 30 takes its time.
    write_steps(sweep.runs[0], range(21, 30))
    tracker = sweep.tracker()
    tracker.sync()
    write_steps(sweep.runs[0], range(30, 36))
    tracker.sync()
    set_state(sweep.runs[0], "failed", 35)
    tracker.sync()
    run = sent(server)
    wait_for(lambda: run.exit_code == 1)
    row = next(row for row in run.rows if row["_step"] == 30)
    assert {"heldout/avg_at_k", "train/loss"} <= row.keys()
    assert run.steps == [0, *range(2, 31, 2)]
    # What follows the last record is there once the run has come to its end.
    set_state(sweep.runs[0], "diverged", 35)
    tracker.sync()
    tracker.backend.close()
    assert run.steps == [0, *range(2, 35, 2)]
    assert run.exit_code == 1


def test_one_process_has_the_directories(sweep: Sweep, server: WandbServer) -> None:
    tracker, other = sweep.tracker(), sweep.tracker()
    tracker.sync()
    with pytest.raises(Timeout, match="could not be acquired"):
        other.sync()
    tracker.backend.close()
    other.sync()
    other.backend.close()
    assert len(server.runs) == 2


def test_nothing_lies_elsewhere_and_no_file_has_the_key(sweep: Sweep, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    own = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    own |= {"HOME": str(home), "WANDB_API_KEY": KEY, "WANDB_ERROR_REPORTING": "false"}
    own["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = sync_command(sweep.root, name="wandb", offline=True)
    done = subprocess.run(command, env=own, cwd=home, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert {path.name for path in sweep.root.iterdir()} == {"runs", "it's a sweep"}
    files = [path for path in sweep.paths.root.rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix == ".wandb"]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_what_wandb_sync_has_sent_is_gone_on_from(
    sweep: Sweep, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for is_sent, steps in ((False, range(21, 31)), (True, range(31, 36)), (True, range(36, 41))):
        # Each time anew, by another process as it were, and once more.
        for _ in range(2):
            overview = Overview(tags={None: {"verdict": f"up to {steps[0]}"}})
            sweep.tracker(overview).finish(None)
        if is_sent:
            send(sweep)
        write_steps(sweep.runs[0], steps)
    set_state(sweep.runs[0], "finished", 40)
    # A driver that has a key goes on with the same runs.
    monkeypatch.setenv("WANDB_MODE", "online")
    tracker = sweep.tracker()
    tracker.sync()
    tracker.backend.close()
    assert str(tracker.backend.link).startswith(f"{server.url}/me/isosweep/runs/")
    assert len(server.runs) == 2
    run = sent(server)
    assert run.steps == [0, *range(2, 41, 2)]
    assert run.summary["status"] == "done"
    assert {run.summary.get("verdict") for run in server.runs.values()} == {None, "up to 36"}
    # And so does one that has none any more.
    monkeypatch.setenv("WANDB_MODE", "offline")
    sweep.sync()
    send(sweep)
    assert run.steps == [0, *range(2, 41, 2)]


# Variables of the environment, tracking.offline, and whether nothing is sent.
OFFLINE: tuple[tuple[dict[str, str], bool | None, bool], ...] = (
    ({}, None, True),
    ({"WANDB_API_KEY": KEY}, None, False),
    ({"WANDB_API_KEY": KEY}, True, True),
    ({"WANDB_API_KEY": KEY, "WANDB_MODE": "disabled"}, None, True),
    ({"WANDB_MODE": "online"}, None, False),
    ({"WANDB_MODE": "offline"}, False, False),
    ({"NETRC": "own.netrc"}, None, False),
    ({"NETRC": "own.netrc", "WANDB_BASE_URL": "https://wandb.example"}, None, True),
)


@pytest.mark.parametrize(("environment", "setting", "offline"), OFFLINE)
def test_where_there_is_no_key_nothing_is_sent(
    environment: dict[str, str],
    setting: bool | None,
    offline: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "own.netrc").write_text(f"machine api.wandb.ai login user password {KEY}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_offline(TrackingConfig(name="wandb", offline=setting)) is offline
