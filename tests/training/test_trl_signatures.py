"""What an upgrade of TRL or transformers broke: what changed, and where the adapter uses it."""

import ast
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.training import trl_reliance as reliance
from tests.training.trl_reliance import (
    ATTRIBUTES,
    BATCH_KEYS,
    CALLS,
    COMPOSED,
    GRPO,
    OVERRIDES,
    OWN_METRICS,
    RETURNS,
    SET_ALIKE,
    STATE,
    TRAINER,
    UTILS,
    Call,
    Override,
)

pytestmark = pytest.mark.train

# What modules beside the adapter may import: what TRL and transformers document.
DOCUMENTED = {
    "trl.GRPOConfig",
    "trl.rewards.get_soft_overlong_punishment",
    "transformers.AutoModelForCausalLM",
    "transformers.AutoTokenizer",
    "transformers.GenerationConfig",
}
VERSIONS = f"trl {version('trl')}, transformers {version('transformers')}"


def broken(path: str, now: object, before: object) -> str:
    return f"{VERSIONS}: {path} is {now}, was {before}; used at {reliance.used_at(last(path))}"


def change_of_override(override: Override) -> str | None:
    now = reliance.parameters_of(override.path)
    if now != override.parameters:
        return broken(override.path, signature(now), signature(override.parameters))
    name = override.path.rpartition(".")[2]
    if override.caller and not reliance.calls_method(override.caller, name):
        return broken(override.path, "not called", f"called by {override.caller}")
    return None


def change_of_call(call: Call) -> str | None:
    now = reliance.parameters_of(call.path)
    before = signature((*call.parameters, *call.keywords))
    if now is None or now[: len(call.parameters)] != call.parameters:
        return broken(call.path, signature(now), before)
    lost = [name for name in call.keywords if name not in now]
    return broken(call.path, signature(now), before) if lost else None


def signature(parameters: Iterable[str] | None) -> str:
    return "missing" if parameters is None else f"({', '.join(parameters)})"


def last(path: str) -> str:
    return path.rpartition(".")[2]


@pytest.mark.parametrize("override", OVERRIDES, ids=lambda override: last(override.path))
def test_trl_calls_what_is_overridden_as_before(override: Override) -> None:
    change = change_of_override(override)
    assert change is None, change


@pytest.mark.parametrize("call", CALLS, ids=lambda call: last(call.path))
def test_what_is_called_takes_what_it_is_given(call: Call) -> None:
    change = change_of_call(call)
    assert change is None, change


@pytest.mark.parametrize("path", RETURNS, ids=last)
def test_methods_return_what_they_did(path: str) -> None:
    now = reliance.last_return(path)
    assert now == RETURNS[path], broken(path, f"returning {now}", f"returning {RETURNS[path]}")


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=last)
def test_attributes_are_there(owner: str) -> None:
    lost = [name for name in ATTRIBUTES[owner] if name not in reliance.members_of(owner)]
    assert not lost, "\n".join(
        broken(f"{owner}.{name}", "missing", "an attribute") for name in lost
    )


def test_a_batch_has_the_tensors_that_are_read() -> None:
    path = f"{GRPO}._generate_and_score_completions"
    lost = [key for key in BATCH_KEYS if key not in reliance.texts_in(path)]
    assert not lost, "\n".join(broken(f"{path}.{key}", "missing", "a tensor") for key in lost)


def test_the_log_has_the_metrics_that_are_kept() -> None:
    from isosweep.training.trl_adapter import METRICS

    written = reliance.texts_in(GRPO) | reliance.texts_in(TRAINER)
    lost = [name for name in METRICS if COMPOSED.get(name, name) not in written]
    lost = [name for name in lost if name not in OWN_METRICS]
    assert not lost, "\n".join(
        f"{VERSIONS}: {name} is not logged, was; used at {reliance.used_at(name)}" for name in lost
    )


def test_modules_have_the_names_that_are_replaced_or_read() -> None:
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    from isosweep.store.paths import complete_checkpoints

    # `LLM` is imported where vLLM is installed: engine_options puts another in its place.
    file = reliance.located("trl.generation.vllm_generation").__file__
    imported = {
        alias.name
        for node in ast.walk(reliance.tree_of(Path(file)))
        if isinstance(node, ast.ImportFrom) and node.module == "vllm"
        for alias in node.names
    }
    assert "LLM" in imported, broken("trl.generation.vllm_generation.LLM", "missing", "imported")
    # `pad`, and the logits that are reserved, have others put in their place.
    assert reliance.located("trl.trainer.grpo_trainer.pad") is reliance.located(f"{UTILS}.pad")
    width = "_CHUNKED_LOGPROB_CHUNK_SIZE"
    assert width in reliance.names_in(f"{UTILS}.add_fused_lm_head"), broken(
        f"{UTILS}.{width}", "not used", "used by add_fused_lm_head"
    )
    prefix = "transformers.trainer_utils.PREFIX_CHECKPOINT_DIR"
    assert PREFIX_CHECKPOINT_DIR == "checkpoint", broken(
        prefix, PREFIX_CHECKPOINT_DIR, f"'checkpoint', which {complete_checkpoints.__name__} reads"
    )


