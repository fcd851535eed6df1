"""The one error of a saved embedding, apart from torch, which reading one needs."""

from __future__ import annotations

from typing import final

from analyst.errors import AnalystError


@final
class EmbeddingError(AnalystError):
    """A file of an embedding is missing, damaged or of another kind."""
