"""The one error of a federation: curators that do not go together, or a file that names them."""

from __future__ import annotations

from typing import final

from analyst.errors import AnalystError


@final
class FederationError(AnalystError):
    """The curators do not go together, or what names them is not valid."""
