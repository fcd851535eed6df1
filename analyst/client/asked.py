"""What a program asks of a curator, checked before anything is sent."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Final, SupportsIndex

from protos.weir.v1 import run_pb2

MOST_STEPS: Final = 10**9  # of one run


def num_steps_of(value: SupportsIndex) -> int:
    """Return a number of steps.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is below 1 or above a billion.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        msg = f"num_steps must be a whole number such as 1000, not {_what(value)}"
        raise TypeError(msg)
    if not 1 <= number <= MOST_STEPS:
        msg = f"num_steps must be from 1 to {MOST_STEPS:,}, not {number}"
        raise ValueError(msg)
    return number


def text_of(name: str, value: object) -> str:
    """Return a text.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(value, str):
        msg = f"{name} must be a str, not {_what(value)}"
        raise TypeError(msg)
    return value


def choice_of(mechanism: object, parameters: object) -> run_pb2.MechanismChoice:
    """Return a mechanism with its parameters, as they travel.

    Raises:
        TypeError: If they are no mapping, or a value cannot be sent.
        ValueError: If a number is infinite or none.
    """
    wire_name = text_of("mechanism", mechanism)
    if not isinstance(parameters, Mapping):
        msg = f"parameters must be a mapping such as {{'clip_norm': 0.5}}, not {_what(parameters)}"
        raise TypeError(msg)
    for name, value in parameters.items():
        text_of("the name of a parameter", name)
        _check_value(name, value)
    text = json.dumps(dict(parameters), sort_keys=True, allow_nan=False)
    return run_pb2.MechanismChoice(mechanism=wire_name, parameters=text)


def _check_value(name: str, value: object) -> None:
    """Check that JSON can hold a parameter.

    Raises:
        TypeError: If it is neither a number, a text, a list nor a mapping of them.
        ValueError: If a number is infinite or none.
    """
    try:
        json.dumps(value, allow_nan=False)
    except TypeError:
        msg = f"parameter {name} must be made of plain numbers, texts and lists: use float(), int()"
        raise TypeError(msg) from None
    except ValueError:
        msg = f"parameter {name} must be finite and not refer to itself"
        raise ValueError(msg) from None


def _what(value: object) -> str:
    """Return a value in a few words."""
    return f"{type(value).__name__} {value!r}"[:80]
