"""Everything that can go wrong for an analyst, as types: what happened, and what to do next.

AnalystError
|-- CredentialsError      the credentials file cannot be read
|-- CuratorUnreachable    nothing answers; the same request may be sent again
|-- ProtocolError         the curator answered something this client does not understand
|-- RequestRefused        the curator says that the request is wrong; nothing was charged
`-- Refused               the curator's policy says no
    |-- BudgetExhausted   with the numbers
    |-- RunClosed
    `-- StepLost          charged, and its answer is gone: go on with the next step
"""

from __future__ import annotations

from dataclasses import dataclass


class AnalystError(Exception):
    """Something went wrong; the text ends with what to do next."""

    def __init__(self, message: str, remedy: str = "") -> None:
        """Keep both sentences.

        Args:
            message: What happened.
            remedy: What to do next.
        """
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.remedy = remedy


class CredentialsError(AnalystError):
    """The credentials file is missing or damaged."""


class CuratorUnreachable(AnalystError):
    """Nothing answers at the address."""


class ProtocolError(AnalystError):
    """The answer cannot be understood."""


class RequestRefused(AnalystError):
    """The request is wrong; nothing was charged."""

    def __init__(self, reason: str, message: str, detail: str = "", remedy: str = "") -> None:
        """Keep the curator's words.

        Args:
            reason: A constant that programs decide on.
            message: Constant words for the reason.
            detail: What is wrong in this request; may be empty.
            remedy: What to do next.
        """
        super().__init__(f"{message} ({detail})" if detail else message, remedy)
        self.reason = reason
        self.detail = detail


class Refused(RequestRefused):
    """The curator's policy says no; asking again does not help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetNumbers:
    """The numbers of a refusal, all in epsilon at the data set's delta."""

    budget: float
    spent: float
    reserved: float
    asked: float
    remaining: float
    delta: float


class BudgetExhausted(Refused):
    """The data set cannot afford what was asked."""

    def __init__(
        self,
        reason: str,
        message: str,
        detail: str = "",
        remedy: str = "",
        *,
        numbers: BudgetNumbers,
    ) -> None:
        """Keep the curator's words and numbers.

        Args:
            reason: PRIVACY_BUDGET_EXHAUSTED.
            message: Constant words for the reason.
            detail: The numbers in words.
            remedy: What to do next.
            numbers: The numbers.
        """
        super().__init__(reason, message, detail, remedy)
        self.numbers = numbers


class RunClosed(Refused):
    """The run has used its declared steps or was closed."""


class StepLost(Refused):
    """The step was charged and its answer is no longer kept."""
