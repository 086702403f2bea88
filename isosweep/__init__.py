"""Plan, run and analyse iso-compute sweeps of LLM reinforcement learning."""

from typing import TYPE_CHECKING

from isosweep.version import __version__ as __version__

if TYPE_CHECKING:
    from isosweep.door.compared import compare as compare
    from isosweep.door.imported import from_frame as from_frame
    from isosweep.door.planned import make_plan as make_plan
    from isosweep.door.planned import run as run
    from isosweep.door.sweep import open as open  # noqa: A004
    from isosweep.door.sweep import sweeps as sweeps
    from isosweep.errors import IsosweepError as IsosweepError
else:
    # Whoever imports the package alone, as workers and nodes do, imports nothing else.
    _OFFERED = {
        "compare": "isosweep.door.compared",
        "from_frame": "isosweep.door.imported",
        "make_plan": "isosweep.door.planned",
        "run": "isosweep.door.planned",
        "open": "isosweep.door.sweep",
        "sweeps": "isosweep.door.sweep",
        "IsosweepError": "isosweep.errors",
    }

    def __getattr__(name):
        if name not in _OFFERED:
            from difflib import get_close_matches

            likest = get_close_matches(name, _OFFERED, n=1)
            hint = f"; did you mean isosweep.{likest[0]}?" if likest else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        from importlib import import_module

        return getattr(import_module(_OFFERED[name]), name)

    def __dir__():
        return sorted({*globals(), *_OFFERED})
