"""The mechanism section of a recipe, by the JSON schemas that the curator's specifications make.

`mechanisms.json` is generated, and checked by `make lint`: every name, type, range and default is
typed once, at the curator. `sentences.json` says what each key means. What is written here is what
only the analyst knows: a batch size in place of a rate, which labels a step has, and what it costs
in words.

Shapes: N rows of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    Self,
    TypeAlias,
)

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from analyst.errors import RecipeError
from analyst.recipes.json_schema import read_data, type_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ADAPTATION: Final = "dp-swd-features"
TEACHER: Final = "linear-teacher"
SCORE: Final = "score"
VOTES: Final = "votes"
OF_OTHERS: Final = (ADAPTATION, TEACHER, SCORE, VOTES)
"""The mechanisms by which no generator is trained: commands of their own ask them."""

_EACH_SHARD = "every step asks a network of each shard, which hold all records; it is charged"
_FRESH_SAMPLE = "every step reads a fresh private sample and is charged"
_ONE_RELEASE = "one release is charged when the run opens; its steps are free"
_OF_THE_SAMPLES: Final = ("num_debias", "num_fakes", "num_labelled")  # no more than num_samples
_ALL_OR_NONE: Final = ("adaptive_threshold", "adaptive_decay", "adaptive_grace")


class SizeFacts(Protocol):
    """The public facts of a data set that a parameter may depend on."""

    @property
    def nominal_size(self) -> int:
        """The public size that sampling rates refer to."""
        ...

    @property
    def capacity(self) -> int:
        """Rows that a private batch is padded to."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mechanism:
    """What the analyst knows of a mechanism beside its schema; `cost` may name its parameters."""

    cost: str = "every step is charged"
    pays_per_step: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of a recipe; all of it is sent


_MECHANISMS: Final[Mapping[str, _Mechanism]] = {
    "adversarial-dp-sinkhorn": _Mechanism(cost=_EACH_SHARD),
    "dp-cgan": _Mechanism(
        cost="every step updates a critic with {critic_steps} fresh samples, and is charged"
    ),
    "dp-merf-ae": _Mechanism(cost=_ONE_RELEASE, pays_per_step=False),
    "dp-sinkhorn": _Mechanism(cost=_FRESH_SAMPLE),
    "dp-swd": _Mechanism(cost=_FRESH_SAMPLE),
    "dp-swd-features": _Mechanism(
        cost="every step reads a fresh private sample without its labels, and is charged"
    ),
    "feature-statistics": _Mechanism(cost=_ONE_RELEASE, pays_per_step=False),
    "g-pate": _Mechanism(cost=_EACH_SHARD),
    "gs-wgan-decoupled": _Mechanism(
        cost="every step asks one critic, drawn in secret, and is charged"
    ),
    "gs-wgan-mean": _Mechanism(
        cost="every step asks all critics, which hold all records, and is charged"
    ),
    "gs-wgan-round-robin": _Mechanism(
        cost="every step asks the next critic; a round of them is charged in advance"
    ),
    "linear-teacher": _Mechanism(cost="every step sums a gradient of every record, and is charged"),
    "mean-embedding": _Mechanism(
        cost=_ONE_RELEASE, pays_per_step=False, defaults={"num_features": 0, "bandwidths": ()}
    ),
    "pate-gan": _Mechanism(cost=_EACH_SHARD),
    "score": _Mechanism(
        cost="every step counts the records that a classifier gets right, and is charged"
    ),
    "votes": _Mechanism(
        cost="every step asks each record for the nearest of {num_candidates} candidates, and is "
        "charged"
    ),
}


RELEASED_ONCE: Final = tuple(name for name, one in _MECHANISMS.items() if not one.pays_per_step)
"""Mechanisms whose one release can be downloaded."""


