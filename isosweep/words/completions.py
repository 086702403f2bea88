"""Signs that rewards are gamed, in sentences."""

from typing import TYPE_CHECKING

from isosweep.words.numbers import few, short

if TYPE_CHECKING:
    from isosweep.analysis.completions import Sign


def sign(found: "Sign") -> str:
    """Return what answers of one n do, with the rule's numbers."""
    n, before, after = f"n = {found.num_generations}", found.before, found.after
    reward = f"reward {short(found.reward)} at the end"
    match found.kind:
        case "length":
            change = "lengthen" if after > before else "shorten"
            return (
                f"Rewarded answers of {n} {change} from {few(before)} to {few(after)} tokens "
                f"(medians; {reward})."
            )
        case "no reasoning":
            return (
                f"Rewarded answers of {n} have {few(after)} tokens (median), where the prompt asks "
                f"for reasoning ({reward})."
            )
        case "limit":
            return (
                f"{after:.0%} of the rewarded answers of {n} are cut at the limit of tokens "
                f"({before:.0%} before training; {reward})."
            )
        case "no reference":
            return (
                f"{after:.0%} of the rewarded answers of {n} do not contain the reference answer "
                f"({before:.0%} before training; {reward})."
            )
        case "repeated":
            return f"One answer of {n} is given to {after:.0%} of the problems ({reward})."
        case "several answers":
            return (
                f"{after:.0%} of the rewarded answers of {n} offer several final answers "
                f"({before:.0%} before training; {reward})."
            )
        case "training only":
            return (
                f"Reward in training gained {short(before)} with {n}, held-out reward "
                f"{short(after)}."
            )
