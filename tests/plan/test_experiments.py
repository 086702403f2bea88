"""Files of conf/experiment/: each plans what its paper did."""

from functools import cache
from pathlib import Path

import pytest

from isosweep.config.compose import config_of
from isosweep.config.refusals import config_directory
from isosweep.plan.cells import predicted
from isosweep.plan.study import Study, resolve

ROOT = Path(__file__).parent.parent.parent
FILES = config_directory() / "experiment"
ALL = sorted(str(p.relative_to(FILES).with_suffix("")) for p in FILES.rglob("[!_]*.yaml"))
PUBLISHED = [name for name in ALL if "/" not in name]
STUDIES = [name for name in ALL if name.startswith("study/")]
PLAYBOOK = [name for name in PUBLISHED if name.startswith("playbook")]


@cache
def study(name: str) -> Study:
    """What it plans with assumed efficiencies and PyTorch's attention, as on every machine."""
    typed = ("mode=plan", "sweeps_dir=/nonexistent")
    assumed = ("hardware.calibrated=false", "hardware.attention=sdpa")
    return resolve(config_of([f"+experiment={name}", *typed, *assumed]))


@pytest.mark.parametrize("name", PUBLISHED)
def test_all_that_the_paper_ran_is_planned(name: str) -> None:
    plan = study(name).plan
    budgets = {cell.budget for cell in plan.cells}
    assert budgets == set(plan.budgets)
    # The largest n x B that the paper ran is all that leaves anything out.
    assert all("grid.max_completions_per_step" in r.rules for r in plan.rejected)
    assert all(len(run.milestones) == len(plan.budgets) for run in plan.runs)
    assert study(name).config.devices_taken == 8


def test_the_docs_quote_sizes_and_prices_as_planned() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for name in ("playbook_joint", "playbook_fix_batch", "data_reuse", "group_size"):
        made = study(name)
        hours = float(f"{made.device_hours:.3g}")
        assert f"| `{name}` | {len(made.plan.runs)} | {hours:,.0f} |" in page


@pytest.mark.parametrize(
    ("name", "minutes", "page"),
    [("tiny/playbook_fix_B", 6, "experiments.md"), ("laptop/smollm2", 30, "start.md")],
)
def test_a_laptop_has_room_and_time_for_it(name: str, minutes: float, page: str) -> None:
    made = study(name)
    assert made.plan.rejected == ()
    assert sum(predicted(run.seconds) for run in made.plan.runs) / 2 < minutes * 60
    assert sum(run.checkpoint_bytes for run in made.plan.runs) < 1.5e9
    assert made.config.hardware.memory_gb <= 8
    assert f"+experiment={name}" in (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_docs_loses_no_cell(name: str) -> None:
    assert study(name).plan.rejected == ()
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert f"+experiment={name}" in page


@pytest.mark.parametrize("name", PLAYBOOK)
def test_the_playbooks_settings_are_its_own(name: str) -> None:
    made = study(name)
    for variant in made.variants:
        config = variant.config
        assert (config.recipe.temperature, config.recipe.top_p) == (0.6, 1.0)
        assert (config.evaluation.temperature, config.evaluation.samples_per_problem) == (0.6, 4)
        assert (config.task.num_eval_problems, config.task.max_completion_tokens) == (300, 8192)
        assert config.task.difficulty is not None
        assert variant.unmeasured
        assert config.recipe.warmup_steps == 10
    assert made.plan.budget_unit == "rollouts"
    for run in made.plan.runs:
        completions = run.num_generations * run.problems_per_batch
        assert run.learning_rate == pytest.approx(1e-6 * (completions / 1024) ** 0.5)
    assert all(budget % 65536 == 0 for budget in made.plan.budgets)


def test_easy_and_hard_problems_have_the_playbooks_terms() -> None:
    for variant in study("playbook_joint").variants:
        easy = variant.axes["problems"] == "easy"
        config = variant.config
        assert (config.recipe.beta > 0, config.recipe.entropy_coef > 0) == (easy, easy)
        assert config.task.difficulty == ("easy" if easy else "hard")
        assert config.task.num_train_problems == (6000 if easy else 5000)


def test_the_playbooks_figures_share_their_runs() -> None:
    """Those at B = 32 are among those of all B."""
    joint = {run.run_id for run in study("playbook_joint").plan.runs}
    for part in ("playbook_fix_B_easy", "playbook_fix_B_hard"):
        assert {run.run_id for run in study(part).plan.runs} <= joint
