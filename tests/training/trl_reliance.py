"""What the adapter relies on in TRL and transformers, as a list.

Read with inspect and ast from the installed packages: nothing is trained or sampled. Names are
those of a dotted path, so that vLLM's backend can be looked at without vLLM.
"""

import ast
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TRAINING = Path(__file__).resolve().parents[2] / "isosweep" / "training"
ADAPTER = TRAINING / "trl_adapter.py"
ADAPTERS = (
    ADAPTER,
    *(TRAINING / f"{name}.py" for name in ("trl_engine", "trl_checkpoints", "trl_lean")),
    TRAINING / "microbatches.py",
)

GRPO = "trl.trainer.grpo_trainer.GRPOTrainer"
TRAINER = "transformers.trainer.Trainer"
VLLM = "trl.generation.vllm_generation.VLLMGeneration"
UTILS = "trl.trainer.utils"
MODEL = "transformers.generation.utils.GenerationMixin"
CALLBACK = "transformers.trainer_callback.TrainerCallback"
STATE = "transformers.trainer_callback.TrainerState"
CONTROL = "transformers.trainer_callback.TrainerControl"
CONFIG = "trl.trainer.grpo_config.GRPOConfig"


@dataclass(frozen=True)
class Override:
    """A method that TRL calls and an adapter replaces; `caller` is the method that calls it."""

    path: str
    parameters: tuple[str, ...]
    caller: str


@dataclass(frozen=True)
class Call:
    """A function that the adapter calls: first parameters by position, `keywords` by name."""

    path: str
    parameters: tuple[str, ...]
    keywords: tuple[str, ...] = ()


