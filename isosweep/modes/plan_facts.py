"""What a plan could find, what its evaluation takes and what it warns of, in sentences."""

from collections.abc import Iterator

from isosweep.plan.cautions import cautions
from isosweep.plan.study import Study, evaluation_of
from isosweep.words import plan as words


def described_findings(study: Study) -> Iterator[str]:
    """What evaluation takes and what the plan could find, a line each."""
    from isosweep.analysis.outlook import outlook_of_variants

    plan, config = study.plan, study.config
    if config.trainer.name == "command":
        yield words.commanded(config.trainer.command)
    else:
        yield words.evaluation(evaluation_of(study), len(plan.runs))
    yield words.findings(outlook_of_variants(plan, config))


def described_cautions(study: Study) -> Iterator[str]:
    """What the plan warns of, a line each."""
    for each in cautions(study.candidates):
        yield words.caution(each, study.plan.budget_unit)
