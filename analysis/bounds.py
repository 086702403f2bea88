"""Numbers within bounds, as the fields of `answer.json` have them."""

from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt, MinLen

Share = Annotated[float, Ge(0), Le(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
# Of intervals.
Confidence = Annotated[float, Gt(0.5), Lt(1)]
Count = Annotated[int, Ge(0)]
AtLeastOne = Annotated[int, Ge(1)]
Sentence = Annotated[str, MinLen(1)]
