"""How MLflow's pages show a sweep: which runs, columns and charts, and the link to that.

MLflow has no documented way to ship a view. What its own Share button writes it reads again: a tag
of the experiment, of JSON, that a link names. An MLflow that does not know that form says so and
shows its own view of the same runs.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from isosweep.compute import BudgetUnit
from isosweep.plan.cells import Plan
from isosweep.words.numbers import short

# mlflow.utils.mlflow_tags: which of its views an experiment opens in.
KIND_TAG, TRAINING = "mlflow.experimentKind", "custom_model_development"
# Of the Share button: the experiment's tag, and the link's parameter that names it.
_SHARED_TAG, _SHARED = "mlflow.sharedViewState.", "viewStateShareKey"
REWARD = "heldout/avg_at_k"
# What a chart of reward is drawn against, of what every record has.
COMPUTE: dict[BudgetUnit, str] = {
    "flops": "compute/flops",
    "rollouts": "compute/rollouts",
    "tokens": "compute/tokens",
    "device_hours": "compute/device_seconds",
}
# The same as its logarithm to base 10: MLflow 3.17 has a logarithmic axis for steps alone
# (RunsMetricsLinePlot), and steps are whole numbers below 2^63, which FLOPs are not.
LOG_COMPUTE: dict[BudgetUnit, str] = {
    unit: metric.replace("/", "/log10_") for unit, metric in COMPUTE.items()
}
# For the same reason.
LOG_N = "log2_n"
# What a run has taken, and in the sweep's own run all runs: wall time; dollars if they are known.
TAKEN = ("train_min", "eval_min", "dollars")
# MLflow's limit of an experiment's tag is 5000 characters, which many budgets would exceed.
_MAX_BUDGETS = 8


def budget_metric(budget: float, budgets: Sequence[float]) -> str:
    """The metric that holds a run's reward at `budget`, of characters that MLflow takes:
    reward_1_8.1e10. Its place among `budgets` comes first: names are sorted as text."""
    place = 1 + sum(each < budget for each in budgets)
    return f"reward_{place:0{len(str(len(budgets)))}d}_{short(budget)}"


def varies_in_batch(plan: Plan) -> bool:
    """Whether the plan has several B: a view shows a constant once, with the sweep."""
    return len({run.problems_per_batch for run in plan.runs}) > 1


def sweep_filter(plan: Plan) -> str:
    """MLflow's filter of the sweep's runs: by the plan's id alone, since a directory's name may
    hold quotes that a filter cannot."""
    return f"tags.`isosweep.sweep` LIKE '%@{plan.plan_id}'"


def experiment_tags(plan: Plan) -> dict[str, str]:
    """Tags of the experiment that `link` rests on."""
    return {KIND_TAG: TRAINING, _SHARED_TAG + _key(plan): json.dumps(_state(plan))}


def link(address: str, experiment_id: str, plan: Plan, token: str = "") -> str:
    """Where a server at `address` shows the sweep's runs as a table, sorted by n, B and seed; to
    whoever has `token`, where it asks for one."""
    query = urlencode({"workflowType": "machine_learning", _SHARED: _key(plan)})
    asked = f"?token={token}" if token else ""
    return f"{address.rstrip('/')}/{asked}#/experiments/{experiment_id}/runs?{query}"


def _key(plan: Plan) -> str:
    return f"isosweep-{plan.plan_id}"


def _state(plan: Plan) -> dict[str, Any]:
    axis = {
        "xAxisKey": "metric",
        "selectedXAxisMetricKey": LOG_COMPUTE[plan.budget_unit],
        "lineSmoothness": 0,
    }
    rewards = [budget_metric(each, plan.budgets) for each in plan.budgets[-_MAX_BUDGETS:]]
    taken = TAKEN if plan.pricing.dollars_per_hour else TAKEN[:-1]
    columns = {
        **{f"metrics.`{name}`": 140 for name in rewards},
        **{f"metrics.`{name}`": 90 for name in taken},
        **{f"tags.`{name}`": 110 for name in ("status", "on_frontier", "verdict")},
    }
    # The table's own columns, by the names that MLflow's pages have for them.
    own = {"attributes.`Run Name`": 210, "runDateAndNestInfo": 155, "duration": 90}
    return {
        "searchFilter": sweep_filter(plan),
        "orderByKey": "tags.`mlflow.runName`",
        "orderByAsc": True,
        "selectedColumns": ["attributes.`Duration`", *columns],
        "columnOrder": [*own, *columns],
        "columnWidths": own | columns,
        "globalLineChartConfig": axis,
        "runsHiddenMode": "SHOW_ALL",
        **_charts(plan, axis),
    }


def _charts(plan: Plan, axis: dict[str, Any]) -> dict[str, Any]:
    """The charts that a sweep is about, and closed below them those that MLflow makes of every
    metric: each open one asks for the histories of up to 100 runs."""
    section = "isosweep-reward"
    shared = {"metricSectionId": section, "deleted": False, "isGenerated": False}
    line = shared | {
        **axis,
        "uuid": "isosweep-reward-by-compute",
        "type": "LINE",
        "runsCountToCompare": 10,
        "metricKey": REWARD,
        "selectedMetricKeys": [REWARD],
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": True,
    }
    last = budget_metric(plan.budgets[-1], plan.budgets)
    points = shared | {
        "uuid": "isosweep-reward-by-n",
        "type": "SCATTER",
        "runsCountToCompare": 100,
        "xaxis": {"key": LOG_N, "type": "METRIC"},
        "yaxis": {"key": last, "type": "METRIC"},
    }
    heading = {"name": " reward", "uuid": section, "display": True, "isReordered": False}
    heading |= {"columns": 2, "cardHeight": 420}
    others = [
        {"name": name, "uuid": f"isosweep-{name}", "display": False, "isReordered": False}
        for name in ("compute", "heldout", "sweep", "train", "Model metrics", "System metrics")
    ]
    return {
        "compareRunCharts": [line, points],
        "compareRunSections": [heading | {"isGenerated": False, "deleted": False}, *others],
    }
