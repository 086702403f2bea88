"""A worker trains the run that its directory is named for, and executes what it was told to."""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.config.task import CustomConfig
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.store.paths import RunPaths
from isosweep.store.state import read_state
from isosweep.training.__main__ import main
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.training.test_worker import ended, file_of, spec, submitted

pytestmark = pytest.mark.train


def test_a_spec_of_another_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = submitted(tmp_path)
    other = replace(spec(), learning_rate=2 * spec().learning_rate)
    write_json(submission.run.spec, {"spec": other.to_json()})
    assert main([file_of(submission)]) == 1
    outcome, reason = ended(submission)
    assert outcome == "failed"
    assert f"holds the spec of {other.run_id}, and this run is {spec().run_id}" in reason
    assert read_state(submission.run) is None


def test_a_spec_names_no_function_that_nobody_vouched_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    function = CustomConfig(function="evil:f", directory=str(tmp_path))
    task = replace(
        spec().task,
        kind="custom",
        sort=None,
        template=None,
        custom=function,
        prompt_tokens=5.0,
        completion_tokens=5.0,
        max_completion_tokens=5,
    )
    own = replace(spec(), task=task)
    run = RunPaths(tmp_path / own.run_id)
    run.root.mkdir()
    write_json(run.spec, {"spec": own.to_json()})
    run.spec.chmod(0o666)
    job = TrainRun(str(run.root), (1e9,), "flops", make_config().health)
    with pytest.raises(SettingError, match=r"task\.custom=.*may be written by everybody"):
        job()
    assert not (tmp_path / "ran").exists()
