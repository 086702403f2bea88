"""What an upgrade of TRL or transformers broke of what the adapter replaces and reads.

Read out of the installed packages: nothing is trained or sampled, so that what only vLLM would meet
is seen too.
"""

import ast
import inspect
import textwrap
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest

pytestmark = pytest.mark.train

VERSIONS = f"trl {version('trl')}, transformers {version('transformers')}"
# Methods of TRL's trainer that are replaced on purpose.
OVERRIDDEN = (
    *("get_train_dataloader", "create_scheduler", "training_step", "_prepare_inputs"),
    *("_compute_loss", "_get_per_token_logps_and_entropies", "_generate_and_score_completions"),
    *("_tokenize_prompts", "_generate", "_generate_single_turn", "_calculate_rewards"),
    *("_save_checkpoint", "create_accelerator_and_postprocess"),
)
# Attributes that an override sets as the method that it replaces does, and one of transformers'.
SET_ALIKE = {
    *("lr_scheduler", "_buffered_inputs", "_train_batch_size", "num_generations", "_step"),
    *("use_vllm", "train"),
}
# Metrics whose names TRL puts together, and those that the trainer logs itself.
COMPOSED = {
    "rewards/correctness/mean": "rewards/{}/mean",
    "rewards/correctness/std": "rewards/{}/std",
}
OWN_METRICS = {"zero_variance_share"}


def trls() -> Any:
    from trl import GRPOTrainer

    return GRPOTrainer


def chain() -> list[Any]:
    """isosweep's trainers, from TRL's."""
    from isosweep.training.trainer import CountedGRPOTrainer

    classes = CountedGRPOTrainer.__mro__
    return [each for each in reversed(classes) if each.__module__.startswith("isosweep.")]


@cache
def body(kind: Any) -> ast.AST:
    """The source of a class or function."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(kind))))


def own_attributes(kind: Any) -> set[str]:
    """What methods of the class set on `self`."""
    return {
        node.attr
        for node in ast.walk(body(kind))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }


def texts(kind: Any) -> set[str]:
    """String literals of a class or function; what is put into an f-string is written {}."""
    found = set()
    for node in ast.walk(body(kind)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            found.add("".join(parts))
    return found


def parameters(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_an_override_takes_what_trls_own_takes_and_is_called(name: str) -> None:
    (ours,) = [vars(kind)[name] for kind in chain() if name in vars(kind)]
    taken = [p.name for p in parameters(ours) if p.kind is not p.VAR_KEYWORD]
    rest = any(p.kind is p.VAR_KEYWORD for p in parameters(ours))
    given = [p.name for p in parameters(getattr(trls(), name))]
    where = f"{VERSIONS}: {name}({', '.join(given)})"
    assert taken == (given[: len(taken)] if rest else given), where
    called = any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{name}"
        for kind in trls().__mro__
        if kind.__module__.startswith(("trl.", "transformers."))
        for node in ast.walk(body(kind))
    )
    assert called, f"{where}, and called by nothing of TRL's"


def test_vllms_completions_are_where_they_are_taken_from() -> None:
    from trl.generation import vllm_generation

    generate = vllm_generation.VLLMGeneration.generate
    returns = [node for node in ast.walk(body(generate)) if isinstance(node, ast.Return)]
    last = max(returns, key=lambda node: node.lineno).value
    assert last is not None
    expected = "(prompt_ids, completion_ids, logprobs, logprob_token_ids)"
    assert ast.unparse(last) == expected, VERSIONS
    # engine_options puts another in the place of this name.
    module = ast.parse(inspect.getsource(vllm_generation))
    imported = [n for n in ast.walk(module) if isinstance(n, ast.ImportFrom) and n.module == "vllm"]
    assert "LLM" in {alias.name for node in imported for alias in node.names}, VERSIONS


def test_the_log_has_the_metrics_that_are_kept() -> None:
    from transformers import Trainer

    from isosweep.training.trl_callback import METRICS

    written = texts(trls()) | texts(Trainer) | OWN_METRICS
    lost = [name for name in METRICS if COMPOSED.get(name, name) not in written]
    assert not lost, f"{VERSIONS}: {lost} are not logged"


def test_no_name_of_isosweeps_trainers_hides_one_of_trls() -> None:
    theirs = set(dir(trls()))
    for kind in trls().__mro__:
        if kind.__module__.startswith(("trl.", "transformers.")):
            theirs |= own_attributes(kind)
    for kind in chain():
        own = own_attributes(kind) | {name for name in vars(kind) if not name.startswith("__")}
        hidden = own & theirs - {*OVERRIDDEN} - SET_ALIKE
        assert not hidden, f"{VERSIONS}: {kind.__name__} has {hidden} for something else"
