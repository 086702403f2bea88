"""How far the time that a run takes may be from what is predicted of it."""

from isosweep.config.hardware import HardwareConfig

# Three quarters of the published rows took between so many times what was planned, by constants
# that were fitted without their source (`benchmarks/published.py`).
_PUBLISHED = (0.75, 1.5)
# Assumed of times that runs on the hardware have corrected: further ones go on as they went.
_MEASURED = (0.9, 1.1)


def spread(hardware: HardwareConfig) -> tuple[float, float]:
    """Multiples of a predicted time between which the measured one is expected to lie, in three
    cases of four."""
    return _PUBLISHED if hardware.calibrated_from is None else _MEASURED
