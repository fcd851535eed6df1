"""Guesses, scores, and what is computed before a run; no curator is served."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from audit import ONE_RUN_TARGETS, one_run_report
from audit.game import Check
from audit.one_run import ATTACKS, OneRunResult, OneRunRules
from audit.one_run_attack import OneRunAttack, alone, linear_scores, measured_noise
from audit.one_run_bound import Guesses
from audit.one_run_critic import CriticAttack
from audit.one_run_embedding import EmbeddingAttack
from audit.one_run_power import Power, power, right_guesses
from audit.one_run_transport import TransportAttack
from curator.cli import ExitCode, main


def test_every_attack_has_its_name() -> None:
    assert sorted(ATTACKS) == sorted(ONE_RUN_TARGETS)
    assert all(make().mechanism == name for name, make in ATTACKS.items())


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_canaries_are_as_many_as_stated_and_all_differ(name: str) -> None:
    attack = ATTACKS[name]()
    images = attack.canaries()
    assert len(images.levels) == len(images.labels) == attack.num_canaries
    assert len(np.unique(images.levels.reshape(attack.num_canaries, -1), axis=0)) == len(
        images.levels
    )
    assert images.labels.max() < attack.facts("audit").space.num_classes


def test_surest_guesses_come_first() -> None:
    scores = np.array([0.1, -9.0, 3.0, -0.2, 5.0])
    coins = np.array([True, False, True, True, False])
    assert right_guesses(scores, coins).tolist() == [1, 1, 2, 2, 2]


def test_linear_scores_are_the_log_odds_of_orthogonal_signatures() -> None:
    lengths, std = np.array([2.0, 1.0, 0.5]), 0.7
    seen = np.array([1.3, -0.2, 0.4])
    exact = lengths * (seen - lengths / 2) / std**2
    assert linear_scores(np.diag(lengths), seen, std) == pytest.approx(exact)


def test_linear_scores_tell_coins_apart_that_share_a_direction() -> None:
    """With next to no noise all coins are read off, however alike the signatures are."""
    rng = np.random.default_rng(3)
    signatures = rng.standard_normal((40, 60)) + 3.0
    coins = rng.integers(0, 2, 40).astype(np.bool_)
    scores = linear_scores(signatures, coins @ signatures + 1e-3 * rng.standard_normal(60), 1e-3)
    assert np.array_equal(scores > 0, coins)


def test_noise_is_measured_where_no_signature_is() -> None:
    """Whatever the coins; of 4,000 numbers to six standard deviations."""
    rng = np.random.default_rng(6)
    signatures = rng.standard_normal((100, 4100))
    seen = 7.0 * rng.standard_normal(100) @ signatures + 0.3 * rng.standard_normal(4100)
    assert measured_noise(signatures, seen) == pytest.approx(0.3, rel=6 / 8000**0.5)


def test_a_canary_alone_is_as_sure_as_its_odds_say() -> None:
    """Of guesses with log odds l a share of 1 / (1 + e^-l) is right; 6 sigma, one seed."""
    rng = np.random.default_rng(4)
    coins = rng.integers(0, 2, 200_000).astype(np.bool_)
    odds = alone(coins, 1.3, rng)
    near = np.abs(np.abs(odds) - 1.0) < 0.05
    right = ((odds > 0) == coins)[near].mean()
    assert right == pytest.approx(1 / (1 + math.exp(-1)), abs=6 * 0.45 / near.sum() ** 0.5)


def of_transport(**numbers: Any) -> TransportAttack:
    return TransportAttack(side=8, **numbers)


def test_canaries_of_a_batch_take_from_each_other() -> None:
    """The more are sampled together, the fewer guesses are right."""
    rng = np.random.default_rng(5)
    rights = []
    for batch in (1.0, 16.0, 64.0):
        attack = of_transport(num_steps=max(1, round(4000 / batch**2)), expected_batch=batch)
        total = 0
        for _ in range(20):
            coins = rng.integers(0, 2, attack.num_canaries).astype(np.bool_)
            total += right_guesses(attack.simulated(coins, 1.0, 1.0, rng), coins)[-1]
        rights.append(total / 20 / attack.num_canaries)
    assert rights[0] > rights[1] > rights[2]


CLAIMS = {1e-5: 4.0, 1e-3: 2.9}


def test_what_can_be_shown_grows_with_the_canaries_and_the_fault() -> None:
    few = power(EmbeddingAttack(num_canaries=20), 1.08, CLAIMS, 0.05)
    many = power(EmbeddingAttack(num_canaries=4000), 1.08, CLAIMS, 0.05)
    assert all(few.honest[one] < many.honest[one] < CLAIMS[one] for one in CLAIMS)
    assert not few.catches(CLAIMS)
    assert many.catches(CLAIMS)
    assert all(1 <= number <= 4000 for number in many.numbers)


def test_the_reason_says_how_many_canaries_are_needed() -> None:
    attack = EmbeddingAttack(num_canaries=20)
    words = power(attack, 1.08, CLAIMS, 0.05).why(CLAIMS, attack, 0.05)
    assert "cannot be seen" in words
    needed = int(words.rpartition("at least ")[2].split()[0])
    enough, short = (
        Guesses(num_canaries=n, num_guesses=n, num_right=n).epsilon_lower_bound(0, 0.05)
        for n in (needed, needed - 2)
    )
    assert short < 2.9 <= enough


def test_the_reason_says_what_canaries_share() -> None:
    attack = of_transport(num_steps=50, expected_batch=64.0)
    claims = {1e-5: 1.0, 1e-3: 0.5}
    words = power(attack, 8.0, claims, 0.05).why(claims, attack, 0.05)
    assert "share one gradient" in words


def test_signatures_of_the_critic_are_nearly_whole() -> None:
    """What the first layer shows of a clipped slope, for every canary."""
    from audit.one_run_attack import open_mechanism
    from curator.divergences.dp_critic import initial_vector
    from curator.mechanisms.dp_cgan import DpCgan, dp_critic_shape

    attack = CriticAttack()
    mechanism = open_mechanism(attack, 4.0)
    assert isinstance(mechanism, DpCgan)
    shape = dp_critic_shape(mechanism.spec, attack.facts("audit").space)
    signatures = attack._signatures(mechanism.spec, initial_vector(shape, 5))
    lengths = np.linalg.norm(signatures, axis=1)
    assert lengths.min() > 0.97
    assert lengths.max() <= 1 + 1e-6


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the runs by answers that a test chooses."""
    chosen: dict[str, Any] = {"lower_bound": 2.5, "rules": []}

    def one_run(attack: OneRunAttack, rules: OneRunRules, **_: Any) -> OneRunResult:
        chosen["rules"].append(rules)
        shown = dict.fromkeys(rules.deltas, 2.4)
        return OneRunResult(
            mechanism=attack.mechanism,
            num_steps=attack.num_steps,
            noise_multiplier=1.5,
            guesses=(Guesses(num_canaries=100, num_guesses=40, num_right=30),),
            checks=tuple(
                Check(delta=one, claim=4.0, lower_bound=chosen["lower_bound"])
                for one in rules.deltas
            ),
            confidence=1 - rules.error,
            expected=Power(
                numbers=(40,), honest=shown, faulty=shown, ceiling=shown, share_right=0.9
            ),
            why="it would be seen",
        )

    monkeypatch.setattr(one_run_report, "audit_one_run", one_run)
    return chosen


