"""Problems of further evaluation sets and of mixtures: none that is trained on, none twice."""

from pathlib import Path

import pytest

from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.tasks import (
    Problem,
    heldout_problems,
    is_success,
    problem_sets,
    training_problems,
)
from isosweep.tasks.problem import PartProblem
from isosweep.tasks.sets import problems_of_sets
from tests.conftest import make_config, set_of
from tests.tasks.files import scores, write_sums


def drawn(config: SweepConfig) -> dict[str, list[Problem]]:
    return problems_of_sets(config, training_problems(config.task))


def ids(problems: list[Problem]) -> set[str]:
    return {problem.problem_id for problem in problems}


def test_problems_that_are_trained_on_have_others_in_their_place() -> None:
    # 625 strings of four digits for tasks: another seed draws many of them again.
    config = make_config(
        *TASK,
        *set_of("other", "sort", *(text.removeprefix("task.") for text in TASK)),
        *(
            "evaluation.sets.other.task.data_seed=1",
            "evaluation.sets.other.task.template='d{digits}='",
        ),
    )
    plain = heldout_problems(make_config("task.data_seed=1", *TASK).task)
    trained, own = ids(training_problems(config.task)), drawn(config)["other"]
    assert ids(plain) & trained
    assert not ids(own) & trained
    assert len(ids(own)) == 64
    # In the order of those that such a task holds out.
    kept = [problem.problem_id for problem in plain if problem.problem_id not in trained]
    assert [problem.problem_id for problem in own][: len(kept)] == kept


TASK = ("task.sort.levels=[4]", "task.num_train_problems=600", "task.num_eval_problems=64")


def of_files(tmp_path: Path, file: str, number: int) -> SweepConfig:
    """A sweep on rows 0 to 60, with a set of so many problems of `file`; b has rows 40 to 100."""
    write_sums(tmp_path / "a.jsonl", 0, 60)
    write_sums(tmp_path / "b.jsonl", 40, 60)

    def rows(name: str) -> tuple[str, ...]:
        return (
            *("math.dataset=null", f"math.path={tmp_path / name}", "math.id_column=id"),
            *("math.problem_column=problem", "math.answer_after=null", "math.subset=null"),
            *("max_completion_tokens=8", "completion_tokens=4", "prompt_tokens=9"),
        )

    return make_config(
        *("task=math", *(f"task.{setting}" for setting in rows("a.jsonl"))),
        *("task.num_train_problems=32", "task.num_eval_problems=16"),
        *set_of("other", "math", *rows(file), f"num_eval_problems={number}"),
    )


def test_ids_of_two_files_are_not_mistaken_for_each_other_and_equal_problems_are(
    tmp_path: Path,
) -> None:
    config = of_files(tmp_path, "b.jsonl", 30)
    prompts = {problem.prompt for problem in training_problems(config.task)}
    found = drawn(config)["other"]
    assert len(found) == 30
    assert not prompts & {problem.prompt for problem in found}
    # 20 problems are in both files under different ids, and all ids are in both.
    assert ids(found) & ids(training_problems(config.task))


def test_more_problems_than_there_are_beside_those_trained_on_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as caught:
        drawn(of_files(tmp_path, "a.jsonl", 40))
    assert caught.value.setting == "evaluation.sets.other.task.num_eval_problems"
    assert caught.value.nearest == "evaluation.sets.other.task.num_eval_problems=28"
    assert len(drawn(of_files(tmp_path, "a.jsonl", 28))["other"]) == 28


# Mixtures.

PART = "+task@task.mixture.parts."
TWO = ("task=mixture", f"{PART}a=sort", f"{PART}b=sort", "task.mixture.parts.b.sort.levels=[4]")


def own(problem: Problem) -> Problem:
    """A problem of a mixture as its part has it alone."""
    assert isinstance(problem, PartProblem)
    assert problem.problem_id.startswith(f"{problem.part}/")
    plain = {name: getattr(problem, name) for name in ("level", "prompt", "answer", "metadata")}
    return Problem(problem_id=problem.problem_id.removeprefix(f"{problem.part}/"), **plain)


