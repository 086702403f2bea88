"""What tests of runs with a vLLM engine ask first, and the run of a sweep of one."""

import importlib.util
from pathlib import Path

import pytest

from isosweep.store.paths import RunPaths
from tests.conftest import missing

# Of every such test; the warnings are vLLM's own.
VLLM = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op` is deprecated"),
]


def require_vllm() -> None:
    """Skip or fail where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        missing("vllm", "vLLM is not installed in this environment: make test-vllm has one")


def only_run(cwd: Path) -> RunPaths:
    (path,) = (cwd / "sweeps" / "runs").iterdir()
    return RunPaths(path)
