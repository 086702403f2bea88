"""How far the time that a run takes may be from what is predicted of it."""

from isosweep.config.hardware import HardwareConfig


def spread(hardware: HardwareConfig) -> tuple[float, float]:
    """Multiples of a predicted time between which the measured one is expected to lie.

    Assumed: half as much again either way with assumed efficiencies, a tenth with those that
    `mode=calibrate` has measured.
    """
    return (0.67, 1.5) if hardware.calibrated_from is None else (0.9, 1.1)
