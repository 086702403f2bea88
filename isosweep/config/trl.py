"""Fields of TRL's GRPOConfig: which of them isosweep decides, and which there are.

Read from the sources of the installed TRL and transformers, which are not imported here.
"""

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from isosweep.config.choices import meant
from isosweep.errors import SettingError

# Fields that follow from settings, with the setting, and fields that nobody sets.
_DECIDED = {
    "seed": "grid.seeds",
    "loss_type": "recipe.loss_type",
    "learning_rate": "recipe.learning_rate",
    "num_generations": "grid.num_generations",
    "generation_batch_size": "grid.problems_per_batch",
    "per_device_train_batch_size": "recipe.micro_batch",
    "gradient_accumulation_steps": "recipe.mini_batches",
    "steps_per_generation": "recipe.mini_batches",
    "max_completion_length": "task.max_completion_tokens",
    "max_steps": "budget",
    "num_train_epochs": "budget",
    "reward_weights": "recipe.reward_scale",
    "chat_template_kwargs": "model.chat_template_kwargs",
    "generation_kwargs": "generation.stop",
    "use_vllm": "generation",
    "vllm_enable_sleep_mode": "generation.sleep",
    "vllm_tensor_parallel_size": "generation.tensor_parallel",
    "vllm_importance_sampling_correction": "generation.importance_sampling_correction",
    "bf16": "hardware.dtype",
    "fp16": "hardware.dtype",
    "gradient_checkpointing": "hardware.gradient_checkpointing",
    "optim": "hardware.optimizer",
    "use_cpu": "hardware.device",
    "fsdp": "hardware.sharding",
    # What is sampled: by our sampler, or with vLLM alike.
    **dict.fromkeys(("top_k", "min_p", "repetition_penalty", "cache_implementation"), ""),
    # What lies in no checkpoint, so that a resumed run would be another one.
    **dict.fromkeys(("sync_ref_model", "use_adaptive_entropy"), ""),
    **dict.fromkeys(("model_init_kwargs", "trust_remote_code", "shuffle_dataset"), ""),
    **dict.fromkeys(("remove_unused_columns", "pad_to_multiple_of", "num_generations_eval"), ""),
    **dict.fromkeys(("output_dir", "report_to", "disable_tqdm", "run_name", "project"), ""),
    **dict.fromkeys(("ignore_data_skip", "auto_find_batch_size", "resume_from_checkpoint"), ""),
    **dict.fromkeys(("accelerator_config", "deepspeed", "local_rank", "restore_callback"), ""),
    **dict.fromkeys(("full_determinism", "use_liger_kernel", "tf32", "jit_mode_eval"), ""),
}
# Beginnings of fields that say how is logged, saved, evaluated, loaded and shared.
_DECIDED_GROUPS = (
    *("log_", "logging_", "save_", "eval_", "hub_", "push_to_", "dataloader_", "data_", "do_"),
    *("ddp_", "fsdp_", "torch_compile", "lr_scheduler", "warmup_ratio", "per_device_eval"),
    *("vllm_", "use_transformers_", "transformers_", "include_", "metric_", "load_best_"),
)


def require_free(fields: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Raise SettingError where isosweep decides one of the `fields` itself; `ours`: settings by the
    field that they are."""
    for name, value in fields.items():
        setting = ours.get(name, _DECIDED.get(name))
        if setting is None and not name.startswith(_DECIDED_GROUPS):
            continue
        rule = "isosweep sets this field of GRPOConfig itself"
        raise SettingError(
            f"recipe.trl.{name}", value, f"{rule}, by {setting}" if setting else rule
        )


def require_known(fields: Mapping[str, Any]) -> None:
    """Raise SettingError where this machine has a TRL, which lacks one of the `fields`."""
    known = grpo_config_fields() if fields else frozenset()
    for name, value in fields.items():
        if known and name not in known:
            free = [each for each in known if each not in _DECIDED]
            nearest = meant(name, free, f"recipe.trl.{{}}={value}")
            rule = "the installed TRL's GRPOConfig has no such field"
            raise SettingError(f"recipe.trl.{name}", value, rule, nearest)


@cache
def grpo_config_fields() -> frozenset[str]:
    """Names of GRPOConfig's fields; none where TRL is not installed."""
    files = {
        "trl": ("trainer/grpo_config.py", "trainer/base_config.py"),
        "transformers": ("training_args.py",),
    }
    names: set[str] = set()
    for package, sources in files.items():
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            return frozenset()
        for source in sources:
            tree = ast.parse((Path(found.origin).parent / source).read_text(encoding="utf-8"))
            for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
                names |= {
                    item.target.id
                    for item in kind.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
    return frozenset(names)
