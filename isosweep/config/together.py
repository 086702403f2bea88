"""Rules that several groups of settings keep together.

Each function yields what a config breaks of one subject, with the setting to name; a rule that
makes no sense once an earlier one is broken comes after it.
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from isosweep.config.generation import splits
from isosweep.config.overrides import as_typed, typed
from isosweep.errors import SettingError

if TYPE_CHECKING:
    from isosweep.config.hardware import HardwareConfig
    from isosweep.config.sweep import SweepConfig

Refusals = Iterator[SettingError]
# vLLM 0.31 refuses more (vllm/sampling_params.py).
VLLM_MAX_TEMPERATURE = 2.0
# Why some settings are refused with a trainer of the user's.
_OWN_TRAINER = "is isosweep's own trainer's, and trainer.name=command trains otherwise"
# By which the devices of a run sample and train in turn.
_IN_TURN = "generation.overlap=false"


def broken_rules(c: "SweepConfig") -> Refusals:
    """All that the config breaks, in the order in which it is told."""
    for rule in _RULES:
        yield from rule(c)


# Settings of a command that some modes alone read, with what is typed in the others.
_OF_MODES: dict[str, tuple[tuple[str, ...], str]] = {
    "from_sweep": (("import", "recommend", "next", "compare"), ""),
    "dry_run": (("launch",), "mode=launch dry_run=true, or mode=plan"),
    "runs": (("status", "cancel"), ""),
    "lines": (("status",), ""),
    "retry_failed": (("resume",), "mode=resume retry_failed=true"),
    "format": (
        ("status", "cancel", "clean", "analyse", "compare", "next", "recommend"),
        "format=text",
    ),
}
# Files that hold what modes without a document for programs print.
_DOCUMENTS = {
    "plan": "plan.json in the sweep's directory",
    **dict.fromkeys(("run", "resume"), "analysis/answer.json in the sweep's directory"),
}


def _command_line(c: "SweepConfig") -> Refusals:
    """Settings that the mode would ignore; and the sweep's one directory."""
    for setting, field in type(c).model_fields.items():
        modes, nearest = _OF_MODES.get(setting, ((c.mode,), ""))
        value = getattr(c, setting)
        if c.mode in modes or not value or value == field.default:
            continue
        if setting == "format" and c.mode in _DOCUMENTS:
            nearest = f"{nearest}, and {_DOCUMENTS[c.mode]}"
        name = setting.removesuffix("_sweep")
        rule = f"is for mode={', '.join(modes)}; mode={c.mode} makes no use of it"
        yield SettingError(name, typed(value), rule, nearest)
    if c.name is not None and c.sweep_dir is not None:
        rule = f"and sweep_dir={c.sweep_dir}: each says which directory the sweep has"
        yield SettingError("name", c.name, rule)


def _search(c: "SweepConfig") -> Refusals:
    """Whether a search can follow its runs, and go on with those that have ended."""
    name, limit = f"search={c.search.name}", c.search.max_compute
    if not c.search.searches:
        # Of a proposal, whatever chose the sweep's runs, it is the limit.
        if limit is not None and c.mode != "next":
            rule = "is a search's, and search=grid trains the whole plan"
            if c.mode == "resume":
                rule = "mode=resume goes on with the search as it was begun; mode=run widens it"
            yield SettingError("search.max_compute", limit, rule)
        return
    if c.mode == "launch":
        rule = f"leaves its runs, and {name} asks for the next ones as they end"
        yield SettingError("mode", "launch", rule)
    if c.checkpoint.keep in ("weights", "none"):
        rule = f"leaves no checkpoint to go on from, and {name} trains runs a part at a time"
        yield SettingError("checkpoint.keep", c.checkpoint.keep, rule)


def _budget(c: "SweepConfig") -> Refusals:
    """Whether runs know when they have spent it."""
    if c.trainer.name == "command" and c.unit == "device_hours":
        rule = "cannot be predicted for a run, and trainer=command needs T in advance"
        yield SettingError("budget_unit", c.unit, rule, "budget_unit=rollouts")


def _nodes(c: "SweepConfig") -> Refusals:
    """Whether everything that takes part in a run can take several nodes."""
    hardware, launcher = c.hardware, c.launcher
    if hardware.nodes == 1:
        return

    def refused(setting: str, value: object, rule: str, nearest: str) -> SettingError:
        taken = f"a run takes {hardware.nodes} nodes x {hardware.node_devices} devices"
        nearest = f"{nearest}, or {_one_node(hardware)}"
        return SettingError(setting, value, f"{rule}, and {taken}", nearest)

    if launcher.name in ("local", "inline"):
        yield refused("launcher", launcher.name, "runs on this machine alone", "launcher=slurm")
    if launcher.name == "ray":
        yield refused("launcher", "ray", "gives a job one node", "launcher=slurm")
    if c.trainer.name == "command":
        yield refused("trainer", "command", "starts your command on one node", "trainer=trl")


def _one_node(hardware: "HardwareConfig") -> str:
    """What gives a run devices of one node alone."""
    one = hardware.taking(min(hardware.devices_per_run, hardware.devices_per_node or 10**9))
    return " ".join(as_typed({f"hardware.{name}": value for name, value in one.items()}))


