"""A downloaded embedding on disk: numbers as safetensors, words as JSON inside the same file.

What it holds was released: it may be copied, kept and shared as the certificate of its run says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from analyst.documents import STRICT, DocumentProblem, parsed
from analyst.errors import EmbeddingError as EmbeddingError
from analyst.facts import ImageFacts
from analyst.generators.generator import ImageShape
from analyst.new_file import write_file
from analyst.os_errors import explain_os_error

_FORMAT = "weir-embedding-1"
_TENSOR = "sums"
_PARTS = ("autoencoder", "network", "moments")


class _Dataset(BaseModel):
    """The public facts that are kept with it."""

    model_config = STRICT

    name: str
    channels: Annotated[int, Field(ge=1, le=1 << 10)]
    height: Annotated[int, Field(ge=1, le=1 << 14)]
    width: Annotated[int, Field(ge=1, le=1 << 14)]
    classes: Annotated[list[str], Field(min_length=1)]
    nominal_size: Annotated[int, Field(ge=1)]
    capacity: Annotated[int, Field(ge=1)]
    epsilon: Annotated[float, Field(ge=0)]
    delta: Annotated[float, Field(ge=0, le=1)]


_DATASET = TypeAdapter(_Dataset)
_PARAMETERS = TypeAdapter(dict[str, Any])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SavedEmbedding:
    """The one release of a run, and how it is read."""

    run_id: str
    dataset: dict[str, Any]  # of `ImageFacts`
    parameters: dict[str, Any]  # of the mechanism, as the curator keeps them
    sums_KR: Tensor  # float64: class-wise feature sums, then the count feature
    autoencoder: dict[str, Tensor] = field(default_factory=dict)  # released weights, by name
    network: dict[str, Tensor] = field(default_factory=dict)  # public weights, by name
    moments: dict[str, Tensor] = field(default_factory=dict)  # of `split_statistics`

    @property
    def facts(self) -> ImageFacts:
        """The public facts that were saved with it."""
        return ImageFacts(**{**self.dataset, "classes": tuple(self.dataset["classes"])})

    @property
    def shape(self) -> ImageShape:
        """The images that it describes."""
        return ImageShape(
            channels=self.dataset["channels"],
            height=self.dataset["height"],
            width=self.dataset["width"],
            num_classes=len(self.dataset["classes"]),
        )


def save_embedding(path: Path, embedding: SavedEmbedding, *, force: bool = False) -> None:
    """Write an embedding."""
    words = {
        "format": _FORMAT,
        "run_id": embedding.run_id,
        "dataset": json.dumps(embedding.dataset),
        "parameters": json.dumps(embedding.parameters),
    }
    tensors = {_TENSOR: embedding.sums_KR.contiguous()}
    for part in _PARTS:
        tensors |= {f"{part}.{name}": value for name, value in getattr(embedding, part).items()}
    write_file(path, save(tensors, metadata=words), replace=force)


def load_embedding(path: Path) -> SavedEmbedding:
    """Read an embedding.

    Raises:
        EmbeddingError: If it is missing, damaged, or no such file.
    """
    try:
        path.open("rb").close()  # what the system refuses: safetensors does not say why
        with safe_open(path, framework="pt") as file:
            words = file.metadata() or {}
            if words.get("format") != _FORMAT:
                message = f"{path} is not a downloaded embedding"
                raise EmbeddingError(message, "Make one with 'analyst embedding download'.")
            sums_KR = file.get_tensor(_TENSOR)
            parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
            for key in sorted(set(file.keys()) - {_TENSOR}):
                part, _, name = key.partition(".")
                parts[part][name] = file.get_tensor(key)
        embedding = SavedEmbedding(
            run_id=words["run_id"],
            dataset=parsed(_DATASET, words["dataset"]).model_dump(),
            parameters=parsed(_PARAMETERS, words["parameters"]),
            sums_KR=sums_KR.to(torch.float64),
            **parts,
        )
        num_classes = embedding.shape.num_classes
    except (OSError, MemoryError) as error:
        words, remedy = explain_os_error(error, str(path))
        message = f"cannot read the embedding {words}"
        raise EmbeddingError(message, remedy) from None
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        why = f": {error}" if isinstance(error, DocumentProblem) else ""
        message = f"cannot read the embedding {path}{why}"
        raise EmbeddingError(message, "Download it again; it costs nothing.") from None
    if sums_KR.ndim != 2 or len(sums_KR) != num_classes or not bool(sums_KR.isfinite().all()):
        message = f"{path} does not fit its own description"
        raise EmbeddingError(message, "Download it again; it costs nothing.")
    return embedding