class MechanismConfig(BaseModel):
    """What a recipe asks of the curator; each mechanism has a subclass made of its schema.

    Nothing that carries privacy has a default: a recipe states it or does not load.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pays_per_step: ClassVar[bool]
    cost_in_words: ClassVar[str]
    sent: ClassVar[frozenset[str]]  # the parameters that the curator takes

    kind: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def wire_name(self) -> str:
        """The mechanism's name at the curator."""
        return self.kind

    @property
    def cost(self) -> str:
        """What this mechanism pays for, in one sentence."""
        return self.cost_in_words.format(**dict(self))

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check what no schema of one key can say.

        Raises:
            ValueError: If two keys do not go together.
        """
        stated = dict(self)
        if {"sampling_rate", "expected_batch_size"} <= stated.keys() and (
            (self.sampling_rate is None) == (self.expected_batch_size is None)
        ):
            msg = "give either sampling_rate or expected_batch_size"
            raise ValueError(msg)
        for part in _OF_THE_SAMPLES:
            if part in stated and stated[part] > stated["num_samples"]:
                msg = f"{part} must not exceed num_samples"
                raise ValueError(msg)
        missing = [stated.get(name) is None for name in _ALL_OR_NONE]
        if any(missing) and not all(missing):
            msg = f"{', '.join(_ALL_OR_NONE)}: all of them or none"
            raise ValueError(msg)
        if "feature_map" in stated:
            _check_feature_map(stated)
        return self

    def parameters(self, facts: SizeFacts) -> dict[str, Any]:
        """Return what is sent: a rate by the nominal size, and if need be the set's capacity."""
        stated = dict(self)
        sent = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in stated.items()
            if name in self.sent
        }
        if "sampling_rate" in self.sent and sent.get("sampling_rate") is None:
            sent["sampling_rate"] = rate_of(stated["expected_batch_size"], facts)
        if "capacity" in self.sent and sent["capacity"] is None:
            sent["capacity"] = facts.capacity
        return sent

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [N] of a step, balanced; further rows repeat the first labels."""
        import torch  # here: recipes are read without it

        from analyst.generators.sampling import balanced_labels

        stated = dict(self)
        if "images_per_class" in stated:
            num_rows = stated["images_per_class"] * num_classes
            return balanced_labels(num_rows, num_classes, generator)
        labels_N = balanced_labels(stated["num_samples"], num_classes, generator)
        return torch.cat([labels_N, labels_N[: stated.get("num_debias", 0)]])


def rate_of(expected_batch_size: float, facts: SizeFacts) -> float:
    """Return the sampling rate of an expected batch, by the nominal size.

    Raises:
        RecipeError: If it is more than there are.
    """
    if expected_batch_size > facts.nominal_size:
        message = (
            f"mechanism.expected_batch_size {expected_batch_size:g} is more than the data set's "
            f"nominal {facts.nominal_size:,}"
        )
        remedy = (
            "Set a smaller one: --set mechanism.expected_batch_size=N; 'analyst budget' shows the "
            "largest sampling rate."
        )
        raise RecipeError(message, remedy)
    return expected_batch_size / facts.nominal_size


def _check_feature_map(stated: Mapping[str, Any]) -> None:
    """Check that a map has the features that it is made of, and no others.

    Raises:
        ValueError: If it does not.
    """
    name = stated["feature_map"]
    if name.startswith("scattering") == (stated["num_features"] > 0):
        msg = "num_features belongs to the feature maps of pixels: rff, mix, sorf and mix-sorf"
        raise ValueError(msg)
    if name.startswith(("scattering", "mix")) != (stated["num_scattering_features"] > 0):
        msg = "num_scattering_features belongs to the feature maps of scattering, and mixed ones"
        raise ValueError(msg)


def _defaults(schema: Mapping[str, Any], known: _Mechanism) -> dict[str, Any]:
    """Return what a key has that a recipe leaves out; a list that need not be stated is empty."""
    left_out = schema["properties"].keys() - set(schema["required"])
    stated = {name: schema["properties"][name].get("default", ()) for name in left_out}
    return stated | dict(known.defaults)


def _keys(schema: Mapping[str, Any], known: _Mechanism) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a recipe with type and default: the parameters, and what they come from.

    A batch size takes the place of a rate, or, where it is sent too, its only place. The capacity
    may be left to the data set.
    """
    defaults = _defaults(schema, known)
    keys = {
        name: (type_of(rule), defaults.get(name, ...))
        for name, rule in schema["properties"].items()
    }
    if "sampling_rate" in keys:
        keys["capacity"] = (keys["capacity"][0] | None, None)
        rate = keys.pop("sampling_rate")[0]
        if "expected_batch_size" not in keys:
            batch = Annotated[float, Field(gt=0)] | None
            keys |= {"sampling_rate": (rate | None, None), "expected_batch_size": (batch, None)}
    if not known.pays_per_step:
        keys["images_per_class"] = (Annotated[int, Field(ge=1)], ...)
    return keys


@cache
def mechanism_config(name: str) -> type[MechanismConfig]:
    """Return the section of a recipe that asks for one mechanism."""
    schema, sentences = read_data("mechanisms.json")[name], read_data("sentences.json")
    known = _MECHANISMS.get(name, _Mechanism())
    fields: dict[str, Any] = {"kind": (Literal[name], ...)}
    for key, (annotation, default) in _keys(schema, known).items():
        sentence = schema["properties"].get(key, {}).get("description")
        sentence = sentence or (sentences["any"] | sentences.get(name, {})).get(key)
        fields[key] = (annotation, Field(default, description=sentence))
    made = create_model(f"MechanismConfig[{name}]", __base__=MechanismConfig, **fields)
    made.pays_per_step, made.cost_in_words = known.pays_per_step, known.cost
    made.sent = frozenset(schema["properties"])
    return made


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms that a recipe may ask for, sorted."""
    return sorted(read_data("mechanisms.json"))


if TYPE_CHECKING:
    GeneratorMechanism: TypeAlias = MechanismConfig
    AdaptationMechanism: TypeAlias = MechanismConfig
    TeacherMechanism: TypeAlias = MechanismConfig
    ScoreMechanism: TypeAlias = MechanismConfig
    VotesMechanism: TypeAlias = MechanismConfig
else:
    GeneratorMechanism = Annotated[
        reduce(
            or_,
            (mechanism_config(one) for one in mechanism_names() if one not in OF_OTHERS),
        ),
        Field(discriminator="kind"),
    ]
    """Every mechanism that a generator is trained by."""

    AdaptationMechanism = mechanism_config(ADAPTATION)
    TeacherMechanism = mechanism_config(TEACHER)
    ScoreMechanism = mechanism_config(SCORE)
    VotesMechanism = mechanism_config(VOTES)
