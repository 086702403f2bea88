"""Imported by the process that commands are forked from: the training stack, as runs import it.

The default config is composed as well, of which most commands differ by a few settings.
"""

from isosweep.config.hydra import config_of
from isosweep.launchers.fork_server import import_stack
from tests.composing import composed_once

import_stack()
with composed_once():
    config_of([])
