"""Tables that have no column for each metric: W&B's charts, and long tables of names and values."""

import re
from typing import TYPE_CHECKING, Any

from isosweep.config.study import ImportConfig, columns_of, columns_typed
from isosweep.errors import SettingError
from isosweep.importing.columns import guess_column

if TYPE_CHECKING:
    import pandas

# What exports call the column of metrics' names (MLflow's page: key; TensorBoard's tools: tag;
# pandas.melt: variable; InfluxDB: _field), and that of their values; letters alone.
_NAMES = (
    *("key", "metric", "metricname", "metrickey", "tag", "field", "variable", "series", "measure"),
    "name",
)
_VALUES = ("value", "metricvalue")
# Columns of W&B's charts that are about a curve, and not its values.
_AROUND = ("__MIN", "__MAX", " - _step", " - Step")
# Metrics that a refusal names.
_LISTED = 6


def with_metric_columns(frame: "pandas.DataFrame", config: ImportConfig) -> "pandas.DataFrame":
    """The table with a column for each metric, its rows in their order.

    Raises SettingError where the column of all values is to be read as one quantity.
    """
    names = [str(name) for name in frame.columns]
    if len(names) > 1 and all(" - " in name for name in names[1:]):
        return _of_chart(frame)
    by_letters = {re.sub("[^a-z]", "", name.lower()): name for name in names}
    given = {name: column for name, column in columns_of(config).items() if column in names}
    key = next((by_letters[each] for each in _NAMES if each in by_letters), None)
    value = next((by_letters[each] for each in _VALUES if each in by_letters), None)
    if key is None or value is None or key in given.values() or _is_numbers(frame[key]):
        return frame
    metrics = [name for name in frame[key].dropna().unique() if name not in names]
    for quantity in (name for name, column in given.items() if column == value):
        if len(metrics) == 1:
            return frame
        listed = ", ".join(map(str, metrics[:_LISTED])) + (", ..." if metrics[_LISTED:] else "")
        rule = f"the column {key} says which metric each value is: {listed}"
        likely = guess_column(quantity, [*map(str, metrics)]) or metrics[0]
        raise SettingError(
            f"import.columns.{quantity}", value, rule, columns_typed(quantity, likely)
        )
    columns = {str(name): frame[value].where(frame[key] == name) for name in metrics}
    return frame.drop(columns=[key, value]).assign(**columns)


def _is_numbers(column: Any) -> bool:
    import pandas

    return bool(pandas.api.types.is_numeric_dtype(column))


def _of_chart(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Of an export of W&B's charts, with a column `run - metric` for each curve, a row for each run
    and value of the axis, which keeps its name: it may be a time."""
    import pandas

    axis = str(frame.columns[0])
    by_run: dict[str, dict[str, Any]] = {}
    for name in map(str, frame.columns[1:]):
        if not name.endswith(_AROUND):
            run, _, metric = name.rpartition(" - ")
            by_run.setdefault(run, {})[metric] = frame[name]
    parts = [
        pandas.DataFrame({"run": run, axis: frame[axis], **metrics}).dropna(
            how="all", subset=list(metrics)
        )
        for run, metrics in by_run.items()
    ]
    return pandas.concat(parts, ignore_index=True)
