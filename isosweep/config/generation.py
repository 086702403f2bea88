"""What samples the rollouts."""

import urllib.parse
from typing import Annotated, Any, Literal

from isosweep.config.identity import OUTSIDE
from isosweep.config.settings import settings
from isosweep.errors import SettingError

Backend = Literal["transformers", "vllm"]
VllmMode = Literal["colocate", "server"]


@settings("generation")
class GenerationConfig:
    """What samples the rollouts, and how."""

    name: Backend
    """The library: `transformers` or `vllm`."""
    prefix_sharing: bool = False
    """The n rollouts of a problem read its prompt once."""
    importance_sampling_correction: bool = False
    """TRL computes every completion's log-probabilities again, to correct for the sampler's
    numerics."""
    mode: VllmMode = "colocate"
    """vLLM in the trainer's own process, or a `server` on devices of its own, which has one policy
    and so serves one run at a time."""
    # Where vLLM's memory and weights are while nothing is sampled changes nothing sampled.
    server_url: Annotated[str | None, OUTSIDE] = None
    """URL of the vLLM server of `mode=server`."""
    sleep: Annotated[bool, OUTSIDE] = False
    """Colocated vLLM gives its memory back while the policy is updated."""

    def __post_init__(self) -> None:
        if self.mode == "server":
            self._check_server()
        elif self.server_url is not None:
            rule = "is only asked in generation.mode=server"
            raise _refused("server_url", self.server_url, rule, "null")
        for name in ("prefix_sharing", "importance_sampling_correction", "sleep"):
            if self.name != "vllm" and getattr(self, name):
                raise _refused(name, True, "only generation=vllm does that", "false")

    def _check_server(self) -> None:
        if self.name != "vllm":
            raise _refused("mode", self.mode, "only generation=vllm speaks to a server", "colocate")
        url = urllib.parse.urlsplit(self.server_url or "")
        if url.scheme not in ("http", "https") or not url.hostname:
            rule = "generation.mode=server needs the URL of a vLLM server"
            raise _refused("server_url", self.server_url, rule, "http://localhost:8000")
        if self.sleep:
            raise _refused("sleep", self.sleep, "a server has no memory to give back", "false")


def _refused(name: str, value: Any, rule: str, nearest: str) -> SettingError:
    return SettingError(f"generation.{name}", value, rule, f"generation.{name}={nearest}")
