"""Every error that can reach a caller, as one tree with constant public messages.

    CuratorError                 INTERNAL
    |-- RequestError             INVALID_ARGUMENT    the caller can fix it
    |   |-- MalformedRequest     INVALID_ARGUMENT
    |   |-- StepOutOfOrder       INVALID_ARGUMENT
    |   |-- StepConflict         INVALID_ARGUMENT    same step, different images
    |   |-- Unauthenticated      UNAUTHENTICATED
    |   |-- UnknownDataset       NOT_FOUND           also when it exists and is not yours
    |   `-- UnknownRun           NOT_FOUND           the same
    |-- Refusal                  FAILED_PRECONDITION policy: do not retry
    |   |-- BudgetExhausted      RESOURCE_EXHAUSTED  with the numbers
    |   |   `-- AllotmentExhausted RESOURCE_EXHAUSTED the same, of this analyst's own cap
    |   |-- RunClosed            FAILED_PRECONDITION
    |   |-- DatasetPaused        FAILED_PRECONDITION by the steward; runs stay open
    |   |-- DatasetRetired       FAILED_PRECONDITION for ever
    |   |-- DatasetOutOfService  FAILED_PRECONDITION its stored images need the steward
    |   |-- TooManyRuns          FAILED_PRECONDITION this analyst has too many open at once
    |   |-- TooMuchState         FAILED_PRECONDITION no room for what this run would remember
    |   |-- NotPermitted         PERMISSION_DENIED   not for this role
    |   |   `-- PolicyRefused    PERMISSION_DENIED   names the steward's rule and its number
    |   `-- StepLost             ALREADY_EXISTS      charged, answer gone: take the next step
    `-- Unavailable              UNAVAILABLE         retry the same step
        |-- LedgerUnavailable    UNAVAILABLE         cannot charge, so does not compute
        |-- TooManyCalls         UNAVAILABLE         this caller has too many open at once
        |-- TooManyBytes         UNAVAILABLE         requests on their way are too large together
        `-- TooFast              UNAVAILABLE         above the steward's step rate; says when

`public_message` and `remedy` are class constants. `detail` may be shown to the caller, so it is
written only from the caller's own request and public facts, never from a caught exception.
The text of an instance is for the steward's own log.
"""

from __future__ import annotations

from typing import ClassVar, Final

from curator.privacy.budget import BudgetNumbers as BudgetNumbers

_LONGEST_DETAIL: Final = 400  # over gRPC it travels four times, and all must fit into 8 KiB


class CuratorError(Exception):
    """The request could not be served, and the caller may know no more than that."""

    reason: ClassVar[str] = "INTERNAL"
    public_message: ClassVar[str] = "The request could not be served."
    remedy: ClassVar[str] = "Tell the steward of this curator; the log has the request id."

    def __init__(self, detail: str = "") -> None:
        """Keep `detail`, which must depend only on the request and on public facts."""
        super().__init__(detail or self.public_message)
        self.detail = detail

    @property
    def public_detail(self) -> str:
        """The detail as it can travel: valid Unicode, not long; it may hold the caller's names."""
        return self.detail[:_LONGEST_DETAIL].encode("utf-8", "replace").decode()


class RequestError(CuratorError):
    """The request is wrong; nothing was charged."""

    reason = "INVALID_REQUEST"
    public_message = "The request is not valid; nothing was charged."
    remedy = "Correct the request and send it again."


class MalformedRequest(RequestError):
    """A field has the wrong shape, type, length or value."""

    reason = "MALFORMED_REQUEST"
    public_message = "A field of the request is not valid; nothing was charged."
    remedy = (
        "Compare the request with the data set's facts ('analyst budget', DescribeDataset); its "
        "parameter_schemas say what each mechanism takes."
    )

    def __init__(self, detail: str = "", field: str = "") -> None:
        """Keep which field is wrong; empty for several, or for the request as a whole."""
        super().__init__(detail)
        self.field = field


class StepOutOfOrder(RequestError):
    """The step is not the next one of the run."""

    reason = "STEP_OUT_OF_ORDER"
    public_message = "The step is not the next one of this run; nothing was charged."
    remedy = "Ask ResumeRun for the next step and send that one."


class StepConflict(RequestError):
    """This step was already sent with different images."""

    reason = "STEP_CONFLICT"
    public_message = "This step was already sent with different images; nothing more was charged."
    remedy = "Repeat the step with the same images, or go on with the next step."


class Unauthenticated(RequestError):
    """The caller is not known."""

    reason = "UNAUTHENTICATED"
    public_message = "The credentials are missing or not valid."
    remedy = (
        "Use the credentials file that the steward made with 'curator analyst add', at the port "
        "for its kind; ask for a new one ('curator analyst rotate') if it has ended."
    )


class UnknownDataset(RequestError):
    """There is no such data set for this caller."""

    reason = "UNKNOWN_DATASET"
    public_message = "There is no such data set for you."
    remedy = "List the data sets with 'analyst budget', and name one of them with --dataset NAME."


class UnknownRun(RequestError):
    """There is no such run for this caller."""

    reason = "UNKNOWN_RUN"
    public_message = "There is no such run for you."
    remedy = "Check the run id: 'analyst runs' lists yours. Or open a new run."


class Refusal(CuratorError):
    """Policy says no; asking again will not help."""

    reason = "REFUSED"
    public_message = "The request is refused by policy; nothing was charged."
    remedy = "Ask the steward about the policy of this data set."


