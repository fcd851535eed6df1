"""What training needs of the barrier; `analyst.client` provides it, and so does a fake in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from analyst.plan_question import PlanQuestion

if TYPE_CHECKING:
    from torch import Tensor


class DatasetPort(Protocol):
    """Public facts of a data set."""

    @property
    def name(self) -> str: ...  # noqa: D102 - the name says it
    @property
    def channels(self) -> int: ...  # noqa: D102
    @property
    def height(self) -> int: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def classes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def nominal_size(self) -> int: ...  # noqa: D102
    @property
    def capacity(self) -> int: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def delta(self) -> float: ...  # noqa: D102


class ListedDatasetPort(DatasetPort, Protocol):
    """Public facts of a data set of one curator, with the limits that its runs must keep."""

    @property
    def sampling_rate(self) -> float: ...  # noqa: D102
    @property
    def policy(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102


class PointPort(Protocol):
    """One row of a plan's table."""

    @property
    def noise_multiplier(self) -> float: ...  # noqa: D102
    @property
    def num_steps(self) -> int: ...  # noqa: D102
    @property
    def epsilon_after(self) -> float: ...  # noqa: D102
    @property
    def fits(self) -> bool: ...  # noqa: D102


class PlanPort(Protocol):
    """What a number of steps would cost, or what an epsilon would buy."""

    @property
    def num_steps(self) -> int: ...  # noqa: D102
    @property
    def affordable_steps(self) -> int: ...  # noqa: D102
    @property
    def epsilon_after(self) -> float: ...  # noqa: D102
    @property
    def epsilon_alone(self) -> float: ...  # noqa: D102
    @property
    def remaining(self) -> float: ...  # noqa: D102
    @property
    def fits(self) -> bool: ...  # noqa: D102


class PlanRangePort(PlanPort, Protocol):
    """A plan with a table around it, and what it wastes."""

    @property
    def noise_multiplier(self) -> float: ...  # noqa: D102
    @property
    def points(self) -> Sequence[PointPort]: ...  # noqa: D102
    @property
    def advice(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def budget(self) -> BudgetPort: ...  # noqa: D102


class SharePort(Protocol):
    """An analyst's own part of a budget."""

    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def spent(self) -> float: ...  # noqa: D102
    @property
    def reserved(self) -> float: ...  # noqa: D102
    @property
    def remaining(self) -> float: ...  # noqa: D102


class BudgetPort(Protocol):
    """What is left of a data set's budget."""

    @property
    def registered_epsilon(self) -> float: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def share(self) -> SharePort | None: ...  # noqa: D102

    @property
    def dataset(self) -> str: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def delta(self) -> float: ...  # noqa: D102
    @property
    def spent(self) -> float: ...  # noqa: D102
    @property
    def reserved(self) -> float: ...  # noqa: D102
    @property
    def remaining(self) -> float: ...  # noqa: D102
    @property
    def adjacency(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def accountant(self) -> str: ...  # noqa: D102


class RunPort(Protocol):
    """An open run: the ledger behind it, not the analyst, knows the next step."""

    @property
    def run_id(self) -> str: ...  # noqa: D102
    @property
    def num_steps(self) -> int: ...  # noqa: D102
    @property
    def next_step(self) -> int: ...  # noqa: D102
    @property
    def spent_epsilon(self) -> float: ...  # noqa: D102
    @property
    def budget_epsilon(self) -> float: ...  # noqa: D102

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return a releasable gradient with respect to `images`, of the same shape."""
        ...

    def close(self) -> None:
        """End the run; what was not used goes back to the budget."""
        ...


class RunSource(Protocol):
    """Where training finds its run: a curator, or an embedding that was downloaded before."""

    def describe(self, dataset: str) -> DatasetPort:
        """Return the public facts of a data set."""
        ...

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> PlanPort:
        """Return what steps cost or what an epsilon buys; charges nothing."""
        ...

    def open_run(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], *, num_steps: int
    ) -> RunPort:
        """Reserve the whole cost of a run and return it."""
        ...

    def resume_run(self, run_id: str) -> RunPort:
        """Return an open run at the step that the ledger says is next."""
        ...


@runtime_checkable
class DecoderSource(Protocol):
    """Where training also finds a decoder: a download that has one."""

    @property
    def autoencoder(self) -> Mapping[str, Tensor]:
        """Released weights by name."""
        ...


class RunSummaryPort(Protocol):
    """Where a run stands."""

    @property
    def run_id(self) -> str: ...  # noqa: D102
    @property
    def dataset(self) -> str: ...  # noqa: D102
    @property
    def analyst(self) -> str: ...  # noqa: D102
    @property
    def mechanism(self) -> str: ...  # noqa: D102
    @property
    def is_open(self) -> bool: ...  # noqa: D102
    @property
    def num_steps(self) -> int: ...  # noqa: D102
    @property
    def used_steps(self) -> int: ...  # noqa: D102
    @property
    def close_reason(self) -> str: ...  # noqa: D102
    @property
    def opened_at(self) -> str: ...  # noqa: D102
    @property
    def closed_at(self) -> str: ...  # noqa: D102
    @property
    def one_release(self) -> bool: ...  # noqa: D102


class RunListPort(Protocol):
    """Runs, open ones first, the last opened first, and how many older closed ones are left out."""

    @property
    def runs(self) -> Sequence[RunSummaryPort]: ...  # noqa: D102
    @property
    def num_left_out(self) -> int: ...  # noqa: D102


class BarrierPort(RunSource, Protocol):
    """The curator as an analyst sees it."""

    def datasets(self) -> Sequence[ListedDatasetPort]:
        """Return the data sets that this analyst may use."""
        ...

    def budget(self, dataset: str) -> BudgetPort:
        """Return what is left."""
        ...

    def runs(self, *, open_only: bool = False) -> RunListPort:
        """Return this analyst's runs."""
        ...

    def plan_range(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], question: PlanQuestion
    ) -> PlanRangePort:
        """Return a plan with a table around it; charges nothing."""
        ...
