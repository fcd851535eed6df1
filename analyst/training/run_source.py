"""Where training finds its run: a curator, several of them, or a release that was downloaded.

`analyst.client`, `analyst.training.federation` and `analyst.embedding` provide it, and a fake in
tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from analyst.facts import Budget, DatasetFacts, ImageFacts, Plan, PlanQuestion, PlanTotals, RunList

if TYPE_CHECKING:
    from torch import Tensor


class OpenRun(Protocol):
    """An open run: the ledger behind it, not the analyst, knows the next step."""

    @property
    def run_id(self) -> str:
        """As the curator calls it; of several curators all of their ids."""
        ...

    @property
    def num_steps(self) -> int:
        """Declared steps."""
        ...

    @property
    def next_step(self) -> int:
        """From 1; past the declared ones if all are used."""
        ...

    @property
    def spent_epsilon(self) -> float:
        """Of the data set, over all runs, as far as this run was told."""
        ...

    @property
    def budget_epsilon(self) -> float:
        """That the data set may spend."""
        ...

    def close(self) -> None:
        """End the run; what was not used goes back to the budget."""
        ...


class ImageRun(OpenRun, Protocol):
    """A run whose mechanism compares images, or codes of them."""

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return a releasable gradient with respect to `images`, of the same shape."""
        ...


@runtime_checkable
class WaitingRun(Protocol):
    """A run whose answers take a while, which can be used."""

    while_waiting: Callable[[], None]
    """Called when a step has been sent, at least once; it may do nothing the second time, and never
    changes what the step was made of.
    """


@runtime_checkable
class LocalRun(Protocol):
    """A run that may have its answers made in this process, on the device of the images."""

    @property
    def is_made_here(self) -> bool:
        """Whether they are; if so the images need not leave a card."""
        ...


def is_made_here(run: OpenRun) -> bool:
    """Return whether a run's answers are made in this process."""
    return isinstance(run, LocalRun) and run.is_made_here


class FeatureRun(OpenRun, Protocol):
    """A run whose mechanism compares features of public images."""

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Return a releasable gradient with respect to `features`, of the same shape."""
        ...


class AgainRun(OpenRun, Protocol):
    """A run of one curator, which keeps its last answers for a while."""

    def go_back(self, step: int) -> None:
        """Ask next for an earlier step again, as long as its answer is kept."""
        ...


class TeacherRun(FeatureRun, AgainRun, Protocol):
    """A run of a mechanism on features that may be asked again."""


class AheadRun(ImageRun, AgainRun, Protocol):
    """A run of one curator that takes steps before the answers to those before them have come."""

    def first_gradient(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return a releasable gradient of the first of the next steps; the others are sent, too."""
        ...


class VotingRun(AgainRun, Protocol):
    """A run whose mechanism counts the records that are nearest to each candidate."""

    def votes(self, images: Tensor, labels: Tensor, num_candidates: int) -> Tensor:
        """Return releasable counts [num_candidates]."""
        ...


class AnyRun(AheadRun, TeacherRun, VotingRun, Protocol):
    """A run of any kind of mechanism: only the curator knows of which."""


_Run = TypeVar("_Run", bound=OpenRun, covariant=True)


class RunSource(Protocol[_Run]):
    """Where training finds its run, of the kind that it needs."""

    def describe(self, dataset: str) -> ImageFacts:
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
    ) -> PlanTotals:
        """Return what steps cost or what an epsilon buys; charges nothing."""
        ...

    def open_run(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], *, num_steps: int
    ) -> _Run:
        """Reserve the whole cost of a run and return it."""
        ...

    def resume_run(self, run_id: str) -> _Run:
        """Return an open run at the step that the ledger says is next."""
        ...


class Curator(RunSource[AnyRun], Protocol):
    """One curator as an analyst sees it."""

    def open_run(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int,
        idempotency_key: str | None = None,
    ) -> AnyRun:
        """Reserve the whole cost of a run and return it; the same key opens and pays it once."""
        ...

    def datasets(self) -> Sequence[DatasetFacts]:
        """Return the data sets that this analyst may use."""
        ...

    def budget(self, dataset: str) -> Budget:
        """Return what is left."""
        ...

    def runs(self, *, open_only: bool = False) -> RunList:
        """Return this analyst's runs."""
        ...

    def plan_range(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], question: PlanQuestion
    ) -> Plan:
        """Return a plan with a table around it; charges nothing."""
        ...
