"""Values put in the place of others for a while."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any


@contextmanager
def changed(target: Any, **values: Any) -> Iterator[None]:
    """`target` with other attribute values, put back afterwards."""
    before = {name: getattr(target, name) for name in values}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)


def without_routing(config: Any) -> AbstractContextManager[None]:
    """A mixture that gives no router logits within the block.

    transformers computes the load-balancing loss of them in `generate` too, with a mask that does
    not fit one token at a time.
    """
    routed = getattr(config, "output_router_logits", False)
    return changed(config, output_router_logits=False) if routed else nullcontext()
