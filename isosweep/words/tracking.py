"""What MLflow's page of a sweep says, in Markdown: a paragraph or a point of a list a line."""

from typing import TYPE_CHECKING

from isosweep.words import answer as say
from isosweep.words.verdict import headline, reason

if TYPE_CHECKING:
    from isosweep.analysis.answer import Answer


def answer(found: "Answer", label: str = "") -> list[str]:
    """Return the answer of a sweep, or of its variant `label`.

    MLflow shows some five lines before "Show more": the first paragraph has the answer, its
    numbers, what limits it most and its cost.
    """
    first, *others = say.caveats(found) or [""]
    head = f"**{label}{': ' if label else ''}{'. '.join(say.lead(found))}.**"
    paragraph = [head, headline(found), first, f"Spent: {say.spent(found)}."]
    points = [f"**{caveat}**" for caveat in others]
    points.append(f'Why "{found.verdict}": {reason(found)}')
    shown = ("Use", "How sure", "Reward", "Runs", "Next step")
    points += [f"{f.term}: {f.text}" for f in say.facts(found) if f.term in shown]
    lines = [" ".join(filter(None, paragraph)), *(f"- {point}" for point in points)]
    # An interval before brackets would be a link.
    return [line.replace("[", "\\[") for line in lines]
