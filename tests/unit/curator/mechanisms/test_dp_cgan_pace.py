"""How often DP-CGAN gives a gradient: the rule, what it reads, and that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.divergences.critics import scores
from curator.divergences.dp_critic import Examples, parameters_of, share_recognised
from curator.mechanisms import dp_cgan
from curator.mechanisms.dp_cgan import DpCgan, TrainedCritic, dp_critic_shape
from curator.mechanisms.dp_cgan_pace import Pace, PaceRule
from curator.privacy.release import Release
from curator.sanitizer import example_sum
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.test_dp_cgan import (
    SPACE,
    mechanism,
    records,
    rows,
    samples,
    stream,
)

RULE = PaceRule(threshold=0.6, decay=0.5, grace=2)
ADAPTIVE: dict[str, Any] = {
    "adaptive_threshold": 1.0,  # never exceeded: gradients get rarer as soon as they may
    "adaptive_decay": 0.5,
    "adaptive_grace": 1,
}


def gaps(shares: Iterator[float], num_steps: int, rule: PaceRule = RULE) -> list[int]:
    """Return the numbers of the steps that are answered with a gradient."""
    pace, answered = Pace(), []
    for step in range(num_steps):
        if pace.is_due:
            answered.append(step)
            pace = pace.after_one(rule, next(shares))
        else:
            pace = pace.after_none()
    return answered


def always(share: float) -> Iterator[float]:
    while True:
        yield share


def test_a_critic_that_knows_its_images_is_asked_at_every_step() -> None:
    assert gaps(always(0.61), 9) == list(range(9))


def test_gradients_get_rarer_after_each_grace() -> None:
    assert gaps(always(0.6), 30) == [0, 1, 3, 5, 10, 15, 25]


def test_the_average_decides_and_not_the_last_share() -> None:
    pace = Pace().after_one(RULE, 1.0).after_one(RULE, 0.4)  # an average of .7
    assert (pace.rung, pace.average) == (0, 0.7)
    pace = pace.after_one(RULE, 0.4)  # .55
    assert pace == Pace(rung=1, average=0.5 * 0.7 + 0.5 * 0.4)
    assert pace.after_none().after_one(RULE, 0.9).rung == 1


def test_the_rarest_pace_is_the_last() -> None:
    eager = PaceRule(threshold=1.0, decay=0.0, grace=1)
    pace = Pace()
    for _ in range(40):
        pace = pace.after_one(eager, 0.0)
    assert pace.rung == 9


@pytest.mark.parametrize("pace", [Pace(), Pace(rung=3, waited=4, gradients=17, average=0.1 + 0.2)])
def test_what_was_packed_is_the_same_pace(pace: Pace) -> None:
    assert Pace.unpack(pace.pack()) == pace


def steps_of(subject: DpCgan, count: int, state: TrainedCritic, seed: int = 3) -> Any:
    noise, answers = SeededNoise(seed), []
    for turn in range(count):
        state, release = subject.gradient(state, samples(seed=turn), noise)
        answers.append(rows(release))
    return state, answers


def test_some_steps_are_answered_with_zeros_and_cost_the_same() -> None:
    subject = mechanism(**ADAPTIVE)
    state, answers = steps_of(subject, 8, subject.start(stream(subject)))
    given = [bool(answer.any()) for answer in answers]
    assert given == [True, False, True, False, False, False, False, True]
    assert all(answer.shape == (6, 6) for answer in answers)
    assert state.critic.num_updates == 24
    assert subject.step_event() == mechanism().step_event()


def test_critics_learn_alike_whether_they_are_asked_or_not() -> None:
    fixed, adaptive = mechanism(), mechanism(**ADAPTIVE)
    one, _ = steps_of(fixed, 4, fixed.start(stream(fixed)))
    other, _ = steps_of(adaptive, 4, adaptive.start(stream(adaptive)))
    assert torch.equal(one.critic.values, other.critic.values)


def test_the_share_is_of_scores_below_zero() -> None:
    subject = mechanism(critic="conv")
    shape = dp_critic_shape(subject.spec, SPACE)
    values = subject.start(iter(())).critic.values
    onehot = torch.eye(3)[samples(40).labels_N]
    given = Examples(images_ND=samples(40).images_ND, onehot_NL=onehot, are_records=False)
    found = scores(shape, parameters_of(shape, values), given.images_ND, onehot)
    assert 0 < int((found < 0).sum()) < 40
    assert share_recognised(shape, values, given) == int((found < 0).sum()) / 40


def test_the_rule_reads_the_updated_critic_and_the_images_that_were_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Tensor, Examples]] = []

    def noting(shape: Any, vector: Tensor, generated: Examples) -> float:
        seen.append((vector, generated))
        return 1.0

    monkeypatch.setattr(dp_cgan, "share_recognised", noting)
    subject = mechanism(**ADAPTIVE | {"adaptive_threshold": 0.5})
    state, _ = steps_of(subject, 1, subject.start(stream(subject)))
    ((vector, generated),) = seen
    assert torch.equal(vector, state.critic.values)
    assert torch.equal(generated.images_ND, samples(seed=0).images_ND)
    assert not generated.are_records
    assert state.pace == Pace(gradients=1, average=1.0)


def test_given_the_noised_sums_the_pace_does_not_depend_on_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject, kept = mechanism(**ADAPTIVE | {"adaptive_threshold": 0.5}), []
    original = example_sum.release_example_sum

    def recording(*arguments: Any, **named: Any) -> Release:
        kept.append(original(*arguments, **named))
        return kept[-1]

    monkeypatch.setattr(dp_cgan, "release_example_sum", recording)
    first, answers = steps_of(subject, 6, subject.start(stream(subject)))
    replayed = iter(kept[:])
    monkeypatch.setattr(dp_cgan, "release_example_sum", lambda *_, **__: next(replayed))
    other = stream(subject, records(7), SeededNoise(77))
    second, again = steps_of(subject, 6, subject.start(other), seed=99)
    assert first.pace == second.pace
    assert all(torch.equal(one, two) for one, two in zip(answers, again, strict=True))


@pytest.mark.parametrize("after", range(5))
def test_a_run_that_was_packed_withholds_the_same_answers(after: int) -> None:
    subject = mechanism(**ADAPTIVE)
    state, _ = steps_of(subject, after, subject.start(stream(subject)))
    tensors = subject.pack(state)
    assert tensors["pace"].dtype == torch.float64
    restored = subject.unpack(tensors, stream(subject))
    assert restored.pace == state.pace
    _, answers = steps_of(subject, 8 - after, restored, seed=4)
    wanted = [True, False, True, False, False, False, False, True]
    assert [bool(answer.any()) for answer in answers] == wanted[after:]


@pytest.mark.parametrize("missing", sorted(ADAPTIVE))
def test_a_rule_is_stated_whole_or_not_at_all(missing: str) -> None:
    with pytest.raises(ValidationError, match="all of them or none"):
        mechanism(**{name: value for name, value in ADAPTIVE.items() if name != missing})
    assert mechanism().spec.pace_rule is None
    assert mechanism(**ADAPTIVE).spec.pace_rule == PaceRule(threshold=1.0, decay=0.5, grace=1)


@pytest.mark.parametrize(
    "change", [{"adaptive_threshold": 1.1}, {"adaptive_decay": 1.0}, {"adaptive_grace": 0}]
)
def test_rules_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        mechanism(**ADAPTIVE | change)
