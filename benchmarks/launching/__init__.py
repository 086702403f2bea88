"""The parts of `benchmarks/launch.py`."""
