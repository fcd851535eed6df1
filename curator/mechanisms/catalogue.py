"""The mechanisms that can be asked for by name, and the reading of their parameters.

Everything here happens before a charge and reads the request and public facts only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import ValidationError

from curator.errors import MalformedRequest
from curator.mechanisms.adversarial_dp_sinkhorn import AdversarialDpSinkhorn
from curator.mechanisms.adversarial_dp_sinkhorn_spec import AdversarialDpSinkhornSpec
from curator.mechanisms.dp_cgan import DpCgan
from curator.mechanisms.dp_cgan_spec import DpCganSpec
from curator.mechanisms.dp_merf_ae import DpMerfAe
from curator.mechanisms.dp_merf_ae_spec import DpMerfAeSpec
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.dp_swd_features_spec import DpSwdFeaturesSpec
from curator.mechanisms.g_pate import GPate
from curator.mechanisms.g_pate_spec import GPateSpec
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled, GsWganDecoupledSpec
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.mechanisms.mean_embedding_spec import MeanEmbeddingSpec
from curator.mechanisms.pate_gan import PateGan
from curator.mechanisms.pate_gan_spec import PateGanSpec
from curator.mechanisms.specification import Specification, canonical_json
from curator.privacy.records import ImageSpace

__all__ = [
    "MAX_PARAMETER_BYTES",
    "CataloguedMechanism",
    "canonical_json",
    "mechanism_names",
    "parameter_schema",
    "parse_mechanism",
    "read_specification",
]

MAX_PARAMETER_BYTES = 16 * 1024

CataloguedMechanism = (
    AdversarialDpSinkhorn
    | DpCgan
    | DpMerfAe
    | DpSinkhorn
    | DpSwd
    | DpSwdFeatures
    | GPate
    | GsWganDecoupled
    | GsWganMean
    | GsWganRoundRobin
    | MeanEmbedding
    | PateGan
)
"""Every mechanism of the catalogue; each has its `spec`."""

_MAX_PROBLEMS = 8
_SPEAKABLE = re.compile(r"[A-Za-z0-9_]{1,40}")

S = TypeVar("S", bound=Specification)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[S]):
    """How one mechanism is read and made."""

    specification: type[S]
    make: Callable[[S, ImageSpace], CataloguedMechanism]

    def open(self, parameters_json: str, space: ImageSpace) -> CataloguedMechanism:
        """Read the parameters and make the mechanism.

        Raises:
            MalformedRequest: If the parameters do not fit the specification.

        Privacy:
            Reads the request and public facts only.
        """
        return self.make(self.read(parameters_json), space)

    def read(self, parameters_json: str) -> S:
        """Read the parameters.

        Raises:
            MalformedRequest: If they do not fit the specification.

        Privacy:
            Reads the request only.
        """
        try:
            return self.specification.model_validate_json(parameters_json, strict=True)
        except ValidationError as invalid:
            raise MalformedRequest(_describe(invalid)) from None


_CATALOGUE: dict[str, _Entry[Any]] = {
    "adversarial-dp-sinkhorn": _Entry(AdversarialDpSinkhornSpec, AdversarialDpSinkhorn),
    "dp-cgan": _Entry(DpCganSpec, DpCgan),
    "dp-merf-ae": _Entry(DpMerfAeSpec, DpMerfAe),
    "dp-sinkhorn": _Entry(DpSinkhornSpec, DpSinkhorn),
    "dp-swd": _Entry(DpSwdSpec, DpSwd),
    "dp-swd-features": _Entry(DpSwdFeaturesSpec, DpSwdFeatures),
    "g-pate": _Entry(GPateSpec, GPate),
    "gs-wgan-decoupled": _Entry(GsWganDecoupledSpec, GsWganDecoupled),
    "gs-wgan-mean": _Entry(GsWganMeanSpec, GsWganMean),
    "gs-wgan-round-robin": _Entry(GsWganMeanSpec, GsWganRoundRobin),
    "mean-embedding": _Entry(MeanEmbeddingSpec, MeanEmbedding),
    "pate-gan": _Entry(PateGanSpec, PateGan),
}


def mechanism_names() -> tuple[str, ...]:
    """Return the wire names of all mechanisms, sorted.

    Privacy:
        Public constants.
    """
    return tuple(sorted(_CATALOGUE))


def parameter_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a mechanism's parameters.

    Raises:
        MalformedRequest: If there is no such mechanism.

    Privacy:
        Public constants.
    """
    specification: type[Specification] = _entry(name).specification
    return specification.model_json_schema()


def parse_mechanism(name: str, parameters_json: str, space: ImageSpace) -> CataloguedMechanism:
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
    entry = _entry(name)
    _check_text(parameters_json)
    return entry.open(parameters_json, space)


def read_specification(name: str, parameters_json: str) -> Specification:
    """Return the parameters of a run that is open, without making its mechanism.

    Args:
        name: Wire name.
        parameters_json: As the ledger has them.

    Raises:
        MalformedRequest: If they do not fit, as after an earlier version.

    Privacy:
        Reads what was requested only.
    """
    specification: Specification = _entry(name).read(parameters_json)
    return specification


def _entry(name: str) -> _Entry[Any]:
    """Look a wire name up.

    Raises:
        MalformedRequest: If there is no such mechanism.

    Privacy:
        Reads the request only.
    """
    entry = _CATALOGUE.get(name)
    if entry is None:
        detail = f"mechanism: expected one of {', '.join(mechanism_names())}"
        raise MalformedRequest(detail)
    return entry


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
    problems = invalid.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{_path(problem['loc'])}: {problem['msg']}" for problem in problems[:_MAX_PROBLEMS]]
    return "; ".join(shown)


def _path(location: tuple[int | str, ...]) -> str:
    parts = (str(part) for part in location)
    return ".".join(part if _SPEAKABLE.fullmatch(part) else "?" for part in parts) or "parameters"
