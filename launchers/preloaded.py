"""What local runs have imported when they start, in the process that they are forked from.

To be imported by multiprocessing's fork server alone: it changes the environment.
"""

import gc
import os
import warnings

from isosweep.training.environment import forget_ranks_and_precision
from isosweep.training.session import lean_imports

forget_ranks_and_precision(os.environ)
# Asked whether there is a GPU, torch then reads NVML: CUDA, once initialised, survives no fork.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
with lean_imports():
    import isosweep.training.assembly
    import isosweep.training.attempt  # noqa: F401
# What is there now is never collected: its pages stay shared by all that are forked.
gc.collect()
gc.freeze()
# Said since Python 3.12: the one other thread is of pyarrow's allocator, which survives a fork.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
