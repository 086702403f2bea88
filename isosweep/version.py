"""Which isosweep this is: read by whoever writes or shows it, and by the build."""

__version__ = "0.1.0"
