"""What an upgrade of TRL or transformers broke: what changed, and where the adapter uses it.

Read out of the adapter's files and the installed packages: nothing is trained or sampled, so that
what only vLLM or FSDP would meet is seen too.
"""

import ast
import inspect
import textwrap
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.train

TRAINING = Path(__file__).resolve().parents[2] / "isosweep" / "training"
ADAPTERS = sorted(TRAINING.glob("trl_*.py"))
VERSIONS = f"trl {version('trl')}, transformers {version('transformers')}"
# Methods of TRL's trainer that are replaced on purpose; those that nothing of its own calls.
OVERRIDDEN = (
    *("get_train_dataloader", "create_scheduler", "training_step", "train", "_prepare_inputs"),
    *("_compute_loss", "_get_per_token_logps_and_entropies", "_generate_and_score_completions"),
    *("_tokenize_prompts", "_generate", "_generate_single_turn", "_calculate_rewards"),
    *("_save_checkpoint", "_save", "_save_optimizer_and_scheduler"),
    "create_accelerator_and_postprocess",
)
CALLED_BY_ISOSWEEP = ("train",)
# Attributes that an override sets as the method that it replaces does.
SET_ALIKE = {
    *("lr_scheduler", "_buffered_inputs", "_train_batch_size", "num_generations", "_step"),
    "use_vllm",
}
# What the adapter calls objects of TRL and transformers; `self`, of a trainer's class alone.
NAMED = {
    "self": "trainer",
    "trainer": "trainer",
    "self.args": "args",
    "self._trainer": "trainer",
    "self._backend": "vllm",
    "backend": "vllm",
    "trainer.state": "state",
    "self.state": "state",
    "state": "state",
    "control": "control",
}
# Metrics whose names TRL puts together, and those that the trainer logs itself.
COMPOSED = {
    "rewards/correctness/mean": "rewards/{}/mean",
    "rewards/correctness/std": "rewards/{}/std",
}
OWN_METRICS = {"zero_variance_share"}


@cache
def kinds() -> dict[str, Any]:
    """The classes of `NAMED`."""
    from transformers import TrainerControl, TrainerState
    from trl import GRPOConfig, GRPOTrainer
    from trl.generation.vllm_generation import VLLMGeneration

    named = {"trainer": GRPOTrainer, "args": GRPOConfig, "vllm": VLLMGeneration}
    return {**named, "state": TrainerState, "control": TrainerControl}


def chain() -> list[Any]:
    """isosweep's trainers, from TRL's."""
    from isosweep.training.trainer import CountedGRPOTrainer

    classes = CountedGRPOTrainer.__mro__
    return [each for each in reversed(classes) if each.__module__.startswith("isosweep.")]


@cache
def body(kind: Any) -> ast.AST:
    """The source of a class or function."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(kind))))


@cache
def members(kind: Any) -> frozenset[str]:
    """Everything that instances of a class have: declared, inherited, or set by its methods."""
    found = set(dir(kind))
    for each in kind.__mro__[:-1]:
        found |= set(vars(each).get("__annotations__", {}))
        if each.__module__.partition(".")[0] in ("trl", "transformers", "isosweep"):
            found |= own_attributes(each)
    return frozenset(found)


def own_attributes(kind: Any) -> set[str]:
    """What methods of the class set on `self`."""
    return {
        node.attr
        for node in ast.walk(body(kind))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }


@cache
def texts(kind: Any) -> frozenset[str]:
    """String literals of a class or function; what is put into an f-string is written {}."""
    found = set()
    for node in ast.walk(body(kind)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            found.add("".join(parts))
    return frozenset(found)


class Use(NamedTuple):
    """A member of an object of TRL's that the adapter names, where, and the call that it is in."""

    kind: str
    name: str
    place: str
    call: ast.Call | None


@cache
def uses() -> list[Use]:
    """All of them, in the adapter's files and in the trainer that stands on it."""
    found: list[Use] = []
    for file in (*ADAPTERS, TRAINING / "trainer.py"):
        for top in ast.parse(file.read_text()).body:
            trainer = isinstance(top, ast.ClassDef) and top.name.endswith("Trainer")
            calls = {id(n.func): n for n in ast.walk(top) if isinstance(n, ast.Call)}
            for node in ast.walk(top):
                if not isinstance(node, ast.Attribute):
                    continue
                base = ast.unparse(node.value)
                kind = "trainer" if base == "super()" else NAMED.get(base)
                if kind is not None and (trainer or base not in ("self", "super()")):
                    place = f"isosweep/training/{file.name}:{node.lineno}"
                    found.append(Use(kind, node.attr, place, calls.get(id(node))))
    return found


