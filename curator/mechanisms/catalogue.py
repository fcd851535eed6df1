"""The mechanisms that can be asked for by name, and the reading of their parameters.

Everything here happens before a charge and reads the request and public facts only.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from curator.errors import MalformedRequest
from curator.mechanisms.adversarial_dp_sinkhorn import AdversarialDpSinkhorn
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.dp_cgan import DpCgan
from curator.mechanisms.dp_merf_ae import DpMerfAe
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.mechanisms.dp_swd import DpSwd
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.mechanisms.g_pate import GPate
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.linear_teacher import LinearTeacher
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.mechanisms.pate_gan import PateGan
from curator.mechanisms.score import Score
from curator.mechanisms.specification import Specification, canonical_json
from curator.mechanisms.votes import Votes
from curator.privacy.batches import ImageSpace
from curator.validation_errors import in_plain_words

__all__ = [
    "MAX_PARAMETER_BYTES",
    "MECHANISMS",
    "canonical_json",
    "mechanism_names",
    "parameter_schema",
    "parse_mechanism",
    "read_specification",
]

MECHANISMS: Final[tuple[type[ServedMechanism], ...]] = (
    AdversarialDpSinkhorn,
    DpCgan,
    DpMerfAe,
    DpSinkhorn,
    DpSwd,
    DpSwdFeatures,
    FeatureStatistics,
    GPate,
    GsWganDecoupled,
    GsWganMean,
    GsWganRoundRobin,
    LinearTeacher,
    MeanEmbedding,
    PateGan,
    Score,
    Votes,
)
"""Every mechanism that is offered; the contract test takes each of them from here."""

MAX_PARAMETER_BYTES = 16 * 1024

_BY_NAME: Final = {mechanism.name: mechanism for mechanism in MECHANISMS}
_MAX_PROBLEMS = 8
_SPEAKABLE = re.compile(r"[A-Za-z0-9_]{1,40}")


def mechanism_names() -> tuple[str, ...]:
    """Return the wire names of all mechanisms, sorted.

    Privacy:
        Public constants.
    """
    return tuple(sorted(_BY_NAME))


def parameter_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a mechanism's parameters.

    Raises:
        MalformedRequest: If there is no such mechanism.

    Privacy:
        Public constants.
    """
    return _named(name).specification.model_json_schema()


def parse_mechanism(name: str, parameters_json: str, space: ImageSpace) -> ServedMechanism:
    """Return the mechanism that a request asks for.

    Args:
        name: Wire name.
        parameters_json: A JSON object of at most 16 KiB; duplicate keys, NaN and infinities are
            refused.
        space: Public image space of the data set.

    Returns:
        A mechanism ready to be charged for.

    Raises:
        MalformedRequest: With the path of each wrong field and the rule it breaks; values are
            never repeated.

    Privacy:
        Reads the request and public facts only.
    """
    mechanism = _named(name)
    _check_text(parameters_json)
    return mechanism(read_specification(name, parameters_json), space)


def read_specification(name: str, parameters_json: str) -> Specification:
    """Return the parameters of a run that is open, without making its mechanism.

    Raises:
        MalformedRequest: If they do not fit, as after an earlier version.

    Privacy:
        Reads what was requested only.
    """
    try:
        return _named(name).specification.model_validate_json(parameters_json, strict=True)
    except ValidationError as invalid:
        raise MalformedRequest(_describe(invalid)) from None


def _named(name: str) -> type[ServedMechanism]:
    """Look a wire name up.

    Raises:
        MalformedRequest: If there is no such mechanism.

    Privacy:
        Reads the request only.
    """
    mechanism = _BY_NAME.get(name)
    if mechanism is None:
        detail = f"mechanism: expected one of {', '.join(mechanism_names())}"
        raise MalformedRequest(detail)
    return mechanism


def _check_text(parameters_json: str) -> None:
    """Refuse text that is long, not JSON, or says something twice.

    Raises:
        MalformedRequest: With the rule that is broken.

    Privacy:
        Reads the request only.
    """
    if len(parameters_json) > MAX_PARAMETER_BYTES or (
        len(parameters_json.encode("utf-8", "surrogatepass")) > MAX_PARAMETER_BYTES
    ):
        detail = f"parameters: at most {MAX_PARAMETER_BYTES} bytes"
        raise MalformedRequest(detail)
    try:
        parsed = json.loads(
            parameters_json, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        detail = "parameters: not valid JSON"
        raise MalformedRequest(detail) from None
    if not isinstance(parsed, dict):
        detail = "parameters: expected an object"
        raise MalformedRequest(detail)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object whose keys differ.

    Raises:
        MalformedRequest: If a key appears twice.

    Privacy:
        Reads the request only.
    """
    fields = dict(pairs)
    if len(fields) != len(pairs):
        detail = "parameters: a field is given twice"
        raise MalformedRequest(detail)
    return fields


def _refuse_constant(_: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have.

    Raises:
        MalformedRequest: Always.

    Privacy:
        Reads the request only.
    """
    detail = "parameters: NaN and infinities are not numbers"
    raise MalformedRequest(detail)


def _describe(invalid: ValidationError) -> str:
    """Return field paths and broken rules, without the values.

    Privacy:
        Reads the request only.
    """
    problems = invalid.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    shown = [f"{_path(problem['loc'])}: {in_plain_words(problem)}" for problem in problems]
    return "; ".join(shown)


def _path(location: tuple[int | str, ...]) -> str:
    parts = (str(part) for part in location)
    return ".".join(part if _SPEAKABLE.fullmatch(part) else "?" for part in parts) or "parameters"
