"""A held-out evaluation: what it counts, that it disturbs nothing, and its share of processes."""

from dataclasses import replace
from typing import Any

import pytest

from isosweep.models.weights import weights
from tests.training.builders import spec_of

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
    from isosweep.tasks import Judged
    from isosweep.training import evaluate

    model, tokenizer = policy
    # Of each problem's four samples two are right, and the others agree in every second problem.
    samples = [Judged(1.0, "1"), Judged(1.0, "1"), Judged(0.0, "2"), Judged(0.0, "3")]
    wrong = [Judged(0.0, "2"), Judged(0.0, "2"), Judged(0.0, "2"), Judged(1.0, "1")]
    monkeypatch.setattr(
        evaluate, "judge_later", lambda task, asked, texts: lambda: (samples + wrong) * 16
    )
    taken = evaluate.Evaluator(SPEC, tokenizer)(model)
    assert taken.successes == (2, 1) * 16
    assert taken.scores == {"majority": (1.0, 0.0) * 16}


def test_evaluation_leaves_randomness_mode_and_parameters_alone(policy: tuple[Any, Any]) -> None:
    import torch

    from isosweep.tasks import heldout_problems
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
    small = replace(SPEC, evaluation_batch=3)
    assert Evaluator(small, tokenizer)(model) == first
    other = replace(SPEC, evaluation=replace(SPEC.evaluation, seed=1))
    assert Evaluator(other, tokenizer)(model).successes != first.successes
