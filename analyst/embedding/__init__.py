"""Downloaded embeddings: kept in a file, and trained on without a curator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.embedding.file import (
        EmbeddingError,
        SavedEmbedding,
        load_embedding,
        save_embedding,
    )
    from analyst.embedding.maps import FeatureMap, feature_map
    from analyst.embedding.objective import EmbeddingObjective
    from analyst.embedding.offline import OfflineBarrier
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.embedding.file": (
                "EmbeddingError",
                "SavedEmbedding",
                "load_embedding",
                "save_embedding",
            ),
            "analyst.embedding.maps": (
                "FeatureMap",
                "feature_map",
            ),
            "analyst.embedding.objective": ("EmbeddingObjective",),
            "analyst.embedding.offline": ("OfflineBarrier",),
        },
    )

__all__ = [
    "EmbeddingError",
    "EmbeddingObjective",
    "FeatureMap",
    "OfflineBarrier",
    "SavedEmbedding",
    "feature_map",
    "load_embedding",
    "save_embedding",
]
