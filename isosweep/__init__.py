"""Plan, run and analyse iso-compute sweeps of LLM reinforcement learning."""

__version__ = "0.1.0"