def parameters(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def places(name: str) -> str:
    return ", ".join(dict.fromkeys(use.place for use in uses() if use.name == name))


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_an_override_takes_what_trls_own_takes_and_is_called(name: str) -> None:
    theirs = kinds()["trainer"]
    (ours,) = [vars(kind)[name] for kind in chain() if name in vars(kind)]
    taken = [p.name for p in parameters(ours) if p.kind is not p.VAR_KEYWORD]
    rest = any(p.kind is p.VAR_KEYWORD for p in parameters(ours))
    given = [p.name for p in parameters(getattr(theirs, name))]
    where = f"{VERSIONS}: {name}({', '.join(given)}); used at {places(name)}"
    assert taken == (given[: len(taken)] if rest else given), where
    called = any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{name}"
        for kind in theirs.__mro__
        if kind.__module__.startswith(("trl.", "transformers."))
        for node in ast.walk(body(kind))
    )
    assert called or name in CALLED_BY_ISOSWEEP, f"{where}, and called by nothing of TRL's"


@pytest.mark.parametrize("kind", ["trainer", "args", "vllm", "state", "control"])
def test_members_that_are_used_are_there_and_take_what_they_are_given(kind: str) -> None:
    theirs = kinds()[kind]
    known = members(theirs) | (members(chain()[-1]) if kind == "trainer" else set())
    named = [use for use in uses() if use.kind == kind]
    lost = [f"{use.name} is missing; used at {use.place}" for use in named if use.name not in known]
    for use in named:
        method = inspect.getattr_static(theirs, use.name, None)
        if use.call is None or not inspect.isfunction(method):
            continue
        words = [word.arg for word in use.call.keywords]
        if None in words or any(isinstance(arg, ast.Starred) for arg in use.call.args):
            continue
        try:
            bound = inspect.signature(method)
            bound.bind(None, *use.call.args, **dict.fromkeys(filter(None, words)))
        except TypeError as error:
            lost.append(f"{use.name}{bound}: {error}; used at {use.place}")
    assert named
    assert not lost, "\n".join([VERSIONS, *lost])


def test_vllms_completions_are_where_they_are_taken_from() -> None:
    returns = [n for n in ast.walk(body(kinds()["vllm"].generate)) if isinstance(n, ast.Return)]
    last = max(returns, key=lambda node: node.lineno).value
    assert last is not None
    expected = "(prompt_ids, completion_ids, logprobs, logprob_token_ids)"
    assert ast.unparse(last) == expected, f"{VERSIONS}; used at {places('generate')}"
    # engine_options puts another in the place of this name.
    module = ast.parse(inspect.getsource(inspect.getmodule(kinds()["vllm"]) or ast))
    imported = [n for n in ast.walk(module) if isinstance(n, ast.ImportFrom) and n.module == "vllm"]
    assert "LLM" in {alias.name for node in imported for alias in node.names}, VERSIONS


def test_a_batch_has_the_tensors_that_are_read() -> None:
    from isosweep.training import microbatches

    read = microbatches._PROMPT | microbatches._COMPLETION | {"advantages", "num_items_in_batch"}
    lost = read - texts(kinds()["trainer"]._generate_and_score_completions)
    assert not lost, f"{VERSIONS}: a batch has no {lost}"


def test_the_log_has_the_metrics_that_are_kept() -> None:
    from transformers import Trainer

    from isosweep.training.trl_callback import METRICS

    written = texts(kinds()["trainer"]) | texts(Trainer) | OWN_METRICS
    lost = [name for name in METRICS if COMPOSED.get(name, name) not in written]
    assert not lost, f"{VERSIONS}: {lost} are not logged"


def test_no_name_of_isosweeps_trainers_hides_one_of_trls() -> None:
    for kind in chain():
        own = own_attributes(kind) | {name for name in vars(kind) if not name.startswith("__")}
        hidden = own & members(kinds()["trainer"]) - {*OVERRIDDEN} - SET_ALIKE
        assert not hidden, f"{VERSIONS}: {kind.__name__} has {hidden} for something else"
