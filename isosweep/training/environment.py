"""What a worker forgets of the environment that it was started in."""

from collections.abc import MutableMapping

# What accelerate and transformers read where a setting of TRL's is left to its default
# (accelerate/utils/dataclasses.py, accelerate/state.py, transformers/training_args.py), and how
# torch's launcher has its processes meet (torch/distributed/elastic).
_PREFIXES = (
    *("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_", "MEGATRON_LM_", "DEEPSPEED_"),
    *("TORCHELASTIC_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"),
)
_NAMES = frozenset(
    (
        # A place among processes (accelerate/utils/environment.py, torch/distributed/run.py).
        *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *("NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
        *("ROLE_NAME", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        # Another precision than a run's (cuBLAS, aten/src/ATen/Context.cpp, oneDNN, XLA).
        *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        *("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"),
        *("XLA_USE_BF16", "XLA_DOWNCAST_BF16"),
    )
)


def forget_ranks_and_precision(environment: MutableMapping[str, str]) -> None:
    """Remove the variables by which a run would join other processes, or compute otherwise than
    its spec says: its own are set later. To be called before torch is imported."""
    for name in [*environment]:
        if name in _NAMES or name.startswith(_PREFIXES):
            del environment[name]
