"""A downloaded embedding on disk: numbers as safetensors, words as JSON inside the same file.

What it holds was released: it may be copied, kept and shared as the certificate of its run says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from analyst.embedding.errors import EmbeddingError as EmbeddingError
from analyst.generators.generator import ImageShape

_FORMAT = "weir-embedding-1"
_TENSOR = "sums"
_WEIGHTS = "autoencoder."


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SavedEmbedding:
    """The one release of a run, and how it is read."""

    run_id: str
    dataset: dict[str, Any]  # public facts: name, channels, height, width, classes
    parameters: dict[str, Any]  # of the mechanism, as the curator keeps them
    sums_KR: Tensor  # float64: class-wise feature sums, then the count feature
    autoencoder: dict[str, Tensor] = field(default_factory=dict)  # released weights, by name

    @property
    def shape(self) -> ImageShape:
        """The images that it describes."""
        return ImageShape(
            channels=self.dataset["channels"],
            height=self.dataset["height"],
            width=self.dataset["width"],
            num_classes=len(self.dataset["classes"]),
        )


def save_embedding(path: Path, embedding: SavedEmbedding) -> None:
    """Write an embedding.

    Args:
        path: A name that ends in .safetensors; an existing file is never overwritten.
        embedding: What to keep.

    Raises:
        EmbeddingError: If the file exists or cannot be written.
    """
    if path.exists():
        message = f"{path} exists already"
        raise EmbeddingError(message, "Choose another name.")
    words = {
        "format": _FORMAT,
        "run_id": embedding.run_id,
        "dataset": json.dumps(embedding.dataset),
        "parameters": json.dumps(embedding.parameters),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {_TENSOR: embedding.sums_KR.contiguous()}
        tensors |= {_WEIGHTS + name: value for name, value in embedding.autoencoder.items()}
        save_file(tensors, path, metadata=words)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise EmbeddingError(message, "Check the path.") from None


def load_embedding(path: Path) -> SavedEmbedding:
    """Read an embedding.

    Args:
        path: What `save_embedding` wrote.

    Returns:
        The same embedding, bit for bit.

    Raises:
        EmbeddingError: If it is missing, damaged, or no such file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            words = file.metadata() or {}
            if words.get("format") != _FORMAT:
                message = f"{path} is not a downloaded embedding"
                raise EmbeddingError(message, "Make one with 'analyst embedding download'.")
            sums_KR = file.get_tensor(_TENSOR)
            names = [name for name in file.keys() if name.startswith(_WEIGHTS)]  # noqa: SIM118
            weights = {name.removeprefix(_WEIGHTS): file.get_tensor(name) for name in names}
        embedding = SavedEmbedding(
            run_id=words["run_id"],
            dataset=json.loads(words["dataset"]),
            parameters=json.loads(words["parameters"]),
            sums_KR=sums_KR.to(torch.float64),
            autoencoder=weights,
        )
        num_classes = embedding.shape.num_classes
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        message = f"cannot read the embedding {path}"
        raise EmbeddingError(message, "Download it again; it costs nothing.") from None
    if sums_KR.ndim != 2 or len(sums_KR) != num_classes:
        message = f"{path} does not fit its own description"
        raise EmbeddingError(message, "Download it again; it costs nothing.")
    return embedding