def test_one_run_of_every_mechanism_by_default(
    audited: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--one-run", "--confidence", "0.97"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.count("30 of 40") == text.count("not contradicted") == len(ONE_RUN_TARGETS)
    assert "confidence 97 %" in text
    assert text.count("it would be seen.") == len(ONE_RUN_TARGETS)
    assert [one.error for one in audited["rules"]] == pytest.approx([0.01] * 3)
    assert audited["rules"][0].deltas == (1e-5, 1e-4, 1e-3, 1e-2)
    assert audited["rules"][0].epsilon == 4.0


def test_a_bound_above_the_claim_is_an_exit_code(
    audited: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    audited["lower_bound"] = 4.5
    command = ["audit", "--one-run", "--mechanism", "mean-embedding", "--json"]
    assert main(command) == ExitCode.FAILED
    printed = capsys.readouterr()
    assert "1 of 1 checks contradict a claim" in printed.err
    document = json.loads(printed.out)
    assert document["runs"][0]["holds"] is False
    assert document["runs"][0]["guesses"][0]["num_right"] == 30


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (["--one-run", "--trials", "100"], "--trials"),
        (["--one-run", "--canary", "flip"], "--canary"),
        (["--one-run", "--noise-multiplier", "2"], "--noise-multiplier"),
        (["--one-run", "--mechanism", "votes"], "votes"),
        (["--one-run", "--epsilon", "0"], "--epsilon"),
        (["--one-run", "--epsilon", "nan"], "--epsilon"),
        (["--one-run", "--confidence", "1"], "--confidence"),
        (["--one-run", "--delta", "0"], "--delta"),
        (["--epsilon", "4"], "--one-run"),
        (["--confidence", "0.9"], "--one-run"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    wrong: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *wrong]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert word in error
    assert "fault of this program" not in error
