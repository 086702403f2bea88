"""What to use, how sure that is, what was spent and what comes next, over an Answer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from isosweep import evidence
from isosweep.words.numbers import (
    amount,
    interval,
    ns,
    ns_and,
    percent,
    plural,
    price,
    short,
    tally,
)
from isosweep.words.plan import lacks
from isosweep.words.verdict import (
    all_fell,
    capitalized,
    chance,
    finding,
    judged,
    measure,
    new_problems,
    reason,
)

if TYPE_CHECKING:
    from pathlib import Path

    from isosweep.analysis.answer import Answer, Caveat, Cost, NamedRun, NextStep, Rise, Runs, Use
    from isosweep.analysis.statistics.best_batch import BatchLaw


class Fact(NamedTuple):
    """A line of the answer; `link`: the section of the report that shows more."""

    term: str
    text: str
    detail: str = ""
    link: str | None = None


def facts(answer: "Answer") -> list[Fact]:
    """Return what follows the verdict: setting, doubts, reward, cost, runs and next step."""
    use, rise = answer.use, answer.reward
    found = [Fact("Use", nothing_to_use(answer))]
    if use and rise:
        seeds = f"{plural(use.num_seeds, 'seed')} of n = {use.num_generations} measured"
        fallen = f", {use.num_fallen} more collapsed" if use.num_fallen else ""
        reward = f"{rise.reward:.3f} {'expected' if rise.expected else 'measured'}"
        if rise.expected and use.interval:
            low, high = use.interval
            reward += f" ({low:.3f} to {high:.3f}, {answer.confidence:.0%} interval)"
        if answer.evaluation_set:
            reward += f" for the evaluation set {answer.evaluation_set}"
        before = "" if rise.before is None else f", {rise.before:.3f} before training"
        found = [
            Fact("Use", setting(use), _use_detail(answer, use), "best-n"),
            Fact("How sure", sure(answer, use), seeds + fallen, "best-n"),
            Fact("Reward", reward + before, _reward_detail(answer, use, rise), "reward"),
        ]
    found.append(Fact("Cost", spent(answer), _left(answer)))
    found.append(Fact("Runs", runs(answer), _health(answer.runs), "runs"))
    if steps := next_steps(answer):
        found.append(Fact("Next step", steps[0], " ".join(steps[1:])))
    return found


# Whether n grows with compute, by verdict.
_GROWS = {
    "saturated": "it grew, and has stopped",
    "probably saturated": "it grew, and has probably stopped",
    "growing": "yes",
    "probably growing": "probably yes",
    "grew": "it grew; whether it has stopped is undecided",
    "fell": "no, it fell",
    "constant": "no",
    "steady": "not from {since} on",
    "n does not matter": "no, every n of the grid is good enough",
    "not identified": "undecided",
}
# Why that is undecided where too little was measured, by kind of reason.
_TOO_LITTLE = {
    "no record": "no run has reached a budget",
    "all fell": "every run has collapsed",
    "few n": "only {n} measured so far",
    "few budgets": "too few budgets",
    "one seed": "only one seed",
    "no spread": "no spread between seeds",
}


def lead(answer: "Answer") -> tuple[str, str]:
    """Return the two short lines that everything begins with: what to use and what that brings,
    and whether n grows with compute."""
    use, rise = answer.use, answer.reward
    first = capitalized(nothing_to_use(answer))
    if use and rise:
        before = "" if rise.before is None else f"{rise.before:.3f} -> "
        first = f"Use n = {use.num_generations}: reward {before}{rise.reward:.3f}"
    since = amount(answer.growth.steady_from, answer.budget_unit) if answer.growth else ""
    grows, why = _GROWS[answer.verdict].format(since=since), answer.reason
    if why.kind in _TOO_LITTLE:
        grows += f" ({_TOO_LITTLE[why.kind].format(n=ns(why.measured))})"
    elif (others := new_problems(answer)) and answer.verdict != "not identified":
        grows += f" (on these {others.num_problems:,} held-out problems)"
    return first, f"Does n grow with compute: {grows}"


def analysis(answer: "Answer", report: "Path") -> list[str]:
    """Return what `mode=analyse` prints: `lead`, the verdict and what limits it, and `facts`."""
    lines = [*lead(answer), f"verdict: {answer.verdict}. {finding(answer)}"]
    lines += [f"why: {measure(answer) or reason(answer)}"] if answer.generations else []
    lines += [f"but: {each}" for each in caveats(answer)]
    for each in facts(answer):
        lines.append(f"{each.term.lower()}: {each.text}")
        if each.detail:
            lines[-1] = f"{lines[-1].removesuffix('.')}. {capitalized(each.detail)}"
    return [*lines, *best_batches(answer), f"report: {report}"]


def nothing_to_use(answer: "Answer") -> str:
    """Return why no setting is recommended."""
    if answer.reason.kind == "all fell" or answer.reason.fell:
        return f"nothing to recommend: {all_fell(answer)}"
    return "nothing to recommend yet: no run has reached a budget"


def setting(use: "Use") -> str:
    """Return the setting to use: n = 16, B = 16, T = 100."""
    return f"n = {use.num_generations}, B = {use.problems_per_batch}, T = {use.num_steps}"


def _budget(answer: "Answer", use: "Use") -> str:
    """Return the budget to use, and why it is not the plan's largest."""
    limit = {
        "plan": "",
        "behind": f", the largest budget at which {ns_and(answer.behind or [0])} was also read",
        "lost": ", the largest budget at which some run still has its gain",
        "reached": ", the largest budget that any run has reached",
    }
    return f"{amount(use.budget, answer.budget_unit)}{limit[use.limit]}"


