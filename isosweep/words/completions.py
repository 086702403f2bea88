"""Signs that rewards are gamed, in sentences."""

from typing import TYPE_CHECKING

from isosweep.words.numbers import few, short

if TYPE_CHECKING:
    from isosweep.analysis.completions import Sign

# What a share of the rewarded answers of an n does, by kind of sign.
_HABITS = {
    "limit": "are cut at the limit of tokens",
    "several answers": "offer several final answers",
    "no reference": "do not contain the reference answer",
}


def sign(found: "Sign") -> str:
    """Return what answers of one n do, with the rule's numbers."""
    n, before, after = f"n = {found.num_generations}", found.before, found.after
    reward = f"reward {short(found.reward)} at the end"
    first = f"{few(before or 0.0)} to {few(after)} tokens"
    match found.kind:
        case "length":
            change = "lengthen" if after > (before or 0.0) else "shorten"
            return f"Rewarded answers of {n} {change} from {first} (medians; {reward})."
        case "no reasoning":
            tokens = f"{few(after)} tokens (median)"
            asks = "where the prompt asks for reasoning"
            return f"Rewarded answers of {n} have {tokens}, {asks} ({reward})."
        case "repeated":
            problems = f"{after:.0%} of the problems, whose references differ"
            return f"One answer of {n} is rewarded for {problems} ({reward})."
        case "training only":
            gains = f"gained {short(before or 0.0)} with {n}, held-out reward {short(after)}"
            return f"Reward in training {gains}."
        case _:
            share = "" if before is None else f"{before:.0%} before training; "
            does = _HABITS[found.kind]
            return f"{after:.0%} of the rewarded answers of {n} {does} ({share}{reward})."
