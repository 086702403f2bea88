"""Settings that a command types for a sweep that is stored: most of them are the sweep's own."""

from typing import Any

from isosweep.config.axes import flattened
from isosweep.config.overrides import typed
from isosweep.config.sweep import Mode, SweepConfig
from isosweep.config.trust import hidden
from isosweep.errors import SettingError

# Which sweep a command is about and what it does, and what says nothing of the sweep's runs.
_OF_COMMANDS = {
    *("mode", "sweep", "sweeps_dir", "runs", "lines", "format"),
    *("confirm", "trust", "retry_failed", "launcher", "tracking", "hydra"),
}
# Settings that a mode uses as they are typed, whatever the sweep was planned with; of those that
# analyse nothing, how it is analysed.
_USED: dict[Mode, set[str]] = {
    "analyse": {"analysis"},
    "compare": {"analysis"},
    "status": {"analysis"},
    "cancel": {"analysis"},
    "dashboard": {"analysis"},
    "recommend": {"analysis", "budget"},
    "next": {"search"},
}
# What brings settings of many groups, and no command types.
_EXPERIMENT, _DERIVED = "experiment", {"given", "loss_sources"}


def require_settings_of(sweep: str, stored: SweepConfig, command: SweepConfig) -> None:
    """Raise SettingError for a setting of `command` that differs from the `stored` one of `sweep`,
    and that its mode would ignore."""
    left = _OF_COMMANDS | _USED.get(command.mode, set())
    asked, own = command.model_dump(), stored.model_dump()
    names = list(command.given)
    if _EXPERIMENT in names:
        left = left | _DERIVED
        names += flattened(asked)
    for name in names:
        value, known = _value(asked, name), _value(own, name)
        if name.partition(".")[0] in left or value == known:
            continue
        given, kept = hidden(typed(value)), f"{name}={hidden(typed(known))}"
        rule = f"{sweep} has {kept}, and mode={command.mode} goes by what the sweep has"
        nearest = f"{kept}, or another sweep, which mode=run makes of these settings"
        if name == "budget_unit" and command.mode == "analyse":
            nearest = f"analysis.compute_axis={given}"
        raise SettingError(name, given, rule, nearest)


def _value(settings: dict[str, Any], name: str) -> Any:
    """A dotted setting, of a group the name of its choice; None of what was taken away."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value.get("name", value) if isinstance(value, dict) else value
