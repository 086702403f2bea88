"""The exceptions that a user can mend; everything else propagates with its traceback."""


class IsosweepError(Exception):
    """Something the user can mend. `exit_status` is what the command line returns for it."""

    exit_status = 2


class SettingError(IsosweepError):
    """A setting has a value that breaks a rule.

    The message names the setting, its value and the rule with its numbers; and the nearest choice
    that works, where planning has found one (a budget, memory), or one that no rule could name.
    """

    def __init__(self, setting: str, value: object, rule: str, nearest: str = "") -> None:
        works = f". Nearest choice that works: {nearest}" if nearest else ""
        super().__init__(f"{setting}={value}: {rule}{works}")
        self.setting, self.value, self.rule, self.nearest = setting, value, rule, nearest


class RefusedError(IsosweepError):
    """A run's processes refuse what they were given, which another try would not mend."""


class PreflightError(IsosweepError):
    """The plan is sound, but this machine lacks something that its runs need."""

    def __init__(self, missing: list[tuple[str, str]]) -> None:
        """`missing` pairs what is not there with what to do about it."""
        lines = [f"  - missing: {what}\n    do: {remedy}" for what, remedy in missing]
        super().__init__("nothing was launched:\n" + "\n".join(lines))
        self.missing = missing


class RecordError(IsosweepError):
    """A file that isosweep wrote does not hold what its format promises; names file and line."""


class TrainerError(IsosweepError):
    """A command that trains a run has ended as it was not to, or says what cannot be."""

    exit_status = 1
