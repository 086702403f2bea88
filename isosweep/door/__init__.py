"""Sweeps and plans in Python and notebooks: what `import isosweep` offers, imported when asked."""
