"""Downloaded embeddings: kept in a file, and trained on without a curator."""

from analyst.embedding.file import EmbeddingError, SavedEmbedding, load_embedding, save_embedding
from analyst.embedding.maps import FeatureMap, feature_map
from analyst.embedding.objective import EmbeddingObjective
from analyst.embedding.offline import OfflineBarrier

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
