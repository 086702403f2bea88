"""A held-out evaluation: what it counts, that it disturbs nothing, and who shares it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation, read_records
from isosweep.tasks import Judged, heldout_problems
from tests.training.builders import spec_of, trained

pytestmark = pytest.mark.train
SPEC = spec_of("evaluation.samples_per_problem=4")


@pytest.fixture
def policy() -> tuple[Any, Any]:
    """The built-in model and its tokenizer."""
    from isosweep.training.policy import load_policy

    return load_policy(SPEC, weights(SPEC.model))


@pytest.mark.parametrize(
    ("right", "answers", "majority"),
    [
        ([True, True, False], ["4", "4", "5"], 1.0),
        # Right answers are one, however they are written.
        ([True, True, False, False, False], ["1/2", "0.5", "3", "4", "5"], 1.0),
        ([True, False, False], ["4", "5", "5"], 0.0),
        # What came first counts of equally many votes, and none is no vote.
        ([True, False], ["4", "5"], 1.0),
        ([False, True], ["5", "4"], 0.0),
        ([False, False, True], [None, None, "4"], 1.0),
        ([False, False], [None, None], 0.0),
    ],
)
def test_the_commonest_answer_is_a_problems_majority(
    right: list[bool], answers: list[str | None], majority: float
) -> None:
    from isosweep.training import evaluate

    assert evaluate.majority(right, answers) == majority


def test_an_evaluation_counts_votes_where_answers_can_be_told_apart(
    policy: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from isosweep.training import evaluate

    model, tokenizer = policy
    # Of each problem's four samples two are right, and the others agree in every second problem.
    samples = [Judged(1.0, "1"), Judged(1.0, "1"), Judged(0.0, "2"), Judged(0.0, "3")]
    wrong = [Judged(0.0, "2"), Judged(0.0, "2"), Judged(0.0, "2"), Judged(1.0, "1")]
    judged = (samples + wrong) * 16
    monkeypatch.setattr(evaluate, "judge_later", lambda task, asked, texts: lambda: judged)
    evaluator = evaluate.Evaluator(SPEC, tokenizer, keep=32)
    taken = evaluator(model)
    assert taken.successes == (2, 1) * 16
    # Each completion is kept with what was made of it.
    problems = heldout_problems(SPEC.task)
    assert [each.problem_id for each in evaluator.kept] == [each.problem_id for each in problems]
    kept = [each for problem in evaluator.kept for each in problem.completions]
    assert [(each.reward, each.answer) for each in kept] == [one[:2] for one in judged]
    assert taken.completion_tokens == sum(each.tokens or 0 for each in kept) / len(kept)
    assert {each.ended for each in kept} == {True, False}
    limit = SPEC.task.completion_limit
    assert all(each.ended or each.tokens == limit for each in kept)
    assert all(len(tokenizer(each.text)["input_ids"]) <= (each.tokens or 0) for each in kept)
    assert taken.scores == {"majority": (1.0, 0.0) * 16}


def test_evaluation_leaves_randomness_mode_and_parameters_alone(policy: tuple[Any, Any]) -> None:
    import torch

    from isosweep.training.evaluate import Evaluator

    model, tokenizer = policy
    evaluator = Evaluator(SPEC, tokenizer)
    model.train()
    torch.manual_seed(11)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    first = evaluator(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    # Its own randomness is the same every time, whatever training has drawn since.
    torch.rand(5)
    assert evaluator(model) == first
    assert len(first.successes) == 32
    # The built-in model has room to learn, and something to start from.
    assert sum(parameter.numel() for parameter in model.parameters()) == 133_824
    assert 0.1 < sum(first.successes) / (4 * 32) < 0.6
    # A problem's answers are the same in whichever process and batch, and others with another seed.
    halves = [
        Evaluator(SPEC, tokenizer, problems=heldout_problems(SPEC.task)[at : at + 16])(model)
        for at in (0, 16)
    ]
    assert halves[0].successes + halves[1].successes == first.successes
    assert Evaluator(replaced(SPEC, evaluation_batch=3), tokenizer)(model) == first
    other = replaced(SPEC, evaluation=replaced(SPEC.evaluation, seed=1))
    assert Evaluator(other, tokenizer)(model).successes != first.successes


def changed(spec: RunSpec, group: str, **values: Any) -> RunSpec:
    return replaced(spec, **{group: replaced(getattr(spec, group), **values)})


def test_what_changes_the_numbers_before_training_and_nothing_else_names_them() -> None:
    from isosweep.training.evaluate import base_identity

    spec = spec_of()
    same = (
        *(spec_of(n=8, B=2), replaced(spec, seed=3), replaced(spec, evaluation_batch=60)),
        *(changed(spec, "recipe", loss_type="grpo", temperature=0.6),),
        *(changed(spec, "model", name="other"), changed(spec, "evaluation", records_per_decade=2)),
    )
    name = base_identity(spec)
    assert {base_identity(each) for each in same} == {name}
    groups: dict[str, tuple[dict[str, Any], ...]] = {
        "evaluation": (
            *({"seed": 1}, {"temperature": 0.5}, {"temperature": 0.9}),
            {"samples_per_problem": 3},
        ),
        "task": ({"num_eval_problems": 30}, {"data_seed": 1}, {"max_completion_tokens": 5}),
        "recipe": ({"lora_rank": 4},),
    }
    others = [changed(spec, group, **each) for group, them in groups.items() for each in them]
    others += [replaced(spec, devices=2), replaced(spec, dtype="bfloat16")]
    # Engines that hold as much at once share them, others do not.
    limits: dict[str, Any] = {"vllm_max_num_seqs": 64, "vllm_max_num_batched_tokens": 512}
    engine = replaced(changed(spec, "generation", name="vllm"), **limits)
    assert base_identity(engine) == base_identity(replaced(engine, vllm_share=0.5, seed=3))
    others += [engine, *(replaced(engine, **limits | {limit: 128}) for limit in limits)]
    others.append(replaced(engine, vllm_cache_bytes=128))
    assert len({name, *map(base_identity, others)}) == len(others) + 1


def test_runs_share_it_and_their_record_is_the_one_that_they_would_take(
    policy: tuple[Any, Any], tmp_path: Path
) -> None:
    from isosweep.training.evaluate import Evaluator

    def run_of(n: int) -> RunPaths:
        return trained(spec_of(n=n), tmp_path, (16.0,), unit="rollouts")

    runs = run_of(2), run_of(4)
    (file,) = (tmp_path / "evaluations").glob("*.json")
    shared = Evaluation.from_json(json.loads(file.read_text()))
    model, tokenizer = policy
    assert Evaluator(spec_of(), tokenizer)(model) == shared
    for run in runs:
        first, *later = read_records(run.records).records
        assert (first.step, first.samples_per_problem) == (0, 2)
        assert first.to_json().items() >= shared.to_json().items()
        # What came before the first evaluation is apart, and in every record.
        startup = first.compute.startup_seconds
        assert startup > 0
        assert {record.compute.startup_seconds for record in later} == {startup}
    # Numbers that it would not find, so that it is seen whose they are, and none that can be read.
    theirs = replace(shared, completion_tokens=0.1 + 0.2)
    for n, content, expected in ((8, json.dumps(theirs.to_json()), theirs), (16, "{}", shared)):
        file.write_text(content)
        record = read_records(run_of(n).records).records[0].to_json()
        assert record.items() >= expected.to_json().items()
        assert Evaluation.from_json(json.loads(file.read_text())) == expected