OVERRIDES = (
    Override(f"{GRPO}.get_train_dataloader", (), f"{TRAINER}._inner_training_loop"),
    Override(
        f"{GRPO}.training_step",
        ("model", "inputs", "num_items_in_batch"),
        f"{TRAINER}._run_epoch",
    ),
    Override(f"{GRPO}._prepare_inputs", ("generation_batch",), f"{TRAINER}.training_step"),
    Override(
        f"{GRPO}.compute_loss",
        ("model", "inputs", "return_outputs", "num_items_in_batch"),
        f"{TRAINER}.training_step",
    ),
    Override(
        f"{GRPO}._get_per_token_logps_and_entropies",
        (
            *("model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
            *("compute_entropy", "compute_aux_loss", "pixel_values", "image_grid_thw"),
            *("num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles", "image_sizes"),
            *("token_type_ids", "mm_token_type_ids", "image_position_ids"),
        ),
        f"{GRPO}._generate_and_score_completions",
    ),
    Override(f"{GRPO}._generate_and_score_completions", ("inputs",), f"{GRPO}._prepare_inputs"),
    Override(f"{GRPO}._tokenize_prompts", ("prompts",), f"{GRPO}._generate"),
    Override(f"{GRPO}._generate", ("prompts",), f"{GRPO}._generate_and_score_completions"),
    Override(
        f"{GRPO}._generate_single_turn",
        ("prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images"),
        f"{GRPO}._generate",
    ),
    Override(
        f"{GRPO}._get_per_token_logps_and_entropies",
        (
            *("model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
            *("compute_entropy", "compute_aux_loss", "pixel_values", "image_grid_thw"),
            *("num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles", "image_sizes"),
            *("token_type_ids", "mm_token_type_ids", "image_position_ids"),
        ),
        f"{GRPO}._compute_loss",
    ),
    Override(
        f"{GRPO}._calculate_rewards",
        ("inputs", "prompts", "completions", "completion_ids_list"),
        f"{GRPO}._generate_and_score_completions",
    ),
    Override(f"{GRPO}._save_checkpoint", ("model", "trial"), f"{TRAINER}._maybe_log_save_evaluate"),
    Override(f"{TRAINER}._save", ("output_dir", "state_dict"), f"{TRAINER}.save_model"),
    Override(
        f"{TRAINER}._save_optimizer_and_scheduler",
        ("output_dir",),
        f"{TRAINER}._save_checkpoint",
    ),
    Override(
        f"{TRAINER}.create_scheduler",
        ("num_training_steps", "optimizer"),
        f"{TRAINER}._prepare_for_training",
    ),
    Override(f"{TRAINER}.train", ("resume_from_checkpoint", "trial", "ignore_keys_for_eval"), ""),
)
CALLS = (
    Call(f"{UTILS}.pad", ("tensors", "padding_value", "padding_side", "pad_to_multiple_of")),
    Call(f"{MODEL}._prepare_generation_config", ("generation_config",)),
    Call("transformers.generation.configuration_utils.GenerationConfig.to_diff_dict", ()),
    Call(
        "transformers.generation.configuration_utils.GenerationConfig"
        "._get_default_generation_params",
        (),
    ),
    Call(
        f"{GRPO}._get_per_token_logps_and_entropies",
        ("model", "input_ids", "attention_mask", "logits_to_keep"),
        ("batch_size",),
    ),
    Call("trl.models.unwrap_model_for_generation", ("model", "accelerator")),
    Call("trl.distributed.DistributedBackend.summon_full_params", ("module",)),
    Call(f"{VLLM}.sync_weights", ()),
    Call(f"{VLLM}.generate", ("prompts",), ("images", "num_generations")),
    Call(f"{TRAINER}.add_callback", ("callback",)),
    Call(f"{TRAINER}.remove_callback", ("callback",)),
    Call(f"{CALLBACK}.on_train_begin", ("args", "state", "control")),
    Call(f"{CALLBACK}.on_step_end", ("args", "state", "control")),
    Call(f"{CALLBACK}.on_log", ("args", "state", "control")),
    Call(f"{CALLBACK}.on_save", ("args", "state", "control")),
)
# What the last `return` of a method gives, by the names it has there.
RETURNS = {
    f"{GRPO}._tokenize_prompts": ("prompt_ids", "images", "multimodal_fields"),
    f"{GRPO}._generate": (
        *("prompt_ids", "completion_ids", "tool_mask", "completions"),
        *("logprobs", "extra_fields", "images", "tool_images"),
    ),
    f"{GRPO}._generate_single_turn": ("completion_ids", "logprobs"),
    f"{GRPO}._get_per_token_logps_and_entropies": ("logps", "entropies", "aux_loss"),
    f"{VLLM}.generate": ("prompt_ids", "completion_ids", "logprobs", "logprob_token_ids"),
}
# Attributes that a class sets or declares.
ATTRIBUTES = {
    GRPO: (
        *("use_vllm", "vllm_generation", "generation_config", "eos_token_ids"),
        *("_metrics", "_dist", "_last_loaded_step", "_buffered_inputs", "_step"),
        *("aux_loss_enabled", "entropy_coef"),
        *("use_transformers_continuous_batching", "temperature"),
    ),
    TRAINER: (
        *("accelerator", "args", "state", "model", "model_wrapped", "_train_batch_size"),
        *("is_deepspeed_enabled", "is_fsdp_enabled", "optimizer", "lr_scheduler"),
    ),
    VLLM: ("llm", "mode", "temperature", "top_p", "top_k", "max_completion_length"),
    CONFIG: (
        *("steps_per_generation", "gradient_accumulation_steps", "output_dir"),
        *("per_device_train_batch_size", "device", "should_save"),
    ),
    STATE: ("global_step", "is_world_process_zero", "log_history"),
    CONTROL: ("should_save", "should_training_stop"),
    "transformers.generation.configuration_utils.GenerationConfig": (
        *("max_new_tokens", "temperature", "eos_token_id", "pad_token_id"),
    ),
}
# Attributes that an override sets as the method that it replaces does.
SET_ALIKE = {"lr_scheduler"}
# Names of a batch's tensors that `_generate_and_score_completions` writes.
BATCH_KEYS = (
    *("prompt_ids", "prompt_mask", "completion_ids", "completion_mask"),
    *("advantages", "old_per_token_logps", "tool_mask"),
    *("ref_per_token_logps", "sampling_per_token_logps", "importance_sampling_ratio"),
)
# Metrics whose names are put together: what TRL's source says of them.
COMPOSED = {
    "rewards/correctness/mean": "rewards/{}/mean",
    "rewards/correctness/std": "rewards/{}/std",
}
# Logged by the adapter itself.
OWN_METRICS = ("zero_variance_share",)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def located(path: str) -> Any:
    """The object of a dotted path; None where it does not exist."""
    module = path
    names: list[str] = []
    while True:
        try:
            target: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
    for name in names:
        target = inspect.getattr_static(target, name, None)
        if target is None:
            return None
    return target


@cache
def body_of(path: str) -> ast.AST:
    """The source of a function or class."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(located(path)))))


def parameters_of(path: str) -> tuple[str, ...] | None:
    """Names of a function's parameters without `self`; None where there is no function."""
    function = located(path)
    if not callable(function):
        return None
    names = tuple(inspect.signature(function).parameters)
    return names[1:] if names[:1] == ("self",) else names


def last_return(path: str) -> tuple[str, ...] | None:
    """What the last `return` of a function gives, a word an element."""
    returns = [node for node in ast.walk(body_of(path)) if isinstance(node, ast.Return)]
    if not returns:
        return None
    last = max(returns, key=lambda node: node.lineno).value
    elements = last.elts if isinstance(last, ast.Tuple) else [last] if last else []
    return tuple(ast.unparse(element) for element in elements)


def names_in(path: str) -> set[str]:
    """The variables that a function reads."""
    return {node.id for node in ast.walk(body_of(path)) if isinstance(node, ast.Name)}


def calls_method(caller: str, name: str) -> bool:
    """Whether `caller` has a call of `self.<name>(...)`."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and ast.unparse(node.func.value) == "self"
        for node in ast.walk(body_of(caller))
    )


@cache
def members_of(path: str) -> frozenset[str]:
    """Everything that instances of a class have: declared, inherited, or set by its methods."""
    members = set(dir(located(path)))
    for kind in located(path).__mro__[:-1]:
        members |= set(vars(kind).get("__annotations__", {}))
        if kind.__module__.partition(".")[0] not in ("trl", "transformers"):
            continue
        for node in ast.walk(body_of(f"{kind.__module__}.{kind.__qualname__}")):
            if isinstance(node, ast.Attribute) and sets_own(node):
                members.add(node.attr)
    return frozenset(members)


def sets_own(node: ast.Attribute) -> bool:
    """Whether it is `self.<name> = ...`."""
    return isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"


@cache
def texts_in(path: str) -> frozenset[str]:
    """String literals of a function or class; what is put into an f-string is written {}."""
    texts = set()
    for node in ast.walk(body_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            texts.add("".join(parts))
    return frozenset(texts)


def uses(name: str) -> list[tuple[str, int]]:
    """Places in the adapters that say `name`: as an attribute, a method, an argument or a text."""
    return sorted(
        {
            (file.name, node.lineno)
            for file in ADAPTERS
            for node in ast.walk(tree_of(file))
            if (isinstance(node, ast.Attribute) and node.attr == name)
            or (isinstance(node, ast.FunctionDef | ast.Name) and name == said(node))
            or (isinstance(node, ast.keyword) and node.arg == name)
            or (isinstance(node, ast.Constant) and node.value == name)
        }
    )


def said(node: ast.FunctionDef | ast.Name) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else node.id


def used_at(name: str) -> str:
    """Where the adapter uses `name`, for a message."""
    places = [f"isosweep/training/{file}:{line}" for file, line in uses(name)]
    return ", ".join(places) or "nowhere"