def _vllm(c: "SweepConfig") -> Refusals:
    """Whether vLLM can sample these answers of the model."""
    generation, device = c.generation, c.hardware.device
    if generation.name != "vllm":
        return
    if generation.sleep and device != "cuda":
        rule = f"vLLM gives its memory back on a GPU only, and hardware.device={device}"
        yield SettingError("generation.sleep", True, rule)
    for name, group in (("recipe", c.recipe), ("evaluation", c.evaluation)):
        if group.temperature > VLLM_MAX_TEMPERATURE:
            rule = f"vLLM takes at most {VLLM_MAX_TEMPERATURE:g}"
            yield SettingError(f"{name}.temperature", group.temperature, rule)
    if c.model.architecture.num_experts and device == "cpu":
        rule = (
            "vLLM packs a mixture's experts on hardware.device=cpu, and samples with what it "
            "first read of them, whatever is trained; generation=transformers does not"
        )
        yield SettingError("generation", "vllm", rule)
    yield from _tensor_parallel(c)
    # vLLM starts with no more positions than the model has.
    positions = c.model.architecture.max_position_embeddings
    prompt, limit = math.ceil(c.task.planned_prompt_tokens), c.task.completion_limit
    if positions is not None and prompt + limit > positions:
        rule = (
            f"vLLM starts with at most the {positions} positions of the model {c.model.name}, "
            f"and prompts have {prompt}"
        )
        yield SettingError("task.max_completion_tokens", limit, rule)


def _tensor_parallel(c: "SweepConfig") -> Refusals:
    """Whether an engine's devices divide those that sample, and the model."""
    generation, arch, nodes = c.generation, c.model.architecture, c.hardware.nodes
    size = generation.tensor_parallel
    devices = generation.sampling_devices(c.hardware.node_devices)
    rule = None
    if devices % size:
        rule = f"must divide hardware.devices_per_run={devices}"
        if nodes > 1:
            rule = (
                f"must divide the {devices} devices that a run has on each of its {nodes} "
                "nodes: an engine takes one node"
            )
    elif not splits(arch, size):
        rule = (
            f"must divide the model {c.model.name}: its {arch.num_heads} heads, its "
            f"{arch.num_kv_heads} heads of keys and values (or be a multiple), the widths of "
            "its MLPs, its vocabulary"
        )
    if rule is not None:
        works = next(s for s in range(size, 0, -1) if devices % s == 0 and splits(arch, s))
        nearest = f"generation.tensor_parallel={works}"
        yield SettingError("generation.tensor_parallel", size, rule, nearest)
    if size > 1 and c.recipe.interruption is not None:
        rule = (
            "continues some answers only, for which the devices of one engine cannot wait for "
            f"each other (generation.tensor_parallel={size})"
        )
        yield SettingError("recipe.interruption", c.recipe.interruption, rule)


def _overlap(c: "SweepConfig") -> Refusals:
    """Whether the next rollouts can be sampled while this generation is trained on."""
    if not c.generation.overlap:
        return
    recipe, hardware = c.recipe, c.hardware

    def refused(rule: str, nearest: str) -> SettingError:
        return SettingError("generation.overlap", True, rule, f"{nearest}, or {_IN_TURN}")

    if recipe.rollout_lag == 0:
        rule = "needs rollouts that wait: recipe.rollout_lag is 0, and must be 1 or more"
        yield refused(rule, "recipe.rollout_lag=1")
    if recipe.updates_per_generation > 1:
        rule = (
            f"needs one update a generation, and recipe.mini_batches={recipe.mini_batches} x "
            f"recipe.num_iterations={recipe.num_iterations} make {recipe.updates_per_generation}"
        )
        yield refused(rule, "recipe.mini_batches=1 recipe.num_iterations=1")
    if c.trainer.name == "command":
        yield refused(_OWN_TRAINER, "trainer=trl")
    whole = "" if hardware.sharding == "ddp" else "hardware.sharding=ddp"
    if hardware.nodes > 1:
        rule = f"takes one node, and a run takes hardware.nodes={hardware.nodes}"
        yield refused(rule, f"{_one_node(hardware)} {whole}".strip())
    if whole:
        rule = f"needs the whole model on each device, and hardware.sharding={hardware.sharding}"
        yield refused(rule, whole)
    if hardware.device != "cpu" and hardware.devices_per_run == 1:
        rule = "must be 2 or more with generation.overlap=true: one samples, the others train"
        nearest = f"hardware.devices_per_run=2, or {_IN_TURN}"
        yield SettingError("hardware.devices_per_run", 1, rule, nearest)


def _interruption(c: "SweepConfig") -> Refusals:
    """Whether an interrupted answer has room before and after the interruption."""
    if c.recipe.interruption is None:
        return
    answer, limit = c.recipe.interruption_tokens, c.task.completion_limit
    if answer >= limit:
        rule = f"leaves nothing to interrupt of task.max_completion_tokens={limit}"
        yield SettingError("recipe.interruption_tokens", answer, rule)
    if (sharding := c.hardware.sharding) != "ddp":
        rule = (
            "continues some answers only, which sharded weights cannot wait for "
            f"(hardware.sharding={sharding})"
        )
        yield SettingError("recipe.interruption", c.recipe.interruption, rule)


def _model(c: "SweepConfig") -> Refusals:
    """Whether the model can be computed as asked."""
    arch, cast = c.model.architecture, c.recipe.cast_lm_head_to_fp32
    if c.recipe.lora_rank is not None and cast and arch.tie_word_embeddings:
        rule = (
            "TRL cannot compute a head in float32 that is tied to the embedding, beside the "
            f"adapters of recipe.lora_rank={c.recipe.lora_rank}"
        )
        yield SettingError("recipe.cast_lm_head_to_fp32", cast, rule)


_RULES: tuple[Callable[["SweepConfig"], Refusals], ...] = (
    _command_line,
    _search,
    _budget,
    _nodes,
    _vllm,
    _overlap,
    _interruption,
    _model,
)
