"""What a run keeps of its answers: all of a few problems, at every record, nothing twice."""

import json
from pathlib import Path

import pytest

from isosweep.config.base import replaced
from isosweep.plan.spec import RunSpec
from isosweep.store.completions import MOST_CHARACTERS, kept_problems, read_completions
from isosweep.store.paths import RunPaths
from isosweep.store.records import attempt_file, read_records
from isosweep.tasks import heldout_problems
from tests.runs import reproducible
from tests.training.builders import attempted, prepared, spec_of, trained

pytestmark = pytest.mark.train

MILESTONES = (2e9, 4e9)


def keeping(count: int) -> RunSpec:
    return spec_of(f"evaluation.keep_completions={count}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run that one attempt took to the first budget, and another to the second."""
    root = tmp_path_factory.mktemp("kept")
    return trained(keeping(8), root, MILESTONES[:1], MILESTONES)


def test_every_record_has_all_answers_to_the_same_few_problems(run: RunPaths) -> None:
    spec, records = keeping(8), read_records(run.records).records
    kept = read_completions(run)
    assert [each.step for each in kept] == [record.step for record in records]
    problems = {each.problem_id: each for each in heldout_problems(spec.task)}
    chosen = kept_problems(list(problems), 8)
    for record, each in zip(records, kept, strict=True):
        assert {own.problem_id for own in each.heldout} == chosen
        counts = dict(zip(problems, record.successes, strict=True))
        for own in each.heldout:
            assert (own.prompt, own.answer) == (
                problems[own.problem_id].prompt,
                problems[own.problem_id].answer,
            )
            assert len(own.completions) == record.samples_per_problem == 2
            assert sum(made.reward == 1 for made in own.completions) == counts[own.problem_id]
            lengths = [made.tokens or 0 for made in own.completions]
            assert all(1 <= each <= spec.task.completion_limit for each in lengths)
    # Before the first update there is no rollout of training.
    rollouts = [[made for own in each.training for made in own.completions] for each in kept]
    assert [len(own) for own in rollouts] == [0] + [8] * (len(kept) - 1)
    assert all(made.advantage is not None for own in rollouts for made in own)


def test_a_run_that_takes_over_the_first_evaluation_takes_its_answers(run: RunPaths) -> None:
    spec = replaced(keeping(5), seed=1)
    (first, *_), root = read_completions(run), run.root.parent.parent
    (own, *_) = read_completions(trained(spec, root, MILESTONES[:1]))
    # Of fewer problems a part.
    assert own.heldout == tuple(
        each for each in first.heldout if each.problem_id in {p.problem_id for p in own.heldout}
    )
    assert len(own.heldout) == 5


def test_only_their_user_can_read_them(run: RunPaths) -> None:
    base = [*(run.root.parent.parent / "evaluations").iterdir()]
    folders = [run.completions, *(each for each in base if each.is_dir())]
    assert len(folders) == 2
    assert {each.stat().st_mode & 0o777 for each in folders} == {0o700}


def test_a_run_goes_on_without_what_cannot_be_kept_and_its_records_are_the_same(
    run: RunPaths, tmp_path: Path
) -> None:
    spec, elsewhere = keeping(8), tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = prepared(spec, tmp_path)
    other.completions.symlink_to(elsewhere)
    attempted(other, MILESTONES)
    assert read_completions(other) == []
    assert not [*elsewhere.iterdir()]
    # Nor do they change a run's id.
    assert keeping(0).run_id == keeping(8).run_id
    assert reproducible(other) == reproducible(run)


def test_of_a_run_in_parts_nothing_is_lost_or_doubled(run: RunPaths, tmp_path: Path) -> None:
    whole = read_completions(trained(keeping(8), tmp_path, MILESTONES))
    assert read_completions(run) == whole
    # The second attempt went on from the first one's checkpoint.
    lines = [len(attempt_file(run.completions, n).read_text().splitlines()) for n in (1, 2)]
    assert sum(lines) == len(whole) > max(lines)
    # Nor where an attempt had gone on beyond that, before its record, or ended within a line.
    for attempt in (1, 2):
        path = attempt_file(run.completions, attempt)
        beyond = json.loads(path.read_text().splitlines()[-1]) | {"step": 10_000}
        with path.open("a") as file:
            file.write(json.dumps(beyond) + "\n" + json.dumps(beyond)[:-9])
    assert read_completions(run) == whole


def test_long_and_broken_texts_are_kept_in_part() -> None:
    from isosweep.store.completions import AnsweredProblem, Completion, shortened

    text = "a" * 9000 + "\ud800"
    made = Completion(text=text, reward=0.0, right=False, reason="\udfff")
    problem = AnsweredProblem(problem_id="p", prompt="?", answer="!", completions=(made,))
    (kept,) = shortened(problem).completions
    assert len(kept.text) < MOST_CHARACTERS + 50
    assert "[... 3001 characters left out ...]" in kept.text
    assert kept.text.endswith("a?")
    assert kept.reason == "?"