def _both_n(answer: "Answer") -> list[str]:
    at, sentences = answer.optimum, list[str]()
    if at and at.n_star:
        sentences.append(f"n* (the best n, also between those of the grid): {at}.")
    if at and at.n_d:
        sentences.append(f"n_d (the smallest n that is good enough): {at.n_d}.")
    return sentences


def _use_detail(answer: "Answer", use: "Use") -> str:
    here = answer.chosen_from()
    lacking = here.missing if use.limit != "behind" else ()
    each = f"{use.num_generations} rollouts for each of {plural(use.problems_per_batch, 'problem')}"
    steps = plural(use.num_steps, "step")
    sentences = [f"{each} a step, {steps}, at {_budget(answer, use)}."]
    if use.probability_best is not None:
        compared = [each.num_generations for each in here.choices]
        among = f"of {ns(compared)}" if lacking else "n of the grid"
        odds = chance(use.probability_best)
        sentences.append(f"Probability that n = {use.num_generations} is the best {among}: {odds}.")
    if lacking:
        sentences.append(f"Not read there: {ns(lacking)}.")
    sentences += _both_n(answer)
    return " ".join(sentences)


def sure(answer: "Answer", use: "Use") -> str:
    """Return which other n may be as good, and what the neighbours of the best cost."""
    best, sentences, here = f"n = {use.num_generations}", list[str](), answer.chosen_from()
    others = [each for each in here.choices if each.num_generations != use.num_generations]
    as_good = [each.num_generations for each in others if each.indistinguishable]
    if not others:
        if here.missing or not here.fell:
            only = "No other n was measured at this budget"
            sentences.append(f"{only}, so it is not established how good {best} is.")
    elif use.expected is None:
        unknown = "The spread between seeds is not known"
        sentences.append(f"{unknown}, so no n can be distinguished from {best}.")
    elif as_good:
        sentences.append(f"{ns_and(as_good)} cannot be distinguished from {best}.")
    else:
        sentences.append("Every other n measured at this budget is worse.")
    below = [each for each in others if each.num_generations < use.num_generations]
    above = [each for each in others if each.num_generations > use.num_generations]
    costs = [
        f"n = {each.num_generations} at most {each.loss_upper:.3f}"
        for each in (*below[-1:], *above[:1])
        if each.loss_upper is not None
    ]
    if costs:
        loses = costs[0].replace(" at most", " loses at most", 1) + " of reward"
        sentences.append(f"{', '.join([loses, *costs[1:]])} ({answer.confidence:.0%} confidence).")
    if here.fell:
        sentences.append(f"All runs of {ns_and(here.fell)} had collapsed by then.")
    return " ".join(sentences)


def _reward_detail(answer: "Answer", use: "Use", rise: "Rise") -> str:
    sentences = []
    if was := rise.earlier:
        brought = f"brought {'' if was.gain > 0 else 'nothing, '}{was.gain:+.3f}"
        if answer.behind and use.limit != "behind":
            brought = "brought a gain that is not established while other n have no records there"
        then = f"at {amount(was.budget, answer.budget_unit)} it was {was.reward:.3f}"
        last = f"The last {short(was.factor)}x of compute {brought}"
        sentences.append(f"{last}: {then}, with n = {was.num_generations}.")
    if best := rise.coverage:
        solved = f"Share of problems with a right answer among {best.k} samples (best@{best.k})"
        left_out = "; collapsed runs left out" if use.num_fallen else ""
        sentences.append(f"{solved}: {best.now:.3f}, {best.before:.3f} before{left_out}.")
    return " ".join(sentences)


