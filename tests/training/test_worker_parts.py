"""The worker's parts on the built-in model: what it starts from, evaluation disturbs nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.training.decision import Decision
from tests.conftest import make_config

pytestmark = pytest.mark.train


def spec() -> RunSpec:
    config = make_config("task.num_eval_problems=32", "evaluation.samples_per_problem=4")
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=16)


def test_the_built_in_model_has_room_to_learn_and_something_to_start_from() -> None:
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.grpo import load_policy

    model, tokenizer = load_policy(spec(), weights(spec().model))
    assert sum(parameter.numel() for parameter in model.parameters()) == 133_824
    evaluation = Evaluator(spec(), tokenizer)(model)
    reward = sum(evaluation.successes) / (4 * len(evaluation.successes))
    assert 0.1 < reward < 0.6


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from isosweep.tasks import Judged
    from isosweep.training import evaluate
    from isosweep.training.grpo import load_policy

    model, tokenizer = load_policy(spec(), weights(spec().model))
    # Of each problem's four samples two are right, and the others agree in every second problem.
    samples = [Judged(1.0, "1"), Judged(1.0, "1"), Judged(0.0, "2"), Judged(0.0, "3")]
    wrong = [Judged(0.0, "2"), Judged(0.0, "2"), Judged(0.0, "2"), Judged(1.0, "1")]
    monkeypatch.setattr(
        evaluate, "judge_later", lambda task, asked, texts: lambda: (samples + wrong) * 16
    )
    taken = evaluate.Evaluator(spec(), tokenizer)(model)
    assert taken.successes == (2, 1) * 16
    assert taken.scores == {"majority": (1.0, 0.0) * 16}


def test_evaluation_leaves_randomness_mode_and_parameters_alone() -> None:
    import torch

    from isosweep.training.evaluate import Evaluator
    from isosweep.training.grpo import load_policy

    model, tokenizer = load_policy(spec(), weights(spec().model))
    evaluator = Evaluator(spec(), tokenizer)
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
    assert all(0 <= count <= 4 for count in first.successes)


def test_each_process_samples_its_share_with_noise_of_its_own() -> None:
    from isosweep.tasks import heldout_problems
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.grpo import load_policy

    model, tokenizer = load_policy(spec(), weights(spec().model))
    problems = heldout_problems(spec().task)
    # The same problems for both: what differs is the noise.
    shares = [
        Evaluator(spec(), tokenizer, problems=[*problems, *problems], rank=rank, ranks=2)(model)
        for rank in range(2)
    ]
    whole = Evaluator(spec(), tokenizer)(model)
    assert shares[0].successes == whole.successes
    assert len(shares[1].successes) == len(whole.successes)
    assert shares[1].successes != whole.successes


def test_processes_with_fewer_problems_call_the_model_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from isosweep.tasks import heldout_problems
    from isosweep.training import evaluate
    from isosweep.training.grpo import load_policy

    model, tokenizer = load_policy(spec(), weights(spec().model))
    # Two problems for each of four processes: the third has one, and the last has none.
    problems = heldout_problems(spec().task)[:5]
    one = replace(spec(), evaluation=replace(spec().evaluation, batch_size=4))
    calls = {"generate": 0, "forward": 0}

    def counted(name: str) -> None:
        function = getattr(model, name)

        def call(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(model, name, call)

    counted("generate")
    counted("forward")
    # What the others have sampled, as if it were one problem.
    monkeypatch.setattr(evaluate, "gather_object", lambda own: [([(4, 1.0)], 8), *own])
    seen = []
    for rank in range(4):
        evaluator = evaluate.Evaluator(one, tokenizer, problems=problems, rank=rank, ranks=4)
        calls.update(generate=0, forward=0)
        assert evaluator.can_answer(model)
        assert calls["forward"] == 1
        result = evaluator(model)
        seen.append((calls["generate"], len(result.successes) - 1))
        assert (result.completion_tokens or 0) >= 1
    assert seen == [(2, 2), (2, 2), (2, 1), (2, 0)]


class Strict:
    """Checkpoints after every step, and takes that back and ends training at the third."""

    def __init__(self) -> None:
        self.seen: list[dict[str, float]] = []

    def begin(self, step: int) -> None:
        raise AssertionError(step)

    def step_ended(self, step: int, seconds: float) -> Decision:
        return Decision.SAVE

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        self.seen.append(values)
        return Decision.STOP if step == 3 else None

    def complete(self, checkpoint: Path, write: Callable[[], None]) -> None:
        raise AssertionError(checkpoint)

    def saved(self, seconds: float) -> None:
        raise AssertionError("nothing was to be saved")


def test_the_metrics_of_a_step_can_end_training_and_take_its_checkpoint_back() -> None:
    from transformers import TrainerControl, TrainerState

    from isosweep.training.trl_callback import StepCallback

    observer = Strict()
    callback = StepCallback(observer, lambda: None)
    control = TrainerControl()
    for step in (2, 3):
        state = TrainerState(global_step=step)
        callback.on_step_end(None, state, control)
        assert (control.should_save, control.should_training_stop) == (True, False)
        logs = {"loss": 0.5, "sampling/sampling_logp_difference/mean": 0.01, "other": 1.0}
        callback.on_log(None, state, control, logs=logs)
        assert control.should_save is (step == 2)
        assert control.should_training_stop is (step == 3)
    assert observer.seen == [{"loss": 0.5, "logp_difference": 0.01}] * 2
