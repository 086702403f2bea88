"""The objects that training is made of: policy, tokenizer, rewards, order of problems, trainer."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PrinterCallback
from trl import GRPOConfig
from trl.rewards import get_soft_overlong_punishment

from isosweep.config.evaluation_sets import on_sets
from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.models.checkpoints import load_difference
from isosweep.models.prompts import prompt_tokens
from isosweep.models.stops import stop_tokens
from isosweep.plan.spec import RunSpec
from isosweep.tasks import Judged, Problem, heldout_problems, judge_later, training_problems
from isosweep.tasks.mixing import PartProblem
from isosweep.training.arguments import COLLECTIVE_S, adapters, trl_arguments
from isosweep.training.beside import Beside
from isosweep.training.ledger import Ledger
from isosweep.training.protocols import Tokenizer
from isosweep.training.stream import MixtureStream, ProblemStream, Retirement, Stream
from isosweep.training.trainer import CountedGRPOTrainer, Question
from isosweep.training.trl_fsdp import sharded_reference
from isosweep.training.vllm import compute_as_with_engine, vllm_engine


def load_policy(spec: RunSpec, directory: str) -> tuple[Any, Any]:
    """Model and tokenizer from a directory or hub name, in the precision it is trained in.

    Under LoRA the model is frozen, and held in the precision it is computed in. The host holds as
    little as the libraries allow: weights go straight to a device that holds them whole, and of
    FSDP's ranks the first of each node alone reads them. No code that lies beside the weights is
    executed, and no sampling setting that lies there acts. Raises SettingError unless each tensor
    of the model is in its files.
    """
    place: dict[str, Any] = {"revision": spec.model.revision, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(directory, **place)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = spec.weights_dtype if spec.recipe.lora_rank is None else spec.dtype
    if spec.sharding == "fsdp":
        # What transformers asks before it reads weights (transformers/distributed/fsdp.py).
        os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}
        PartialState(timeout=timedelta(seconds=COLLECTIVE_S))
    placed = spec.device == "cuda" and spec.sharding == "ddp"
    model, report = AutoModelForCausalLM.from_pretrained(
        directory,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        dtype=getattr(torch, dtype),
        attn_implementation=spec.attention,
        device_map={"": f"cuda:{os.environ.get('LOCAL_RANK', '0')}"} if placed else None,
        **place,
    )
    # Else what is missing would be trained from random values.
    if (difference := load_difference(report)) is not None:
        rule = f"its weights do not agree with its config.json: {difference}"
        setting = "model.source" if spec.model.location is None else "model.path"
        raise SettingError(setting, directory, rule)
    keep_soft_cap(model)
    sample_as_asked(model, further_ends(spec, tokenizer))
    return model, tokenizer


def further_ends(spec: RunSpec, tokenizer: Tokenizer) -> list[int]:
    """Tokens of `generation.stop`."""

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    return stop_tokens(spec.generation, spec.model, encode)


def sample_as_asked(model: Any, stop: Sequence[int]) -> None:
    """Leave of the model's generation settings how its answers end, also by `stop`, and no more.

    `generate` fills in from them whatever its caller, TRL or the evaluation, leaves open.
    """
    shipped = model.generation_config
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    kept = {name: getattr(shipped, name) for name in names}
    if stop:
        own = kept["eos_token_id"]
        ends = own if isinstance(own, list) else [own]
        kept["eos_token_id"] = [end for end in [*ends, *stop] if end is not None]
    model.generation_config = GenerationConfig(**kept)


def keep_soft_cap(model: Any) -> None:
    """Has a model that caps its attention scores (Gemma 2) do so: torch's fused attention cannot.

    transformers' `sdpa` passes over the cap without a word; vLLM and flash attention keep it.
    """
    caps = getattr(model.config, "attn_logit_softcapping", None) is not None
    if caps and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")


class Verification:
    """The task's scores of completions, begun as soon as these are sampled."""

    def __init__(self, task: TaskConfig, problems: Sequence[Problem]) -> None:
        self._task, self._problems = task, problems
        self._begun: tuple[list[int], list[str]] | None = None
        self._judged: Callable[[], list[Judged]]

    def begin(self, problem: list[int], completions: list[str]) -> None:
        """Have `completions` of the problems with these numbers judged."""
        self._begun = problem, completions
        asked = [self._problems[index] for index in problem]
        self._judged = judge_later(self._task, asked, completions)

    def correctness(self, completions: list[str], problem: list[int], **_: Any) -> list[float]:
        """The scores, in order: a reward function of TRL's."""
        if self._begun != (problem, completions):
            self.begin(problem, completions)
        self._begun = None
        return [each.score for each in self._judged()]


