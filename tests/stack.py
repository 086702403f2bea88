"""Imported by the process that commands are forked from: the training stack, as runs import it."""

from isosweep.launchers.fork_server import import_stack

import_stack()
