"""Sweeps and plans in Python and notebooks: the calls that `import isosweep` offers."""
