"""Advice of every kind, as a document: what advise.j2 is rendered from."""

from dataclasses import asdict, replace

from isosweep.analysis.advice.advise import (
    Advice,
    Chosen,
    DecidingSweep,
    Difference,
    Disagreement,
    SourceAnswer,
)
from isosweep.analysis.advice.sources import Point, Source
from isosweep.files import to_json
from tests.words.answers import OUTLOOKS, PRICING

LAW = Source(
    name="a law",
    citation="its paper, figure 1",
    url="https://example.org",
    kind="law",
    model="lab/model-7b",
    parameters=7e9,
    task="mathematics, easy problems",
    tasks=("math",),
    difficulty="easy",
    unit="rollouts",
    range=(1e5, 4e6),
    n_range=(8, 2048),
    problems_per_batch=(32, 1024),
    form="sigmoid",
    note="It has a note.",
)
ADVICE_SOURCE = replace(
    LAW,
    name="advice",
    kind="recommendation",
    model="its own",
    parameters=1e9,
    unit="device_hours",
    hardware="GB200",
    range=(1500.0, 1500.0),
    problems_per_batch=(48, 48),
    form="points",
    points=(Point(compute=1500.0, n=16),),
)
UNKNOWN = replace(
    LAW, name="of unknown compute", model=None, range=None, problems_per_batch=None, note=None
)
STATEMENT = replace(UNKNOWN, name="a statement", form=None, note="n does not matter.")
SOURCES = {each.name: to_json(asdict(each)) for each in (LAW, ADVICE_SOURCE, UNKNOWN, STATEMENT)}
ANSWERED = SourceAnswer(
    name="a law",
    compute=1e6,
    unit="rollouts",
    beyond=0.0,
    n=117.7,
    low=None,
    high=None,
    comparable=True,
    differences=(),
)
ANSWERS = (
    ANSWERED,
    replace(
        ANSWERED,
        name="advice",
        unit="device_hours",
        beyond=-0.31,
        n=16.0,
        low=8.0,
        high=32.0,
        differences=(
            Difference(kind="model", there="its own", here="qwen-7b", ratio=7.6),
            Difference(kind="hardware", there="GB200", here="h100"),
        ),
    ),
    replace(
        ANSWERED,
        name="of unknown compute",
        beyond=None,
        n=2.0,
        comparable=False,
        differences=(
            Difference(kind="task", there="mathematics, easy problems", here="sort"),
            Difference(kind="difficulty", there="easy", here="all"),
            Difference(kind="model", there="lab/model-7b", here="tiny", ratio=0.1),
        ),
    ),
    replace(ANSWERED, name="a statement", n=None, beyond=None),
)
SWEEP = DecidingSweep(
    command="python -m isosweep budget=5e19",
    budget=5e19,
    share=0.5,
    doublings=2.2,
    num_generations=(4, 16, 64, 256),
    stride=2,
    left_out={1024: "grid.min_steps"},
    problems_per_batch=32,
    runs=8,
    flops=4e20,
    device_hours=770.0,
    pricing=PRICING,
    finds=OUTLOOKS[2],
)
ADVICE = Advice(
    budget=1e20,
    budget_unit="flops",
    model="qwen-7b",
    task="math",
    amounts={"flops": 1e20, "rollouts": 2.73e6, "tokens": 1.5e9, "device_hours": 188.0},
    answers=ANSWERS,
    disagreement=Disagreement(
        basis="in range",
        comparable=True,
        beyond=0.0,
        sources=("a law", "advice"),
        smallest=Chosen(name="advice", n=16.0),
        largest=Chosen(name="a law", n=117.7),
        doublings=2.88,
        between=32,
    ),
    sweep=SWEEP,
    refused=None,
)
AGREEING = replace(
    ADVICE,
    disagreement=replace(
        ADVICE.disagreement,
        basis="nearest",
        beyond=0.31,
        largest=Chosen(name="a law", n=16.1),
        doublings=0.01,
    ),
    sweep=replace(SWEEP, share=1.0, stride=1, left_out={}, finds=OUTLOOKS[1]),
)
ALONE = replace(
    AGREEING,
    disagreement=replace(AGREEING.disagreement, sources=("advice",)),
    sweep=None,
    refused="none of 5 candidates is feasible",
)
NOT_COMPARABLE = replace(
    ADVICE, task="code", disagreement=replace(ADVICE.disagreement, comparable=False)
)
ADVICES = [to_json(asdict(each)) for each in (ADVICE, AGREEING, ALONE, NOT_COMPARABLE)]
