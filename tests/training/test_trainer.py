"""The trainer: what it counts, which problems it meets, and what it throws away."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_ci
from tests.training.builders import listen, parameters, spec_of, train, trainer_of
from tests.training.test_microbatches import network_of, shaped

pytestmark = pytest.mark.train


def test_the_first_update_of_warm_up_learns(tmp_path: Path) -> None:
    import torch

    spec = spec_of("recipe.warmup_steps=3")
    trainer = trainer_of(spec, tmp_path)
    before = parameters(trainer)
    moved: list[bool] = []

    def look(step: int) -> None:
        pairs = zip(trainer.model.parameters(), before, strict=True)
        moved.append(any(not torch.equal(now, then) for now, then in pairs))

    metrics = train(trainer, 4, look)
    assert moved == [False, True, True, True, True]
    rates = [values["learning_rate"] / spec.learning_rate for values in metrics]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_rollouts_are_those_of_trls_own_sampling(tmp_path: Path) -> None:
    import torch
    from trl import GRPOTrainer

    spec = spec_of("recipe.temperature=0.6", "recipe.top_p=0.9", "task.sort.levels=[4,6]")
    trainer = trainer_of(spec, tmp_path)
    prompts = [prompt for prompt in trainer.prompts[:8] for _ in range(4)]
    torch.manual_seed(3)
    ours = trainer.sample(prompts, 4)
    torch.manual_seed(3)
    assert ours == GRPOTrainer._generate_single_turn(trainer, prompts, None, {}, 4)


def test_counts_are_those_of_the_completions_that_were_sampled(tmp_path: Path) -> None:
    from isosweep.training.loop import METRICS

    trainer = trainer_of(spec_of(), tmp_path)
    heard = listen(trainer)
    metrics = train(trainer, 3)
    # Nothing that is kept of TRL's log is lost: vLLM's metrics are in its tests.
    rare = {"logp_difference", "logp_difference_max", "kl"}
    assert {*METRICS.values()} - rare <= metrics[0].keys()
    # Those of the newest update can be read, with their scores and their advantage in their group.
    kept = [each for group in trainer.latest_rollouts() for each in group.completions]
    newest, scores = heard[-1], heard[-1]["scores"]
    assert [each.reward for each in kept] == scores[:8]
    assert [each.tokens for each in kept] == [len(ids) for ids in newest["ids"][:8]]
    for at, each in enumerate(kept):
        mean = sum(scores[at // 4 * 4 :][:4]) / 4
        assert each.advantage is not None
        assert (each.advantage > 0, each.advantage < 0) == (scores[at] > mean, scores[at] < mean)
    spent = trainer.ledger.spent
    assert spent.generations == len(heard) == 3
    assert spent.rollouts == 3 * 16
    assert spent.completion_tokens == sum(len(ids) for step in heard for ids in step["ids"])
    prompts = [len(trainer.prompts[i]) for step in heard for i in step["problem"]]
    assert spent.prompt_tokens == sum(prompts)
    # Where an answer ends, its end is counted and nothing after it.
    end = trainer.processing_class.eos_token_id
    assert all(end not in ids[:-1] for step in heard for ids in step["ids"])
    phases = spent.generation_seconds + spent.training_seconds + spent.reward_seconds
    assert 0.5 * spent.device_seconds < phases + spent.scoring_seconds < spent.device_seconds


@pytest.mark.parametrize("shared", [True, False])
def test_a_stop_ends_answers_in_training_and_evaluation(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isosweep.tasks import judge_later
    from isosweep.training import evaluate

    spec = spec_of("generation.stop=['5','7']", f"generation.prefix_sharing={shared}")
    trainer = trainer_of(spec, tmp_path)
    heard = listen(trainer)
    train(trainer, 2)
    tokenizer = trainer.processing_class
    stops = {tokenizer.convert_tokens_to_ids(text) for text in "57"}
    sampled = [ids for step in heard for ids in step["ids"]]
    assert {ids[-1] for ids in sampled} > stops
    assert not any(stops & set(ids[:-1]) for ids in sampled)

    texts: list[str] = []

    def judged(task: Any, asked: Any, read: list[str]) -> Any:
        texts.extend(read)
        return judge_later(task, asked, read)

    monkeypatch.setattr(evaluate, "judge_later", judged)
    evaluate.Evaluator(spec, tokenizer)(trainer.model)
    assert {text.strip()[-1:] for text in texts} > {"5", "7"}
    assert not any(stop in text.strip()[:-1] for stop in "57" for text in texts)


# What a step does beside sampling and learning: a reference model, frozen weights, an interruption
# by four tokens. Answers that bear no loss are booked and not computed: test_microbatches.py.
STEPS = {
    "plain": (),
    "reference": ("recipe=grpo",),
    "lora": ("recipe.lora_rank=4",),
    "interrupted": (
        *("recipe.interruption='===='", "recipe.interruption_tokens=2"),
        "task.max_completion_tokens=9",
    ),
}


@pytest.mark.parametrize("step", in_ci(STEPS, "lora", "interrupted"))
def test_counted_flops_are_what_torch_counts_around_a_step(step: str, tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    # Wide enough that the square of attention, of which a causal mask leaves half, is little.
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "head_dim": 128, "vocab_size": 32}
    # Answers that never end, cut off at 3 tokens, are all of one length: nothing is padded.
    spec = spec_of(*shaped(sizes), "task.max_completion_tokens=3", *STEPS[step])
    trainer = trainer_of(spec, tmp_path, network_of(tmp_path, sizes))
    trainer.generation_config.eos_token_id = trainer.eos_token_ids = []
    counter = FlopCounterMode(display=False)
    with counter:
        train(trainer, 1)
    spent = trainer.ledger.spent
    assert spent.completion_tokens == 16 * spec.task.completion_limit
    assert spent.flops == pytest.approx(counter.get_total_flops(), rel=0.01)
    assert (spent.reference_flops > 0) == (step == "reference")


def test_dynamic_sampling_draws_until_every_group_teaches(tmp_path: Path) -> None:
    draws = ("recipe.zero_variance=resample", "recipe.max_draws=8", "recipe.planned_draws=2")
    trainer = trainer_of(spec_of(*draws, n=2), tmp_path)
    heard = listen(trainer)
    batches: list[Any] = []
    make = trainer.make_batch

    def listening(count: int) -> Any:
        batches.append(make(count))
        return batches[-1]

    trainer.make_batch = listening
    train(trainer, 4)
    spent = trainer.ledger.spent
    assert spent.generations == 4
    # What was chosen is not scored again.
    draws_made = len(heard)
    assert draws_made > 4
    assert spent.rollouts == 8 * draws_made
    # Only what was kept was trained on.
    assert spent.training_flops < 0.75 * 3 * spent.decode_flops * draws_made
    assert len(batches) == 4
    for batch in batches:
        assert (batch["advantages"].view(4, 2).abs() > 0).all()


def test_dynamic_sampling_gives_up_after_max_draws(tmp_path: Path) -> None:
    draws = ("recipe.zero_variance=resample", "recipe.max_draws=3")
    trainer = trainer_of(spec_of(*draws), tmp_path)
    trainer.reward_funcs[0] = lambda completions, **_: [0.0] * len(completions)
    train(trainer, 1)
    assert trainer.ledger.spent.rollouts == 3 * 16
    assert trainer.ledger.spent.generations == 1


@pytest.mark.parametrize("resampled", [False, True])
def test_solved_problems_are_retired_even_where_they_are_thrown_away(
    resampled: bool, tmp_path: Path
) -> None:
    draws = ("recipe.zero_variance=resample", "recipe.max_draws=4") if resampled else ()
    retired = ("recipe.retire_at=0.9", "recipe.retire_window=2", "task.num_train_problems=16")
    trainer = trainer_of(spec_of(*retired, *draws, n=2), tmp_path)

    def half(problem: list[int], **_: Any) -> list[float]:
        # Even problems are always right, odd ones once in two.
        return [float(index % 2 == 0 or i % 2) for i, index in enumerate(problem)]

    trainer.reward_funcs[0] = half
    heard = listen(trainer)
    train(trainer, 6)
    assert trainer.stream.retired == list(range(0, 16, 2))
    assert all(problem % 2 for problem in heard[-1]["problem"])


def test_a_long_answer_is_asked_to_finish(tmp_path: Path) -> None:
    import torch

    phrase = ("recipe.interruption='===='", "recipe.interruption_tokens=4")
    with pytest.raises(ValueError, match=r"recipe\.interruption takes 4 tokens"):
        trainer_of(spec_of(*phrase), tmp_path)
    # Three tokens, then the phrase `==`, then two more.
    phrase = ("recipe.interruption='=='", "recipe.interruption_tokens=2")
    spec = spec_of(*phrase, "task.max_completion_tokens=7")
    trainer = trainer_of(spec, tmp_path)
    trainer.model.train()
    output = trainer.make_batch(16)
    equals = trainer.processing_class("==")["input_ids"]
    ids, mask = output["completion_ids"], output["completion_mask"]
    assert ids.shape[1] <= 7
    assert (ids[:, 3:5] == torch.tensor(equals)).all()
    # The phrase bears no loss; what the policy wrote does.
    assert output["tool_mask"][:, 3:5].sum() == 0
    assert output["tool_mask"][:, :3].all()
    spent = trainer.ledger.spent
    assert spent.completion_tokens == mask.sum()
    # What the phrase's probabilities were changes nothing; what the answer's were does.
    trainer.current_gradient_accumulation_steps = 1
    output["advantages"] = torch.linspace(-1, 1, 16)
    output["old_per_token_logps"] = -torch.ones(ids.shape)
    loss = trainer.compute_loss(trainer.model, output).item()
    output["old_per_token_logps"][:, 3:5] = -3
    assert trainer.compute_loss(trainer.model, output).item() == loss
    output["old_per_token_logps"][:, 5:] = -3
    assert trainer.compute_loss(trainer.model, output).item() != loss
