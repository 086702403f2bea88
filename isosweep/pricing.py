"""What device time costs, and how far predictions of it may be off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Gt


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """By what device-hours are priced."""

    dollars_per_hour: Annotated[float, Gt(0)] | None = None
    """Of one device; null: not known. US dollars per device-hour."""
    spread: tuple[Annotated[float, Gt(0)], Annotated[float, Gt(0)]] = (1.0, 1.0)
    """Between which multiples of a predicted time the measured one is expected to lie. Factors."""

    def dollars(self, device_hours: float | None) -> float | None:
        """What so many device-hours cost in US dollars; None where either is not known."""
        if self.dollars_per_hour is None or device_hours is None:
            return None
        return self.dollars_per_hour * device_hours


def pricing_from(document: Mapping[str, Any] | None) -> Pricing:
    """What a JSON document has of it; nothing is known by those of earlier versions (None)."""
    if document is None:
        return Pricing()
    return Pricing(dollars_per_hour=document["dollars_per_hour"], spread=tuple(document["spread"]))
