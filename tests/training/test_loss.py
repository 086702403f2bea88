"""A loss of one's own: TRL's formulas give TRL's numbers, and what is no loss starts nothing."""

import re
import shlex
import sys
from itertools import product
from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.files import read_json
from isosweep.modes.sweeps import read_sweep
from isosweep.training.loss import LossError, load_loss, try_loss
from tests.conftest import SMALL, in_ci, isosweep, make_config
from tests.modes.looked_after import sweep_in
from tests.plan.test_spec import spec_of as planned
from tests.runs import log_lines
from tests.training.builders import train, trainer_of
from tests.training.test_microbatches import apart, batch_of, corrected, mixed_spec, updates

pytestmark = pytest.mark.train
OWN = "recipe.loss_type=tests.training.own_losses:"
PAGE = Path(__file__).parents[2] / "docs" / "loss.md"
# Several updates of several micro-batches with each generation, of answers of many lengths.
UPDATES = ("recipe.mini_batches=2", "recipe.num_iterations=2", "recipe.epsilon=0.01")


@pytest.mark.parametrize(
    ("formula", "beta"), in_ci(product(("grpo", "dapo"), (0, 0.04)), ("grpo", 0.04), ("dapo", 0))
)
def test_trls_formula_as_a_function_gives_trls_records(
    formula: str, beta: float, tmp_path: Path
) -> None:
    theirs, ours = (
        train(
            trainer_of(
                mixed_spec(loss, f"recipe.beta={beta}", "recipe.epsilon_high=0.02", *UPDATES),
                tmp_path / loss,
            ),
            8,
        )
        for loss in (f"recipe.loss_type={formula}", f"{OWN}{formula}")
    )
    assert len(ours) == len(theirs) == 8
    for expected, found in zip(theirs, ours, strict=True):
        clipped = found.pop("loss_clipped")
        assert clipped == pytest.approx(expected.pop("clipped_share"), abs=1e-6)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert any(values["loss"] for values in ours)
    assert ("kl" in ours[0]) == bool(beta)


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_a_function_is_given_what_corrects_the_sampler(mode: str, tmp_path: Path) -> None:
    gradients = []
    for number, loss in enumerate(("recipe.loss_type=dapo", f"{OWN}dapo")):
        trainer = trainer_of(mixed_spec(loss), tmp_path / str(number))
        batch = batch_of(trainer)
        corrected(trainer, batch, mode)
        trainer.model.double()
        gradients.append(updates(trainer, batch))
    assert apart(*gradients) < 1e-6


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        ("takes_nothing", "fails on a micro-batch of two rollouts: TypeError: takes_nothing"),
        ("number", "returned float, not LossOutputs"),
        ("fixed", "its loss is no scalar tensor with a gradient"),
        ("of_several", "fails on a micro-batch of two rollouts: .*one element"),
        ("not_a_number", "is nan on a micro-batch of two rollouts"),
        ("misspelt", "fails on a micro-batch of two rollouts: AttributeError: .*logprobs"),
    ],
)
def test_what_is_no_loss_is_refused_before_anything_starts(function: str, rule: str) -> None:
    with pytest.raises(SettingError, match=rule) as error:
        try_loss(make_config(f"{OWN}{function}"))
    assert error.value.setting == "recipe.loss_type"


def test_what_it_raises_in_training_is_named_with_its_setting(tmp_path: Path) -> None:
    trainer = trainer_of(mixed_spec(f"{OWN}later"), tmp_path)
    with pytest.raises(LossError, match=f"{OWN}later failed after 3 updates: ValueError: no more"):
        train(trainer, 5)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of `lab_losses`, on the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lab_losses", raising=False)
    file = tmp_path / "lab_losses.py"
    file.write_text("def mine(given): ...\n")
    return file


def test_a_run_is_another_one_where_the_functions_file_is(module: Path) -> None:
    before = planned("recipe.loss_type=lab_losses:mine")
    trls = planned("recipe.loss_type=dapo").run_id
    assert planned("recipe.loss_type=lab_losses:other").run_id != before.run_id
    load_loss(before.recipe, before.loss_sha256)
    module.write_text("def mine(given): return 1\n")
    assert planned("recipe.loss_type=lab_losses:mine").run_id != before.run_id
    assert planned("recipe.loss_type=dapo").run_id == trls
    # A worker whose run was planned with the other file takes none.
    with pytest.raises(SettingError, match="file of lab_losses has changed since"):
        load_loss(before.recipe, before.loss_sha256)


def test_a_sweep_over_losses_is_looked_at_without_their_files(module: Path, tmp_path: Path) -> None:
    axes = "grid.axes={recipe.loss_type:[dapo,lab_losses:mine]}"
    made = sweep_in(tmp_path / "sweeps", axes, "tracking=none")
    module.unlink()
    stored = read_sweep(made.paths.root)
    assert stored.study().plan.plan_id == made.plan.plan_id
    assert len({spec.loss_sha256 for spec in stored.study().specs.values()}) == 2


@pytest.mark.slow
def test_the_example_of_the_page_trains_as_printed(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert code.count("\n") <= 15
    (tmp_path / "losses.py").write_text(code)
    alone, axes = re.findall(r"^python -m isosweep (.*)$", page, re.MULTILINE)
    isosweep(*shlex.split(axes), *SMALL, "mode=plan", cwd=tmp_path)
    fewer = ("budget=6.4e9", "grid.num_generations=[2]", "tracking=none")
    isosweep(*shlex.split(alone), *SMALL, *fewer, cwd=tmp_path)
    runs = [*(tmp_path / "sweeps" / "runs").iterdir()]
    assert runs
    for run in runs:
        spec = read_json(run / "spec.json")
        assert spec is not None
        assert spec["spec"]["recipe"]["loss_type"] == "losses:asymmetric"
        lines = log_lines(run)
        assert all(0.5 < line["loss_ratio"] < 2 for line in lines)
    # Another file: nothing of this sweep goes on, and nothing is launched.
    (tmp_path / "losses.py").write_text(code.replace("0.9", "0.8"))
    refused = isosweep("mode=resume", cwd=tmp_path, check=False)
    assert refused.returncode == 2
    assert "recipe.loss_type=losses:asymmetric: the file of losses has changed" in refused.stderr