class BudgetExhausted(Refusal):
    """The data set cannot afford what was asked."""

    reason = "PRIVACY_BUDGET_EXHAUSTED"
    public_message = (
        "The privacy budget of this data set cannot afford the request; nothing was charged."
    )
    remedy = (
        "Ask for fewer steps or more noise ('analyst plan' shows both); "
        "a spent budget does not refill."
    )

    def __init__(self, numbers: BudgetNumbers) -> None:
        """Keep the public numbers of the ledger."""
        super().__init__(
            f"epsilon spent {numbers.spent:.4f}, reserved {numbers.reserved:.4f}, the request "
            f"would bring it to {numbers.asked:.4f} of {numbers.budget:.4f} "
            f"at delta {numbers.delta:g}"
        )
        self.numbers = numbers


class AllotmentExhausted(BudgetExhausted):
    """The analyst's own cap below the data set's cannot afford what was asked."""

    reason = "ANALYST_BUDGET_EXHAUSTED"
    public_message = (
        "Your share of this data set's privacy budget cannot afford the request; "
        "nothing was charged."
    )
    remedy = "Ask for fewer steps or more noise, or ask the steward about your share."


class RunClosed(Refusal):
    """The run has used its declared steps or was closed."""

    reason = "RUN_CLOSED"
    public_message = "This run is closed: it has used its declared steps or was ended."
    remedy = "Open a new run if the budget allows one."


class DatasetPaused(Refusal):
    """The steward has paused the data set."""

    reason = "DATASET_PAUSED"
    public_message = "The steward has paused this data set; nothing was charged."
    remedy = "Runs stay open: resume the run when the steward has resumed the data set."


class DatasetRetired(Refusal):
    """The steward has retired the data set; its ledger stays."""

    reason = "DATASET_RETIRED"
    public_message = "The steward has retired this data set; nothing was charged."
    remedy = "Choose another data set; budgets and certificates of this one can still be read."


class DatasetOutOfService(Refusal):
    """The stored images are damaged as a whole, by a cause that no single record decides."""

    reason = "DATASET_OUT_OF_SERVICE"
    public_message = "The stored images of this data set need the steward; nothing was charged."
    remedy = "Tell the steward. Runs stay open: resume the run when the data set is back."


class TooManyRuns(Refusal):
    """The caller has as many open runs as are allowed."""

    reason = "TOO_MANY_RUNS"
    public_message = "You have too many runs open at once; nothing was charged."
    remedy = "Close one of them ('analyst runs --open', 'analyst close'), then open the new one."


class TooMuchState(Refusal):
    """What all open runs keep between steps would be larger than is allowed."""

    reason = "TOO_MUCH_STATE"
    public_message = (
        "There is no room for what this run would keep at the curator; nothing was charged."
    )
    remedy = (
        "Close runs that you no longer use, declare fewer or smaller networks, shards and "
        "features, or ask the steward to raise limits.max_state_mib."
    )


class NotPermitted(Refusal):
    """The caller's role may not do this, whatever is asked."""

    reason = "NOT_PERMITTED"
    public_message = "This is not permitted for you; nothing was charged."
    remedy = "Ask the steward for a role that may do this; changing the request does not help."


class PolicyRefused(NotPermitted):
    """The request goes beyond what the steward declared or a rule; the detail names which."""

    reason = "POLICY_REFUSED"
    public_message = "The policy of this data set does not allow this; nothing was charged."
    remedy = (
        "Change what the detail names; 'analyst budget' (DescribeDataset) lists every rule of the "
        "policy."
    )


class StepLost(Refusal):
    """The step was charged and its answer is no longer kept."""

    reason = "STEP_LOST"
    public_message = (
        "This step was charged and its answer is no longer kept; it is never computed again."
    )
    remedy = "Ask ResumeRun for the next step and go on from there."


class Unavailable(CuratorError):
    """The curator cannot answer now."""

    reason = "UNAVAILABLE"
    public_message = "The curator cannot answer now."
    remedy = "Wait a little and send the same request again."
    retry_seconds: float = 1.0


class LedgerUnavailable(Unavailable):
    """The ledger cannot be written, so nothing is computed."""

    reason = "LEDGER_UNAVAILABLE"
    public_message = "The ledger cannot be written, so nothing is computed."
    remedy = "Tell the steward: the curator's disk or database needs attention."

    def __init__(self, what: str = "") -> None:
        """Keep what happened for the steward; a caller learns nothing of files and databases."""
        super().__init__()
        self.args = (what or self.public_message,)


class TooManyCalls(Unavailable):
    """The caller has too many calls open at once."""

    reason = "TOO_MANY_CALLS"
    public_message = "You have too many calls open at once."
    remedy = "Close streams that you no longer use, then send the same request again."


class TooManyBytes(Unavailable):
    """The caller's requests that are not answered yet are too large together."""

    reason = "TOO_MANY_BYTES"
    public_message = "Your requests on their way are too large together; this one is free."
    remedy = "Wait for the answers to the others, or send fewer images; then send the same again."


class TooFast(Unavailable):
    """The steps come faster than the steward's policy allows."""

    reason = "TOO_FAST"
    public_message = "Steps come faster than the policy of this data set allows."
    remedy = "Wait as long as the error says, then send the same step again."

    def __init__(self, detail: str, retry_seconds: float) -> None:
        """Keep the rule with its number, and when the same step will be taken."""
        super().__init__(detail)
        self.retry_seconds = retry_seconds