def listed() -> set[str]:
    """Every name that the lists have of a trainer's members."""
    paths = [each.path for each in (*OVERRIDES, *CALLS)]
    methods = {last(path) for path in paths if path.startswith((GRPO, TRAINER))}
    return {*methods, *ATTRIBUTES[GRPO], *ATTRIBUTES[TRAINER]}


def of_trainers(module: ast.AST, owned: bool = True) -> set[str]:
    """Members of TRL's trainer that a module names: of anything, or of all but `self`."""
    attributes = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and (owned or ast.unparse(node.value) != "self")
    }
    return attributes & reliance.members_of(GRPO)


def test_the_lists_have_all_that_the_adapter_uses_and_nothing_else() -> None:
    used = set[str]().union(*(of_trainers(reliance.tree_of(file)) for file in reliance.ADAPTERS))
    overridden = {last(override.path) for override in OVERRIDES}
    # The state has one attribute whose name is also a method's of the trainer.
    assert (used | overridden) - {*ATTRIBUTES[STATE], "__init__"} == listed()
    for owner, names in ATTRIBUTES.items():
        unused = [name for name in names if reliance.used_at(name) == "nowhere"]
        assert not unused, f"{owner}: {unused}"


@pytest.mark.parametrize("path", sorted(reliance.TRAINING.glob("*.py")), ids=lambda path: path.stem)
def test_internals_are_touched_in_the_adapters_alone(path: Path) -> None:
    if path in reliance.ADAPTERS:
        return
    module = reliance.tree_of(path)
    # In other classes `self` is no trainer.
    own = path.stem in ("trainer", "lag")
    private = {name for name in of_trainers(module, owned=own) if name.startswith("_")}
    assert not private - {"__init__", "__name__"}
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("trl", "transformers")
        for alias in node.names
    }
    assert imported <= DOCUMENTED


def test_no_name_of_isosweeps_trainers_hides_one_of_trls() -> None:
    overridden = {last(override.path) for override in OVERRIDES}
    for kind in (
        "trl_checkpoints.CheckpointedTrainer",
        "microbatches.MicroBatchTrainer",
        "trl_lean.LeanGRPOTrainer",
        "trl_adapter.TRLTrainer",
        "trainer.CountedGRPOTrainer",
        "lag.LaggedGRPOTrainer",
    ):
        path = f"isosweep.training.{kind}"
        own = {
            node.attr
            for node in ast.walk(reliance.body_of(path))
            if isinstance(node, ast.Attribute) and reliance.sets_own(node)
        }
        own |= {name for name in vars(reliance.located(path)) if not name.startswith("__")}
        hidden = own & reliance.members_of(GRPO) - overridden - SET_ALIKE
        assert not hidden, f"{VERSIONS}: {kind} has {hidden} for something else"


class Elsewhere:
    """Stands for a release of TRL that changed a method."""

    def _generate(self, prompts: list[str], tools: list[str]) -> list[str]:
        return [*prompts, *tools]

    def _prepare_inputs(self, batch: list[str]) -> list[str]:
        return batch


def test_a_changed_method_is_named_with_what_it_was_and_where_it_is_used() -> None:
    here = f"{__name__}.Elsewhere"
    change = change_of_override(Override(f"{here}._generate", ("prompts",), ""))
    assert change is not None
    assert f"{here}._generate is (prompts, tools), was (prompts); used at isosweep/" in change
    places = change.partition("used at ")[2].split(", ")
    assert {place.partition(":")[0] for place in places} == {"isosweep/training/trl_adapter.py"}
    lines = [int(place.partition(":")[2]) for place in places]
    text = reliance.ADAPTER.read_text().splitlines()
    assert lines
    assert all("_generate(" in text[line - 1] for line in lines)
    change = change_of_override(Override(f"{here}.gone", ("prompts",), ""))
    assert change is not None
    assert "gone is missing, was (prompts); used at" in change
    change = change_of_override(
        Override(f"{here}._generate", ("prompts", "tools"), f"{here}._prepare_inputs")
    )
    assert change is not None
    assert f"_generate is not called, was called by {here}._prepare_inputs" in change
