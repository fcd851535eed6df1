"""The shape of a recipe: frozen, validated, every key described once.

`session` holds what may change when a run is resumed; all other sections are fixed for a run.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.generators.configs import GeneratorConfig
from analyst.recipes.mechanisms import GeneratorMechanism

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AboutConfig:
    """Where a recipe comes from."""

    title: Annotated[str, Field(description="one line")]
    source: Annotated[str, Field(description="paper, code or trial that the values come from")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class OptimizerConfig:
    """Adam."""

    lr: Annotated[float, Field(gt=0, description="learning rate")]
    beta1: Annotated[float, Field(ge=0, lt=1, description="decay of the first moment")] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1, description="decay of the second moment")] = 0.999
    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty, as in torch's Adam")] = 0.0
    decay: Annotated[
        Literal["constant", "cosine"], Field(description="learning rate over the declared steps")
    ] = "constant"


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class TrainingConfig:
    """How long, and from which randomness; fixed for a run."""

    dataset: Annotated[str, Field(min_length=1, description="name of the data set at the curator")]
    steps: Annotated[
        Annotated[int, Field(ge=1)] | Literal["all"],
        Field(description="declared steps, or 'all' that the budget affords"),
    ]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of weights and latents")]
    ema_decay: Annotated[
        float, Field(ge=0, lt=1, description="decay of the averaged weights; 0 keeps the last")
    ] = 0.0
    memory: Annotated[
        float,
        Field(
            ge=1,
            le=1e4,
            description="steps whose generated features are averaged in the end, fewer before; "
            "1 has none; on a downloaded release only",
        ),
    ] = 1.0
    turns: Annotated[
        int,
        Field(
            ge=1,
            le=8,
            description="a step sees one of so many parts of the frequencies, the next step the "
            "next one, in less time; on a downloaded release only",
        ),
    ] = 1
    depth: Annotated[
        int,
        Field(
            ge=1,
            le=16,
            description="steps on their way at once; with 2 the next batch is made before the "
            "answer to the last has come, and its gradient is one update old",
        ),
    ] = 1
    guidance: Annotated[
        float, Field(ge=0, description="weight of what --teacher says of the images; 0 has none")
    ] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class SessionConfig:
    """What may differ from one session to the next without changing the result."""

    device: Annotated[str, Field(description="torch device of the generator")] = "cpu"
    cuda_graph: Annotated[
        bool,
        Field(description="whether a graphics card replays whole steps: faster if they are short"),
    ] = False
    checkpoint_every: Annotated[int, Field(ge=1, description="updates between checkpoints")] = 500
    keep_checkpoints: Annotated[
        int, Field(ge=2, description="how many of the newest are kept, to sample from")
    ] = 2
    sample_every: Annotated[int, Field(ge=1, description="updates between sample grids")] = 1000
    metrics_every: Annotated[int, Field(ge=1, description="updates between metric lines")] = 20
    grid_columns: Annotated[int, Field(ge=1, le=100, description="images per class in a grid")] = 10
    retry_for_s: Annotated[
        float, Field(ge=0, description="seconds to wait for a curator that does not answer")
    ] = 300.0

    @model_validator(mode="after")
    def _check(self) -> SessionConfig:
        if self.cuda_graph and not self.device.startswith("cuda"):
            msg = "session.cuda_graph = true needs session.device = 'cuda'"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class Recipe:
    """One training run."""

    about: AboutConfig
    mechanism: GeneratorMechanism
    generator: GeneratorConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    session: SessionConfig = Field(default_factory=SessionConfig)

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        if self.training.steps == "all" and not self.mechanism.pays_per_step:
            msg = (
                f"training.steps = 'all' has no meaning with {self.mechanism.kind}: its steps are "
                "free, so state a number"
            )
            raise ValueError(msg)
        generator, mechanism = self.generator, self.mechanism
        if (generator.kind == "decoded") != (mechanism.kind == "dp-merf-ae"):
            msg = "the generator 'decoded' and the mechanism 'dp-merf-ae' go together"
            raise ValueError(msg)
        if generator.kind == "decoded":
            for name in ("hidden_width", "code_width"):
                if getattr(generator, name) != getattr(mechanism, name):
                    msg = f"generator.{name} and mechanism.{name} must be the same"
                    raise ValueError(msg)
        return self