def test_a_mixture_has_the_problems_that_its_parts_have_alone() -> None:
    again = ("task=mixture", f"{PART}a=sort", f"{PART}b=sort")
    with pytest.raises(SettingError, match="has 288 problems that part a has too"):
        problem_sets(make_config(*again, "task.mixture.parts.b.template='d{digits}='").task)
    mixed = problem_sets(make_config(*TWO).task)
    alone = [problem_sets(make_config(f"task.sort.levels=[{n}]").task) for n in (6, 4)]
    assert [own(p) for p in mixed.training] == [p for sets in alone for p in sets.training]
    assert [own(p) for p in mixed.heldout] == [p for sets in alone for p in sets.heldout]


def math(part: str, path: Path) -> tuple[str, ...]:
    return tuple(
        f"task.mixture.parts.{part}.{setting}"
        for setting in (
            *("num_train_problems=16", "num_eval_problems=8", "max_completion_tokens=16"),
            *(f"math.path={path}", "math.dataset=null", "math.subset=null"),
            *("math.problem_column=problem", "math.id_column=id", "math.answer_after=null"),
        )
    )


def typed_files(tmp_path: Path, first: int, question: str = "What is") -> tuple[str, ...]:
    """Two files that number their rows alike; the second begins with row `first` of the other."""
    one = math("a", write_sums(tmp_path / "a.jsonl", 0, 30))
    other = math("b", write_sums(tmp_path / "b.jsonl", first, 30, question))
    return ("task=mixture", f"{PART}a=math", f"{PART}b=math", *one, *other)


def test_a_problem_of_two_parts_is_refused_and_a_number_of_two_files_is_not(tmp_path: Path) -> None:
    typed = typed_files(tmp_path, 30)
    sets = problem_sets(make_config(*typed).task)
    ids = {problem.problem_id for problem in (*sets.training, *sets.heldout)}
    assert len(ids) == 48
    assert {name.partition("/")[0] for name in ids} == {"a", "b"}
    more = "task.mixture.parts.a.num_train_problems=24"
    with pytest.raises(SettingError) as caught:
        problem_sets(make_config(*typed, more).task)
    assert caught.value.setting == "task.mixture.parts.a.num_train_problems"
    mended = make_config(*typed, more, *caught.value.nearest.split()).task
    assert len(problem_sets(mended).training) == 22 + 16
    for question in ("What is", "WHAT  is"):
        with pytest.raises(SettingError, match="that part a has too") as caught:
            problem_sets(make_config(*typed_files(tmp_path, 15, question)).task)
        assert caught.value.setting == "task.mixture.parts.b"


def test_every_part_judges_its_own_problems_and_says_what_success_is(tmp_path: Path) -> None:
    sorts = (
        f"{PART}s=sort",
        "task.mixture.parts.s.sort.answer=last_number",
        "task.mixture.parts.s.success_at=0.5",
    )
    path = write_sums(tmp_path / "m.jsonl", 0, 30)
    task = make_config("task=mixture", *sorts, f"{PART}m=math", *math("m", path)).task
    by_part = {p.part: p for p in training_problems(task) if isinstance(p, PartProblem)}
    asked = [by_part[name] for name in ("m", "s", "s", "m")]
    answers = [
        rf"\boxed{{{by_part['m'].answer}.0}}",
        f"it is {by_part['s'].answer}",
        rf"\boxed{{{by_part['s'].answer}}} 1",
        "no",
    ]
    assert scores(task, asked, answers) == [1, 1, 0, 0]
    assert [is_success(task, 0.5, by_part[name]) for name in ("m", "s")] == [False, True]


def test_a_set_has_nothing_that_any_part_trains_on() -> None:
    config = make_config(
        *(*TWO, "+evaluation.sets.cool.temperature=0.5", "+evaluation.sets.t.problems=train"),
        *set_of("six", "sort", "template='x{digits}='", "num_eval_problems=300"),
        "evaluation.sets.six.task.num_train_problems=1",
    )
    training = training_problems(config.task)
    found = problems_of_sets(config, training)
    assert found["cool"] == heldout_problems(config.task)
    assert found["t"] == training
    trained = {own(problem).problem_id for problem in training}
    # The strings of part a, in another template.
    assert not trained & {problem.problem_id for problem in found["six"]}
