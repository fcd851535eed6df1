"""The ledger in a few lines, without a disk, a chain or an entry: what it should say."""

from __future__ import annotations

from dataclasses import dataclass, field

from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from tests.contract.ledger_values import BUDGET, SETUP, STEP

CAP = BudgetRule.register(BUDGET)


@dataclass
class ModelRun:
    steps: int
    setup: bool
    holder: str
    epoch: int = 1
    used: int = 0
    answered: int = 0
    begun: bool = False
    payload: bytes | None = None
    open: bool = True

    def uses(self, *, reserved: bool) -> tuple[int, int]:
        """How many setups and how many steps count."""
        if reserved and self.open:
            return int(self.setup), self.steps
        return int(self.setup and self.begun), self.used

    def refusal(self, holder: str, epoch: int) -> str:
        """Why this holder may not touch the run; empty when it may."""
        if not self.open:
            return "RunClosed"
        return "" if (holder, epoch) == (self.holder, self.epoch) else "HolderLost"


@dataclass
class ModelLedger:
    runs: dict[str, ModelRun] = field(default_factory=dict)
    cap: float = BUDGET.epsilon
    status: str = "active"
    added: int = 0

    def fits(self, setups: int, steps: int, *, reserved: bool = True) -> bool:
        uses = [run.uses(reserved=reserved) for run in self.runs.values()]
        setups, steps = setups + sum(s for s, _ in uses), steps + sum(n for _, n in uses)
        total = event_cost(SETUP) * setups + event_cost(STEP) * (steps + self.added)
        return CAP.spent_epsilon(total) <= self.cap

    def stop(self) -> str:
        """Why nothing may be charged; empty when it may."""
        return {"active": "", "paused": "DatasetPaused"}.get(self.status, "DatasetRetired")

    def lower(self, epsilon: float) -> str:
        if epsilon > self.cap:
            return "LedgerConflict"
        self.cap = epsilon
        return ""

    def turn(self, status: str) -> str:
        after = {"active": "paused retired", "paused": "active retired"}.get(self.status, "")
        if status not in after.split():
            return "LedgerConflict"
        self.status = status
        return ""

    def open(self, name: str, steps: int, setup: bool, holder: str) -> str:
        if name in self.runs:
            return "RunExists"
        if self.stop():
            return self.stop()
        if not self.fits(int(setup), steps):
            return "BudgetExhausted"
        self.runs[name] = ModelRun(steps, setup, holder)
        return ""

    def adopt(self, name: str, holder: str) -> str:
        run = self.runs[name]
        if not run.open:
            return "RunClosed"
        run.holder, run.epoch, run.answered = holder, run.epoch + 1, run.used
        return ""

    def relinquish(self, name: str, holder: str, epoch: int, used: int) -> str:
        run = self.runs[name]
        outside = not run.answered <= used <= run.used
        if refused := run.refusal(holder, epoch) or "LedgerConflict" * outside:
            return refused
        run.used, run.holder = used, ""
        return ""

    def advance(self, name: str, holder: str, epoch: int, used: int) -> str:
        run = self.runs[name]
        if refused := run.refusal(holder, epoch):
            return refused
        if used < run.used or (run.setup and not run.begun):
            return "LedgerConflict"
        if used > run.steps:
            return "RunClosed"
        if used == run.used:
            return ""
        if refused := self.stop() or "BudgetExhausted" * self.beyond(0, used - run.used):
            return refused
        run.used = used
        return ""

    def beyond(self, setups: int, steps: int) -> bool:
        """Whether charging more would go beyond what the steward allows by now."""
        changed = self.cap < BUDGET.epsilon or self.added > 0
        return changed and not self.fits(setups, steps, reserved=False)

    def begin(self, name: str, holder: str, epoch: int) -> str:
        run = self.runs[name]
        if refused := run.refusal(holder, epoch) or "LedgerConflict" * run.begun:
            return refused
        if refused := self.stop() or "BudgetExhausted" * self.beyond(int(run.setup), 0):
            return refused
        run.begun = True
        return ""

    def store(self, name: str, holder: str, epoch: int, payload: bytes) -> str:
        run = self.runs[name]
        late = not run.begun or run.payload is not None
        if refused := run.refusal(holder, epoch) or "LedgerConflict" * late or self.stop():
            return refused
        run.payload = payload
        return ""

    def close(self, name: str, holder: str, epoch: int, used: int) -> str:
        run = self.runs[name]
        outside = not run.answered <= used <= run.used
        if refused := run.refusal(holder, epoch) or "LedgerConflict" * outside:
            return refused
        run.used, run.open = used, False
        return ""