def spent(answer: "Answer") -> str:
    """Return device time of training and evaluation, its price, and the compute of training."""
    used = answer.spent
    compute = f"{amount(used.compute, answer.budget_unit)} of training"
    if not (hours := (used.device_hours or 0) + (used.evaluation_hours or 0)):
        return compute
    share = percent((used.evaluation_hours or 0) / hours)
    time = price(hours, answer.pricing, predicted=False)
    return f"device time {time} ({share} evaluation); {compute}"


def _left(answer: "Answer") -> str:
    """Return how much of the planned training is left."""
    left = amount(answer.spent.left, answer.budget_unit)
    if not answer.spent.left:
        return "nothing is left to train"
    searched = {None: "left to train", "on": "not trained yet", "over": "left out by the search"}
    return f"{left} of the plan are {searched[answer.spent.search]}"


def runs(answer: "Answer") -> str:
    """Return how many runs stand how."""
    found = answer.runs
    return f"{found.total} runs: {tally(found.standings, found.collapsed)}"


def _health(found: "Runs") -> str:
    """Return which runs showed no rise or broke rules of health, as far as that is known."""
    parts, of = [], f"of {found.trained} runs"
    if found.flat:
        parts.append(f"{found.flat} of {found.fitted} show no rise above noise")
    if found.warned:
        broken = (f"{e.rule} in {e.runs} {of}{_named(e.named)}" for e in found.warned)
        parts.append(f"health warnings: {', '.join(broken)}")
    elif found.trained > found.too_short + found.without_metrics:
        parts.append("no health warnings")
    if found.without_metrics:
        parts.append(f"health not known in {found.without_metrics} {of}: no metrics of steps")
    if found.too_short:
        parts.append(f"{found.too_short} {of} are shorter than the {found.window} steps of a rule")
    return "; ".join(parts)


def _named(runs: "Iterable[NamedRun]") -> str:
    named = [f"n = {r.num_generations}, B = {r.problems_per_batch}, seed {r.seed}" for r in runs]
    return f" ({'; '.join(named)})" if named else ""


def add_n(n: int, settings: Mapping[str, Sequence[int]]) -> str:
    """Return how a further n joins the grid, or that it does not."""
    if not settings:
        return f"n = {n}, which the grid's rules keep out (`plan.csv` has the reasons)"
    added = (f"grid.{name}=[{','.join(map(str, values))}]" for name, values in settings.items())
    return f"{' '.join(added)} (finished runs are kept)"


def _cost(answer: "Answer", cost: "Cost | None") -> str:
    if cost is None:
        return ""
    about = f": about {amount(cost.compute, answer.budget_unit)}"
    if cost.device_hours is None:
        return about
    return f"{about}, device time {price(cost.device_hours, answer.pricing, predicted=False)}"


def next_steps(answer: "Answer") -> list[str]:
    """Return the first of the next steps as a phrase, then why, and the others in sentences."""
    lines = []
    for number, step in enumerate(answer.next_steps):
        what, why = _next_step(answer, step)
        lines.append(f"Then: {what}." if number and why else capitalized(what) if number else what)
        lines += [why] if why else []
    return lines


def _next_step(answer: "Answer", step: "NextStep") -> tuple[str, str]:
    """Return what to do, and why."""
    match step.kind:
        case "recipe":
            what = "a recipe whose runs do not collapse, e.g. a smaller recipe.learning_rate"
            less = "All runs collapsed: larger evaluations and more runs of this recipe show little"
            return what, f"{less}."
        case "go on":
            budget = amount(step.budget, answer.budget_unit)
            what = f"train the runs of {ns(step.n)} up to {budget} and evaluate them there"
            return what + _cost(
                answer, step.cost
            ), f"No other step shows as well where {judged(answer)} lies."
        case "add n":
            assert step.end is not None
            where = f"may lie {step.end.kind} n = {step.end.edge}"
            why = f"{capitalized(judged(answer))} {where}, and no other step shows that."
            return add_n(step.n, step.settings) + _cost(answer, step.cost), why
        case "more problems":
            what = f"{step.problems:,} held-out problems"
            what += f" ({step.setting})" if step.setting else ", more than the task has"
            takes = "All runs start again from step 0."
            if step.setting is None:
                takes = "It takes a larger source of problems."
            return what + _cost(answer, step.cost), (
                "This could establish the trend for new problems of this kind. The choice of the "
                f"{step.num_problems:,} held-out problems now adds {step.added:.1f} times as much "
                f"variance as the seeds do, and only more problems reduce that. {takes}"
            )
        case "enlarge":
            what = f"at least {lacks(step.lacks)}"
            return what, 'Every verdict but "not identified" takes that.'
        case "single runs":
            what = "which runs to add, with the value and price of each (trains nothing)"
            return f"{what}: python -m isosweep mode=next {step.sweep}", ""


