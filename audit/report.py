"""What every game and comparison of an audit found, in words and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audit.canaries import Pair
from audit.game import Progress, Result, Rules, play
from audit.playback import Playback, play_back
from audit.same_randomness import Comparison, compare
from audit.target import Target
from curator.cli.screen import table_lines

JOINT_ERROR = 1e-4  # of all bounds of one audit together

_SAME_HEADER = (
    *("mechanism", "canary", "draws", "words", "operations", "answers", "state", "one part"),
    *("moved / bound", "verdict"),
)
_PLAYED_HEADER = (
    *("mechanism", "canary", "charges", "releases", "replies", "budget", "one part"),
    *("moved / bound", "verdict"),
)
_MEANING = (
    "state: the same whatever is drawn; one part: neighbours differ in one network at most.\n"
    "- is not compared, for it is not promised: a record that fails ends a computation early; what "
    "is released once is computed in shapes that follow the size of the data set; and some "
    "mechanisms keep no state, or one that follows their answers."
)
_SAYS = {True: "same", False: "DIFFER", None: "-"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was found, and under which rules."""

    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...]
    playbacks: tuple[Playback, ...]
    rules: Rules

    @classmethod
    def of(
        cls,
        games: Sequence[tuple[Target, Pair]],
        trials: int,
        delta: float,
        progress: Callable[[str], Progress],
    ) -> Report:
        """Play every game, and compare the same pairs under the same randomness, in two ways.

        Args:
            games: Each mechanism with each canary that has a meaning for it.
            trials: On each data set.
            delta: Of the claim.
            progress: Returns what is told of one game.
        """
        rules = Rules(trials=trials, delta=delta, error=JOINT_ERROR / len(games))
        results = [
            play(target, pair, rules, progress=progress(f"{target.name}, {pair.canary}"))
            for target, pair in games
        ]
        return cls(
            results=tuple(results),
            comparisons=tuple(compare(target, pair) for target, pair in games),
            playbacks=tuple(play_back(target, pair) for target, pair in games),
            rules=rules,
        )

    @property
    def verdicts(self) -> list[bool]:
        """Whether each claim stands."""
        return [
            *(one.holds for one in self.results),
            *(one.holds for one in self.comparisons),
            *(one.holds for one in self.playbacks),
        ]

    def text(self) -> str:
        """Return two tables with what they mean."""
        header = ("mechanism", "canary", "trials", "claim", "lower bound", "confidence", "verdict")
        games = [
            (
                one.mechanism,
                one.canary,
                f"{one.trials}+{one.trials}",
                " | ".join(f"{check.claim:.4f}" for check in one.checks),
                " | ".join(f"{check.lower_bound:.4f}" for check in one.checks),
                f"{100 * one.confidence:.5f} %",
                "not contradicted" if one.holds else "EXCEEDS THE CLAIM",
            )
            for one in self.results
        ]
        deltas = " | ".join(f"{delta:g}" for delta in self.rules.deltas)
        same = [
            (
                one.mechanism,
                one.canary,
                _SAYS[one.same_draws],
                _SAYS[one.same_words],
                _SAYS[one.same_operations],
                _SAYS[one.same_answers],
                _SAYS[one.same_state],
                _SAYS[one.one_part],
                f"{(one.squared_difference / one.squared_sensitivity) ** 0.5:.4f}",
                "holds" if one.holds else "FAILS",
            )
            for one in self.comparisons
        ]
        played = [
            (
                one.mechanism,
                one.canary,
                _SAYS[one.same_charges],
                _SAYS[one.same_releases],
                _SAYS[one.same_replies],
                _SAYS[one.same_budget],
                _SAYS[one.one_part],
                f"{(one.squared_difference / one.squared_sensitivity) ** 0.5:.4f}",
                "holds" if one.holds else "FAILS",
            )
            for one in self.playbacks
        ]
        return (
            f"Distinguishing games over gRPC: epsilon of one trial at delta {deltas} under "
            "add-or-remove-one-record\n"
            f"{_lines(header, games)}\n"
            f"All lower bounds together hold with confidence {100 * (1 - JOINT_ERROR):g} %. A low "
            "bound proves nothing: it is what these attacks found in these trials.\n\n"
            "The same random words on both data sets, which get the same releases\n"
            f"{_lines(_SAME_HEADER, same)}\n"
            f"{_MEANING}\n\n"
            "The same words through the whole service, which is told the same releases\n"
            f"{_lines(_PLAYED_HEADER, played)}"
        )

    def document(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "adjacency": "add-or-remove-one-record",
            "joint_confidence": 1 - JOINT_ERROR,
            "games": [asdict(one) | {"holds": one.holds} for one in self.results],
            "same_randomness": [asdict(one) | {"holds": one.holds} for one in self.comparisons],
            "played_back": [asdict(one) | {"holds": one.holds} for one in self.playbacks],
        }


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(table_lines(heads, rows))
