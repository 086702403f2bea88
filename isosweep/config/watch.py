"""The page of `mode=watch`."""

from typing import Annotated

from annotated_types import Le

from isosweep.config.settings import settings
from isosweep.config.values import NonNegativeInt


@settings("watch")
class WatchConfig:
    """The page that `mode=watch` serves on this machine."""

    port: Annotated[NonNegativeInt, Le(65535)] = 0
    """Port of 127.0.0.1 that serves the page; 0: a free one."""