def _rewards(spec: RunSpec, verification: Verification) -> list[Callable[..., list[float]]]:
    """TRL's reward functions: the task's score of a completion, then what the recipe adds."""
    rewards: list[Callable[..., list[float]]] = [verification.correctness]
    if spec.recipe.overlong_share is not None:
        limit = spec.task.completion_limit
        penalised = max(1, round(spec.recipe.overlong_share * limit))
        rewards.append(get_soft_overlong_punishment(limit, penalised))
    return rewards


def make_stream(spec: RunSpec) -> Stream:
    """The run's training problems, in the order of its seed."""
    mixture, parts = spec.task.mixture, spec.task.parts
    if mixture is None:
        return _stream(spec, spec.task.num_train_problems)
    streams = {name: _stream(spec, part.num_train_problems) for name, part in parts.items()}
    return MixtureStream(streams, mixture.share_of)


def _stream(spec: RunSpec, problems: int) -> ProblemStream:
    recipe, retirement = spec.recipe, None
    if recipe.retire_at is not None:
        retirement = Retirement(recipe.retire_at, recipe.retire_window)
    return ProblemStream(problems, spec.seed, spec.problems_per_batch, retirement)


def make_trainer(
    spec: RunSpec,
    model: Any,
    tokenizer: Any,
    ledger: Ledger,
    stream: Stream,
    checkpoints: Path,
    further: Mapping[str, Sequence[Problem]] | None = None,
    beside: Beside | None = None,
) -> CountedGRPOTrainer:
    """A GRPOTrainer for `spec` that draws from `stream` and counts compute in `ledger`; `beside`
    samples for it, with the run's engine.

    `further`: the problems of the spec's further evaluation sets, which its sampler has to hold.
    """
    problems = training_problems(spec.task)

    def read(asked: Sequence[Problem]) -> list[list[int]]:
        return [prompt_tokens(tokenizer, problem, spec.model) for problem in asked]

    tokens = read(problems)
    limit = spec.task.completion_limit
    context = max(map(len, [*tokens, *read(heldout_problems(spec.task))])) + limit
    for name, asked in (further or {}).items():
        on, longest = on_sets(spec)[name], max(map(len, read(asked)))
        context = max(context, longest + on.task.completion_limit)
    verification = Verification(spec.task, problems)
    if beside is not None and spec.generation.name == "vllm":
        compute_as_with_engine(spec)
    engine = vllm_engine(spec) if beside is None else nullcontext()
    arguments = trl_arguments(spec, context, further_ends(spec, tokenizer), engine=beside is None)
    with engine, sharded_reference():
        trainer = CountedGRPOTrainer(
            spec,
            ledger,
            stream,
            [
                Question(
                    p.problem_id,
                    tuple(ids),
                    p.part if isinstance(p, PartProblem) else None,
                )
                for p, ids in zip(problems, tokens, strict=True)
            ],
            model=model,
            verify=verification.begin,
            reward_funcs=_rewards(spec, verification),
            args=GRPOConfig(**arguments),
            # TRL asks for a dataset; which problems come next is the stream's to say.
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=tokenizer,
            peft_config=adapters(spec),
        )
    if beside is not None:
        trainer.sample_beside(beside)
    if trainer.ref_model is not None:
        keep_soft_cap(trainer.ref_model)
    trainer.args.output_dir = str(checkpoints)
    # metrics.jsonl has every step's metrics.
    trainer.remove_callback(PrinterCallback)
    return trainer
