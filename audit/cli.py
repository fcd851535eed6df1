"""`curator audit`: play every game, print what was proved beside what is claimed."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict

from audit import CANARIES, TARGETS
from audit.canaries import make_pair
from audit.game import Progress, Result, Rules, play
from audit.same_randomness import Comparison, compare
from audit.targets import make_target

JOINT_ERROR = 1e-4  # of all bounds of one audit together
_LEAST_TRIALS = 20
_MOST_TRIALS = 1_000_000

_SAME_HEADER = (
    *("mechanism", "canary", "draws", "words", "operations", "answers", "state", "one part"),
    *("moved / bound", "verdict"),
)
_SAYS = {True: "same", False: "DIFFER", None: "-"}


class AuditFailed(Exception):
    """Something was proved that contradicts a claim, or the audit cannot be played."""


def run_audit(arguments: Namespace) -> None:
    """Run the audit that the command line asks for.

    Args:
        arguments: Trials, canaries, mechanisms, noise multiplier, delta and the form of the output.

    Raises:
        AuditFailed: If a number is out of range, or a claim does not stand.
    """
    _check(arguments)
    targets = [
        make_target(one, arguments.noise_multiplier) for one in arguments.mechanism or TARGETS
    ]
    pairs = [make_pair(one) for one in arguments.canary or CANARIES]
    games = [(target, pair) for target in targets for pair in pairs if target.suits(pair)]
    if not games:
        msg = (
            "--canary: none that was named makes sense for these mechanisms; leave --canary out to "
            "play all that do"
        )
        raise AuditFailed(msg)
    rules = Rules(trials=arguments.trials, delta=arguments.delta, error=JOINT_ERROR / len(games))
    results = [
        play(target, pair, rules, progress=_progress(f"{target.name}, {pair.canary}", rules.trials))
        for target, pair in games
    ]
    _say("")
    comparisons = [compare(target, pair) for target, pair in games]
    if arguments.json:
        sys.stdout.write(_json(results, comparisons) + "\n")
    else:
        sys.stdout.write(_text(results, comparisons, rules))
    verdicts = [*(one.holds for one in results), *(one.holds for one in comparisons)]
    wrong = verdicts.count(False)
    if wrong:
        msg = f"{wrong} of {len(verdicts)} checks contradict a claim"
        raise AuditFailed(msg)


def _check(arguments: Namespace) -> None:
    """Refuse numbers with which no game can be played.

    Raises:
        AuditFailed: If one is out of range.
    """
    if not _LEAST_TRIALS <= arguments.trials <= _MOST_TRIALS:
        msg = f"--trials must be from {_LEAST_TRIALS} to {_MOST_TRIALS}"
        raise AuditFailed(msg)
    if not 0 < arguments.delta < 1:
        msg = "--delta must be above 0 and below 1"
        raise AuditFailed(msg)


def _progress(name: str, trials: int) -> Progress:
    """Return a function that rewrites one line on a terminal."""
    rounds = {"without": 0, "last": 0}

    def tell(answers: int) -> None:
        if answers < rounds["last"]:
            rounds["without"] += rounds["last"]
        rounds["last"] = answers
        _say(f"{name}: {rounds['without'] + answers} of {2 * trials} answers")

    return tell


def _say(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


def _text(results: list[Result], comparisons: list[Comparison], rules: Rules) -> str:
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
        for one in results
    ]
    deltas = " | ".join(f"{delta:g}" for delta in rules.deltas)
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
        for one in comparisons
    ]
    return (
        f"Distinguishing games over gRPC: epsilon of one trial at delta {deltas} under "
        "add-or-remove-one-record\n"
        f"{_table(header, games)}"
        f"All lower bounds together hold with confidence {100 * (1 - JOINT_ERROR):g} %. A low "
        "bound proves nothing: it is what these attacks found in these trials.\n\n"
        "The same random words on both data sets, which get the same releases\n"
        f"{_table(_SAME_HEADER, same)}"
        "state: the same whatever is drawn; one part: neighbours differ in one network at most.\n"
        "- is not compared, for it is not promised: a record that fails ends a computation early; "
        "what is released once is computed in shapes that follow the size of the data set; and "
        "some mechanisms keep no state, or one that follows their answers.\n"
    )


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines) + "\n"


def _json(results: list[Result], comparisons: list[Comparison]) -> str:
    document = {
        "adjacency": "add-or-remove-one-record",
        "joint_confidence": 1 - JOINT_ERROR,
        "games": [asdict(one) | {"holds": one.holds} for one in results],
        "same_randomness": [asdict(one) | {"holds": one.holds} for one in comparisons],
    }
    return json.dumps(document, indent=1)
