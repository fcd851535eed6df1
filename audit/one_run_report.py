"""What audits of whole runs found, in words and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audit.one_run import ATTACKS, OneRunResult, OneRunRules, audit_one_run
from curator.cli.screen import table_lines

_HEADER = (
    *("mechanism", "steps", "noise", "canaries", "right guesses", "claim", "lower bound"),
    *("expected", "verdict"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRunReport:
    """Results under one set of rules."""

    results: tuple[OneRunResult, ...]
    rules: OneRunRules

    @classmethod
    def of(
        cls, mechanisms: Sequence[str], rules: OneRunRules, say: Callable[[str], None]
    ) -> OneRunReport:
        """Audit one run of each mechanism.

        Args:
            mechanisms: Of `ATTACKS`.
            rules: The error is shared among the mechanisms.
            say: Told what is done.

        Raises:
            ValueError: If no noise makes a claim true.
        """
        share = OneRunRules(
            epsilon=rules.epsilon, delta=rules.delta, error=rules.error / len(mechanisms)
        )
        results = tuple(audit_one_run(ATTACKS[name](), share, say=say) for name in mechanisms)
        return cls(results=results, rules=rules)

    @property
    def verdicts(self) -> list[bool]:
        """Whether each claim stands."""
        return [one.holds for one in self.results]

    def text(self) -> str:
        """Return a table, and what could be seen."""
        rows = [
            (
                one.mechanism,
                str(one.num_steps),
                f"{one.noise_multiplier:.4g}",
                str(one.guesses[0].num_canaries),
                " | ".join(f"{told.num_right} of {told.num_guesses}" for told in one.guesses),
                " | ".join(f"{check.claim:.2f}" for check in one.checks),
                " | ".join(f"{check.lower_bound:.2f}" for check in one.checks),
                " | ".join(f"{one.expected.honest[check.delta]:.2f}" for check in one.checks),
                "not contradicted" if one.holds else "EXCEEDS THE CLAIM",
            )
            for one in self.results
        ]
        deltas = " | ".join(f"{delta:g}" for delta in self.rules.deltas)
        reasons = "\n".join(f"{one.mechanism}: {one.why}." for one in self.results)
        return (
            f"One whole run each over gRPC: epsilon of the run at delta {deltas} under "
            "add-or-remove-one-record\n"
            + "\n".join(table_lines(_HEADER, rows))
            + "\nAll lower bounds together hold with confidence "
            f"{100 * (1 - self.rules.error):g} %. expected: what the same attack shows of a "
            f"correct curator, simulated, in half of all cases.\n{reasons}"
        )

    def document(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "adjacency": "add-or-remove-one-record",
            "joint_confidence": 1 - self.rules.error,
            "runs": [asdict(one) | {"holds": one.holds} for one in self.results],
        }
