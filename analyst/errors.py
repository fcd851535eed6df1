"""Everything that can go wrong for an analyst, as types: what happened, and what to do next.

AnalystError
|-- CredentialsError          the credentials file cannot be read, or has ended
|-- RecipeError               a recipe, or an option that changes one
|-- FederationError           several curators that do not go together
|-- CheckpointError           a checkpoint that is missing, damaged or of something else
|-- EmbeddingError            a file of an embedding, likewise
|-- EvaluationError           what an evaluation lacks
|-- ImageFileError            a file of images
|-- CertificateError          a certificate that does not hold
|   `-- CertificateFileError  its file cannot be read
|-- OutputRefused             a file must not be written there
|   `-- OutputExists          there is one of that name
|-- CuratorUnreachable        nothing answers; the same request may be sent again
|   `-- CuratorUnavailable    the curator says that it cannot answer now
|       |-- TooManyCalls      you have too many open
|       |-- TooManyBytes      your steps on their way are too large together
|       `-- TooFast           with the seconds to wait
|-- CuratorFailed             one opaque error inside the curator
|-- ProtocolError             the curator answered something this client does not understand
|-- BarrierClosed             the connection was closed by this program
|-- BadBatch                  images or labels of a type or shape that cannot be sent
`-- RequestRefused            the curator says that the request is wrong; nothing was charged
    |-- MalformedRequest
    |-- StepOutOfOrder
    |-- StepConflict          same step, different images
    |-- Unauthenticated
    |-- UnknownDataset
    |-- UnknownRun
    `-- Refused               the curator's policy says no
        |-- BudgetExhausted   with the numbers
        |   `-- ShareExhausted    the same, of your own share
        |-- RunClosed
        |-- DatasetPaused     for a while
        |-- DatasetRetired    for ever
        |-- DatasetOutOfService its stored images need the steward
        |-- TooManyRuns
        |-- TooMuchState
        |-- NotPermitted
        |   `-- PolicyRefused     names the rule
        `-- StepLost          charged, and its answer is gone: go on with the next step
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ENDS: Final = (".", "!", "?", ")")


class AnalystError(Exception):
    """Something went wrong; the text ends with what to do next."""

    def __init__(self, message: str, remedy: str = "") -> None:
        """Keep both sentences; a full stop is added where the first has none."""
        message = message if message.endswith(_ENDS) else f"{message}."
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.remedy = remedy


class CredentialsError(AnalystError):
    """The credentials file is missing or damaged, or its certificate has ended."""


class RecipeError(AnalystError):
    """A recipe, or an option that changes one, is not valid."""


class FederationError(AnalystError):
    """Several curators do not go together, or what names them is not valid."""


class CheckpointError(AnalystError):
    """A checkpoint is missing, damaged or made for something else."""


class EmbeddingError(AnalystError):
    """A file of an embedding is missing, damaged or of another kind."""


class EvaluationError(AnalystError):
    """An evaluation lacks a package, a file, or images that make sense together."""


class ImageFileError(AnalystError):
    """A file of images cannot be read or has the wrong content."""


class CertificateError(AnalystError):
    """A privacy certificate does not hold."""


class CertificateFileError(CertificateError):
    """A certificate's file cannot be read, or would replace another."""


class OutputRefused(AnalystError):
    """A file or a folder must not be written there; nothing was."""


class OutputExists(OutputRefused):
    """A file of that name exists, and was not to be replaced."""


class CuratorUnreachable(AnalystError):
    """Nothing answers at the address; the same request may be sent again."""


class CuratorSilent(CuratorUnreachable):
    """A whole deadline passed without an answer; the same request may be sent again."""


class CuratorUnavailable(CuratorUnreachable):
    """The curator answers that it cannot serve this now."""

    def __init__(
        self, message: str, remedy: str = "", *, reason: str = "", retry_seconds: float = 0.0
    ) -> None:
        """Keep the curator's words."""
        super().__init__(message, remedy)
        self.reason = reason
        self.retry_seconds = retry_seconds


class TooManyCalls(CuratorUnavailable):
    """You have too many calls open at once."""


class TooManyBytes(CuratorUnavailable):
    """Your steps that are on their way are too large together."""


class TooFast(CuratorUnavailable):
    """Steps come faster than the steward's policy allows; the same step is taken later."""


class CuratorFailed(AnalystError):
    """One opaque error inside the curator; its log has the request id."""


class ProtocolError(AnalystError):
    """The answer cannot be understood."""


class BarrierClosed(AnalystError):
    """This program has closed the connection; what it asked is on no way to the curator."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "The connection to the curator is closed.",
            "Connect again with analyst.connect(...); open runs go on with resume_run(run_id).",
        )


class BadBatch(AnalystError):
    """Images or labels cannot be sent as they are; nothing was sent."""


class StepsInterrupted(UserWarning):
    """Steps were sent and their answers were not waited for; they may be charged."""


class StepsOverGrpc(UserWarning):
    """A curator of this machine has no socket for steps, so they take the longer way."""


class RequestRefused(AnalystError):
    """The request is wrong; nothing was charged."""

    def __init__(self, reason: str, message: str, detail: str = "", remedy: str = "") -> None:
        """Keep the curator's words."""
        super().__init__(f"{message} ({detail})" if detail else message, remedy)
        self.reason = reason
        self.detail = detail


class MalformedRequest(RequestRefused):
    """A field of the request is not valid."""


class StepOutOfOrder(RequestRefused):
    """The step is not the next one of the run."""


class StepConflict(RequestRefused):
    """This step was already sent with different images."""


class Unauthenticated(RequestRefused):
    """The credentials are not valid, or no longer."""


class UnknownDataset(RequestRefused):
    """There is no such data set for you."""


class UnknownRun(RequestRefused):
    """There is no such run for you."""


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
        """Keep the curator's words and numbers."""
        super().__init__(reason, message, detail, remedy)
        self.numbers = numbers


class ShareExhausted(BudgetExhausted):
    """Your own share of the data set's budget cannot afford what was asked."""


class DatasetPaused(Refused):
    """The steward has paused the data set; runs stay open and can be resumed."""


class DatasetRetired(Refused):
    """The steward has retired the data set for ever."""


class DatasetOutOfService(Refused):
    """The data set's stored images need the steward; runs stay open and can be resumed."""


class TooManyRuns(Refused):
    """You have too many runs open at once."""


class TooMuchState(Refused):
    """There is no room for what the run would keep at the curator."""


class NotPermitted(Refused):
    """Your role may not do this, whatever is asked."""


class PolicyRefused(NotPermitted):
    """What is asked goes beyond the data set's declarations or policy; the text names how."""


class RunClosed(Refused):
    """The run has used its declared steps or was closed."""


class StepLost(Refused):
    """The step was charged and its answer is no longer kept."""
