"""Which attention kernels a plan chooses, and that its runs keep them."""

import importlib.util
from typing import Any

import pytest

from isosweep.plan.attention import with_attention
from tests.conftest import make_config
from tests.plan.test_spec import spec_of

AUTO = ("model=qwen-0.5b", "hardware.attention=auto")


def test_auto_is_what_the_planning_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = spec_of("model=qwen-0.5b")
    assert spec_of(*AUTO).run_id == plain.run_id
    found = importlib.util.find_spec

    def installed(name: str, package: Any = None) -> Any:
        return "here" if name == "flash_attn" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", installed)
    planned = with_attention(make_config(*AUTO))
    assert planned.hardware.attention == "flash_attention_2"
    assert spec_of(*AUTO).attention == "flash_attention_2"
    assert spec_of(*AUTO).run_id != plain.run_id
    assert spec_of("model=qwen-0.5b").run_id == plain.run_id
    # The kernels compute in half precision on GPUs.
    assert spec_of("hardware.attention=auto").attention == "sdpa"
    assert spec_of(*AUTO, "hardware.dtype=float32").attention == "sdpa"
