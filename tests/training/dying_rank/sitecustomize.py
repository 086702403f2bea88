"""Ends a process when it is about to write its part of its second checkpoint.

Of a replicated run's processes, but for the first, that begins with the checkpoint's directory.
"""

import os
import sys
from pathlib import Path
from typing import Any

_begun: set[str] = set()


def _hear(event: str, given: tuple[Any, ...]) -> None:
    if event == "os.mkdir" and Path(str(given[0])).name.startswith("checkpoint-"):
        _begun.add(str(given[0]))
        if len(_begun) == 2:
            os._exit(9)


sys.addaudithook(_hear)
