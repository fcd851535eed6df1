"""Numbers of a described run, each checked before any accountant is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from curator.privacy.event import SamplingRate

_LARGEST: Final = 1e18
_OPTIONS: Final = {
    "nominal_size": ", or give --nominal-size (that a batch size refers to)",
    "dimension": ", or give --dimension (pixels and classes of a row)",
    "capacity": ", or give --capacity (slots of the data set)",
}


def need(parameters: Mapping[str, Any], key: str) -> Any:
    """Return a parameter.

    Raises:
        ValueError: If it is missing.
    """
    if parameters.get(key) is None:
        msg = f'{key} is missing: add it to the table "parameters"' + _OPTIONS.get(key, "")
        raise ValueError(msg)
    return parameters[key]


def number(parameters: Mapping[str, Any], key: str) -> float:
    """Return a numeric parameter.

    Raises:
        ValueError: If it is missing, not a number or absurdly large.
    """
    value = need(parameters, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{key} must be a number"
        raise ValueError(msg)  # noqa: TRY004
    if not abs(value) <= _LARGEST:  # NaN fails too
        msg = f"{key} must be finite and at most {_LARGEST:g}"
        raise ValueError(msg)
    return value


def rate(parameters: Mapping[str, Any]) -> SamplingRate:
    """Return the sampling rate, as it is given or from a batch size.

    Raises:
        ValueError: If neither is given, or a number is not valid.
    """
    if parameters.get("sampling_rate") is not None:
        return SamplingRate.at_least(number(parameters, "sampling_rate"))
    size = number(parameters, "nominal_size") if "expected_batch_size" in parameters else 0
    if not size > 0:
        msg = "give sampling_rate, or expected_batch_size with nominal_size (--nominal-size)"
        raise ValueError(msg)
    return SamplingRate.at_least(number(parameters, "expected_batch_size") / size)
