"""Signs that rewards are gamed, in sentences."""

from typing import TYPE_CHECKING

from isosweep.words.numbers import few, short

if TYPE_CHECKING:
    from isosweep.analysis.completions import Sign

# Of what a share is, by kind of sign.
_SHARES = {
    "limit": "of the rewarded answers of {n} are cut at the limit of tokens",
    "no reference": "of the rewarded answers of {n} do not contain the reference answer",
    "repeated": "of the problems have one rewarded answer of {n} in common, though their references"
    " differ",
    "several answers": "of the rewarded answers of {n} offer several final answers",
}


def sign(found: "Sign") -> str:
    """Return what answers of one n do, with the rule's numbers."""
    n, before, after = f"n = {found.num_generations}", found.before or 0.0, found.after
    reward = f"reward {short(found.reward)} at the end"
    match found.kind:
        case "length":
            change = "lengthen" if after > before else "shorten"
            tokens = f"from {few(before)} to {few(after)} tokens"
            return f"Rewarded answers of {n} {change} {tokens} (medians; {reward})."
        case "no reasoning":
            asks = "where the prompt asks for reasoning"
            return f"Rewarded answers of {n} have {few(after)} tokens (median), {asks} ({reward})."
        case "training only":
            gap = f"{short(after)} at the end, {short(before)} at the beginning"
            return f"Reward in training minus held-out reward of {n}: {gap}."
        case _:
            share = "" if found.before is None else f"{before:.0%} before training; "
            return f"{after:.0%} {_SHARES[found.kind].format(n=n)} ({share}{reward})."
