"""Imported by the process that commands are forked from: the training stack, as runs import it.

The default config is composed as well, of which most commands differ by a few settings.
"""

import isosweep.launchers.preloaded  # noqa: F401
from isosweep.config.compose import config_of
from tests.composing import composed_once

with composed_once():
    config_of([])
