"""The objects that training is made of: policy, tokenizer, rewards, order of problems, trainer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.rewards import get_soft_overlong_punishment

from isosweep.plan.spec import RunSpec
from isosweep.tasks import Problem, heldout_problems, training_problems
from isosweep.training.arguments import adapters, trl_arguments
from isosweep.training.lag import LaggedGRPOTrainer
from isosweep.training.ledger import Ledger
from isosweep.training.protocols import Tokenizer
from isosweep.training.stream import ProblemStream
from isosweep.training.trainer import CountedGRPOTrainer, Question
from isosweep.training.verification import Verification
from isosweep.training.vllm import vllm_engine


def load_policy(spec: RunSpec, directory: str) -> tuple[Any, Any]:
    """Model and tokenizer from a directory or hub name, in the precision it is trained in.

    Under LoRA the model is frozen, and held in the precision it is computed in.
    """
    tokenizer = AutoTokenizer.from_pretrained(directory, revision=spec.model.revision)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = spec.weights_dtype if spec.recipe.lora_rank is None else spec.dtype
    model = AutoModelForCausalLM.from_pretrained(
        directory, revision=spec.model.revision, dtype=getattr(torch, dtype)
    )
    return model, tokenizer


def prompt_tokens(tokenizer: Tokenizer, problem: Problem) -> list[int]:
    """The problem as the model reads it: through its chat template where it has one."""
    if tokenizer.chat_template is None:
        return list(tokenizer(problem.prompt)["input_ids"])
    messages = [{"role": "user", "content": problem.prompt}]
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
    )


def _rewards(spec: RunSpec, verification: Verification) -> list[Callable[..., list[float]]]:
    """TRL's reward functions: the task's score of a completion, then what the recipe adds."""
    rewards: list[Callable[..., list[float]]] = [verification.correctness]
    if spec.recipe.overlong_share is not None:
        limit = spec.task.completion_limit
        penalised = max(1, round(spec.recipe.overlong_share * limit))
        rewards.append(get_soft_overlong_punishment(limit, penalised))
    return rewards


def make_stream(spec: RunSpec) -> ProblemStream:
    """The run's training problems, in the order of its seed."""
    return ProblemStream(spec.task.num_train_problems, spec.seed, least=spec.problems_per_batch)


def make_trainer(
    spec: RunSpec,
    model: Any,
    tokenizer: Any,
    ledger: Ledger,
    stream: ProblemStream,
    checkpoints: Path,
) -> CountedGRPOTrainer:
    """A GRPOTrainer for `spec` that draws from `stream` and counts compute in `ledger`."""
    problems = training_problems(spec.task)
    tokens = [prompt_tokens(tokenizer, problem) for problem in problems]
    heldout = [prompt_tokens(tokenizer, problem) for problem in heldout_problems(spec.task)]
    longest = max(map(len, [*tokens, *heldout]))
    verification = Verification(spec.task, problems)
    kind = LaggedGRPOTrainer if spec.recipe.rollout_lag else CountedGRPOTrainer
    with vllm_engine(spec):
        trainer = kind(
            spec,
            ledger,
            stream,
            [Question(p.problem_id, tuple(ids)) for p, ids in zip(problems, tokens, strict=True)],
            model=model,
            verify=verification.begin,
            reward_funcs=_rewards(spec, verification),
            args=trl_arguments(spec, checkpoints, longest + spec.task.completion_limit),
            # TRL asks for a dataset; which problems come next is the stream's to say.
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=tokenizer,
            peft_config=adapters(spec),
        )
    # metrics.jsonl has every step's metrics.
    trainer.be_quiet()
    return trainer
