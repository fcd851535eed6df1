"""States are compared network by network; releases are seen, replaced and left as they were."""

from __future__ import annotations

import torch

from audit.canaries import make_pair
from audit.canary_records import records_of
from audit.noise import OtherSelections, Tape, TapedNoise
from audit.recorded import recorded
from audit.same_randomness import changed_parts, compare, state_ignores_selections
from audit.targets import make_target
from audit.trial import run_in_process
from curator.mechanisms import g_pate, one_critic
from tests.fakes.noise import NoNoise


def test_parts_are_rows_and_the_rest_is_named() -> None:
    first = {"weights": torch.zeros(4, 3), "shared": torch.zeros(3), "steps": torch.tensor([2])}
    second = {name: value.clone() for name, value in first.items()}
    assert changed_parts(first, second, 4) == set()
    second["weights"][2, 1] = 1
    assert changed_parts(first, second, 4) == {2}
    assert changed_parts(first, second, 0) == {"weights"}
    second["shared"][0] = 1
    assert changed_parts(first, second, 4) == {2, "shared"}
    assert changed_parts(first, second | {"more": torch.zeros(1)}, 4) == {2, "shared", "more"}
    assert changed_parts(first, second | {"shared": torch.zeros(4)}, 4) == {2, "shared"}


def test_other_selections_turn_every_word_around() -> None:
    tape = Tape()
    words = TapedNoise(tape).uniform_words(5)
    other = OtherSelections(tape, tape)
    assert torch.equal(other.uniform_words(5), -1 - words)
    assert torch.equal(other.discrete_gaussian(3), TapedNoise(tape).discrete_gaussian(3))
    fresh = OtherSelections(tape, Tape())
    assert not torch.equal(fresh.discrete_gaussian(9), TapedNoise(tape).discrete_gaussian(9))


def test_what_is_made_is_seen_and_what_is_replayed_is_answered() -> None:
    before = vars(one_critic)["release_critic_mean"], vars(g_pate)["release_votes"]
    target, pair = make_target("gs-wgan-decoupled", 1.0), make_pair("flip")
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    with recorded() as first:
        run_in_process(target, pair, fewer, NoNoise())
    with recorded(replayed=first) as second:
        trial = run_in_process(target, pair, more, NoNoise())
    assert (vars(one_critic)["release_critic_mean"], vars(g_pate)["release_votes"]) == before
    assert [one.by for one in first] == [one.by for one in second] == ["release_critic_mean"]
    assert trial.answers[0] is first[0].release
    assert first[0].integers != second[0].integers
    distance = sum((a - b) ** 2 for a, b in zip(first[0].integers, second[0].integers, strict=True))
    assert 0.99 < distance / first[0].squared_sensitivity(1.0) <= 1


def test_a_state_is_promised_where_it_does_not_follow_a_sample() -> None:
    pair = make_pair("flip")
    promised = {
        name: state_ignores_selections(make_target(name, 1.0), pair, Tape())
        for name in ("gs-wgan-decoupled", "pate-gan", "dp-cgan", "dp-swd")
    }
    assert promised == {
        "gs-wgan-decoupled": True,
        "pate-gan": True,
        "dp-cgan": None,
        "dp-swd": None,
    }


def test_every_promise_is_one_of_the_verdict() -> None:
    comparison = compare(make_target("gs-wgan-mean", 1.0), make_pair("flip"))
    assert comparison.holds
    assert comparison.same_answers
    assert comparison.same_state
    assert comparison.one_part
