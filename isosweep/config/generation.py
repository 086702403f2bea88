"""What samples the rollouts."""

import urllib.parse
from dataclasses import dataclass

from isosweep.config.rules import one_of, require


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """What samples the rollouts: `transformers`, or `vllm`.

    `mode`: vLLM in the trainer's own process (`colocate`), or a `server` at `server_url` on
    devices of its own, which holds one policy and so serves one run at a time. `sleep`: colocated
    vLLM gives its memory back while the policy is updated.
    `prefix_sharing`: the n rollouts of a problem read its prompt once.
    `importance_sampling_correction`: TRL computes every completion's log-probabilities again to
    correct for the sampler's numerics.
    """

    name: str
    prefix_sharing: bool = False
    importance_sampling_correction: bool = False
    mode: str = "colocate"
    server_url: str | None = None
    sleep: bool = False

    def __post_init__(self) -> None:
        one_of("generation.name", self.name, ("transformers", "vllm"))
        one_of("generation.mode", self.mode, ("colocate", "server"))
        server = self.mode == "server"
        rule = "only generation=vllm speaks to a server"
        nearest = "generation.mode=colocate"
        require(not server or self.name == "vllm", "generation.mode", self.mode, rule, nearest)
        url = urllib.parse.urlsplit(self.server_url or "")
        holds = not server or (url.scheme in ("http", "https") and bool(url.hostname))
        rule = "generation.mode=server needs the URL of a vLLM server"
        example = "generation.server_url=http://localhost:8000"
        require(holds, "generation.server_url", self.server_url, rule, example)
        holds, rule = server or self.server_url is None, "is only asked in generation.mode=server"
        nearest = "generation.server_url=null"
        require(holds, "generation.server_url", self.server_url, rule, nearest)
        holds, rule = not (server and self.sleep), "a server has no memory to give back"
        require(holds, "generation.sleep", self.sleep, rule, "generation.sleep=false")
        for name in ("prefix_sharing", "importance_sampling_correction", "sleep"):
            require(
                self.name == "vllm" or not getattr(self, name),
                f"generation.{name}",
                getattr(self, name),
                "only generation=vllm does that",
                f"generation.{name}=false",
            )