def caveats(answer: "Answer") -> list[str]:
    """Return what the verdict and the setting must not be read without, a line each."""
    return [_caveat(answer, each) for each in answer.caveats]


def _caveat(answer: "Answer", each: "Caveat") -> str:
    unit = answer.budget_unit
    match each.kind:
        case "new problems":
            open_ = each.verdict == "not identified"
            trend = f'the verdict is "{each.verdict}"'
            trend = "the trend is not established" if open_ else trend
            these = f"the answer is for these {each.num_problems:,} held-out problems"
            return f"For new problems of this kind {trend}: {these}."
        case "no gain":
            last = f"The last {short(each.factor)}x of compute"
            return f"{last} brought no reward ({each.gain:+.3f})."
        case "edge":
            end = "largest" if each.end.kind == "above" else "smallest"
            fell = f"; all runs of {ns(each.end.n)} collapsed"
            why = fell if each.end.n else f", the {end} n that was run"
            where = f"{judged(answer)} may lie {each.end.kind} n = {each.end.edge}"
            return f"Edge of the grid: {where}{why}."
        case "behind":
            near = f"no run of {ns(each.n)} has records near {amount(each.budget, unit)}"
            return f"Not trained or not evaluated as far: {near}."
        case "unread":
            ends = f"{short(each.gap.low)} and {amount(each.gap.high, unit)}"
            few = "No records" if each.gap.empty else "Too few records"
            return f"{few} between {ends}, so what n does there is not known."
        case "coarse margin":
            share = f"{each.margin / each.gain:.0%} of the whole gain of {each.gain:.3f}"
            margin = f"analysis.margin={each.gain / 20:.1g}"
            return (
                f"The margin of {each.margin:g} is {share}, so n_d may be far below the best n. "
                f"Set {margin} to judge it by 5% of the gain."
            )
        case "best moves":
            first, last = (f"{at} at {amount(at.budget, unit)}" for at in (each.first, each.last))
            judges = "analysis.quantity=best judges it"
            why = "what each n loses grows with the gain"
            moved = f"does change: from {first} to {last} ({judges})"
            rests = f"shows no change: {first}, {last} ({why}; {judges})"
            return f"The best n, n*, {moved if each.moves else rests}."
        case "collapsed":
            of = (f"{n.collapsed} of {n.runs} with n = {n.num_generations}" for n in each.fallen)
            return f"Collapsed runs: {', '.join(of)}."
        case "broken records":
            count = plural(len(each.records), "record")
            first = f"{_named([each.records[0].run])[2:-1]}, step {each.records[0].step}"
            text = f"Left out: {count} far from those beside them in the run (first: {first})"
            return f"{text}. Check that evaluation."
        case "searched":
            runs = f"{each.begun} of {each.runs} runs, {each.share:.0%} of the grid's compute"
            return (
                f"A search chose what was trained: {runs}. Verdicts of searches have been tested "
                "far less in simulation than those of grids."
            )
        case "rewards only":
            single = f"; {each.single} (n, B) have one seed, which shows no spread"
            return (
                f"{each.runs} runs have rewards alone, without successes of single problems. "
                "Intervals rest on the spread between seeds, since records of one run are "
                f"correlated{single if each.single else ''}."
            )


def best_batches(answer: "Answer") -> list[str]:
    """Return how the best B goes with compute, a line for each n x B that the grid fixes."""
    return [_best_batch(answer, law) for law in answer.batch_laws]


def _best_batch(answer: "Answer", law: "BatchLaw") -> str:
    unit, product = answer.budget_unit, law.completions_per_step
    ends = [law.optima[0], law.optima[-1]] if len(law.optima) > 1 else law.optima
    found = " and ".join(f"{at} at {amount(at.budget, unit)}" for at in ends)
    text = f"At n x B = {product} the best B is {found}"
    if law.slope is None or law.since is None:
        why = (
            f"at {short(law.open_at or 0)}, one of the largest budgets, B* may lie beyond the grid"
        )
        if law.lacks == "no spread":
            why = "the spread between seeds is not known"
        elif law.lacks == "few budgets":
            read = f"{len(law.optima)} were read"
            why = f"a slope takes {evidence.MIN_BUDGETS} budgets, and {read}"
        return f"{text}. How it changes with compute is not established: {why}."
    slope, since = law.slope, amount(law.since, unit)
    does = "rises" if slope.low > 0 else "changes"
    by = str(slope)
    if slope.high < 0:
        does, by = "falls", interval(-slope.median, -slope.high, -slope.low)
    return f"{text}: it {does} by {by} doublings per decade from {since} on."
