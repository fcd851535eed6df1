"""A chain through a real curator: planned as it is charged, killed anywhere, resumed, certified."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst.chains.certificates import certified_parts
from analyst.chains.folder import Chain, read_chain
from analyst.chains.plan import ChainPlan, plan_chain
from analyst.chains.recipe import ChainRecipe, load_chain
from analyst.chains.session import begin_chain, run_chain
from analyst.cli import ExitCode, main
from analyst.errors import AnalystError, CertificateError, CheckpointError
from analyst.evaluation.augment import augmented
from analyst.evaluation.image_file import load_images
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.gaussian import GaussianEvent
from tests.e2e.conftest import Local, credentials
from tests.fakes.adaptation import Stop, StopAfter

pytestmark = pytest.mark.e2e

SMALL: dict[str, Any] = {
    "first.mechanism.num_features": 40,
    "first.generator.width": 8,
    "first.training.steps": 6,
    "first.samples": 60,
    "first.session.checkpoint_every": 2,
    "sums.mechanism.num_features": 8,
    "sums.source.epochs": 1,
    "sums.training.steps": 2,
    "second.training.steps": 4,
    "second.session.checkpoint_every": 2,
    "second.samples": 61,
}


def small(**changes: Any) -> ChainRecipe:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return load_chain("two-stage-digits", SMALL | named)


def access(local: Local) -> list[str]:
    target = f"localhost:{local.curator.rpc.port}"
    return ["--curator", target, "--credentials", str(credentials(local.folder, "alice"))]


def precision(plan: ChainPlan) -> float:
    """Return the sum of steps over squared noise: what Gaussian releases add up."""
    return sum(part.num_steps / part.noise_multiplier**2 for part in plan.parts)


@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.2])
def test_the_parts_together_are_the_budget_and_never_above(local: Local, epsilon: float) -> None:
    """All parts are Gaussian, so one release of their precision costs what they do together."""
    with local.connect() as barrier:
        plan = plan_chain(barrier, small(budget__epsilon=epsilon))
        assert plan.fits
        after = [part.epsilon_after for part in plan.parts]
        assert after == sorted(after)
        assert epsilon - 0.05 * min(1.0, epsilon) < after[-1] <= epsilon
        event = GaussianEvent(noise_multiplier=precision(plan) ** -0.5)
        assert pld_epsilon(event, 1, 1e-4) <= after[-1]  # by the other accountant
        for part in plan.parts:
            taken = part.num_steps / part.noise_multiplier**2 / precision(plan)
            assert taken == pytest.approx(part.share, rel=5e-3)
            assert 0 < part.epsilon_alone < part.epsilon_after
        assert barrier.budget("digits").spent == 0  # asking was free


def test_a_part_of_three_is_told_with_all_before_it(local: Local, tmp_path: Path) -> None:
    """What was spent before counts; a share is one of what is left."""
    text = Path("analyst/chains/two-stage-digits.toml").read_text(encoding="utf-8")
    more = text.partition("[stage.sums]")[2].partition("[stage.second]")[0]
    (tmp_path / "three.toml").write_text(f"{text}\n[stage.more]{more}")
    with local.connect() as barrier:
        spent = plan_chain(barrier, small()).parts[0]
        sent = {**EMBEDDED, "noise_multiplier": 4.0}
        with barrier.open_run("digits", "mean-embedding", sent, num_steps=1):
            pass
        before = barrier.budget("digits").spent
        plan = plan_chain(barrier, load_chain(str(tmp_path / "three.toml"), {}))
    assert [part.stage for part in plan.parts] == ["first", "sums", "more"]
    assert before < plan.parts[0].epsilon_after < plan.parts[1].epsilon_after
    assert 9.95 < plan.parts[2].epsilon_after <= 10
    assert plan.parts[1].noise_multiplier == pytest.approx(plan.parts[2].noise_multiplier, rel=2e-3)
    assert spent.noise_multiplier < plan.parts[0].noise_multiplier


EMBEDDED = {
    "num_features": 20, "bandwidths": [2.5], "feature_seed": 1, "count_scale": 0.5,
}  # fmt: skip


class KilledError(BaseException):
    """The process is gone: nothing is saved any more."""


class Life:
    """Ends after so many calls, each of which has happened."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError

    def lived(self, of: Any) -> Any:
        """Return an object whose calls take from this life, and whose runs do."""
        return _Mortal(of, self)

    @property
    def asked(self) -> bool:  # as of a `Stop`
        self.spend()
        return False

    def wait(self, seconds: float) -> bool:
        del seconds
        return False


class _Mortal:
    def __init__(self, of: Any, life: Life) -> None:
        self._of, self._life = of, life

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            made = value(*args, **options)
            self._life.spend()
            return self._life.lived(made) if hasattr(made, "next_step") else made

        return call


def test_a_chain_that_is_killed_after_each_call_is_paid_once(local: Local, tmp_path: Path) -> None:
    out, quiet = tmp_path / "chain", Progress(io.StringIO())
    with local.connect() as barrier:
        chain = begin_chain(barrier, small(budget__epsilon=5.0), out)
        text = (out / "chain.json").read_bytes()
        deaths, calls = 0, 0
        while True:
            life, calls = Life(calls), calls + 1
            try:
                assert run_chain(life.lived(barrier), read_chain(out), quiet, life) is (
                    Outcome.COMPLETED
                )
                break
            except KilledError:
                deaths += 1
                assert barrier.budget("digits").reserved <= chain.parts[-1].epsilon_after
        assert deaths > 10
        assert barrier.budget("digits").spent == chain.parts[-1].epsilon_after <= 5.0
        assert len(barrier.runs().runs) == 2
    assert (out / "chain.json").read_bytes() == text
    check_products(chain)


def check_products(chain: Chain) -> None:
    """Check that what the stages made is there, whole, in the shapes of other commands."""
    for stage, count in (("first", 60), ("second", 61)):
        with np.load(chain.images(stage)) as file:
            assert file["images"].shape == (count, 8, 8)
            assert np.bincount(file["labels"]).min() >= count // 10 - 1
    assert chain.images() == chain.images("second")
    _, sums = checkpoint_store(chain.home("sums")).load()
    assert (sums.finished, sums.num_updates) == (True, 2)  # no answer was lost
    runs = {member: checkpoint_store(chain.home("second", member)).load() for member in (0, 1)}
    assert runs[0][1].recipe["training"]["seed"] + 1 == runs[1][1].recipe["training"]["seed"]
    assert all(one.dataset["teacher_run"] == sums.run_id for _, one in runs.values())
    parts = certified_parts(chain.out)
    assert [one.part.stage for one in parts] == ["first", "sums"]
    spent = [one.verified.statement["dataset"]["spent_epsilon"] for one in parts]
    assert spent == [part.epsilon_after for part in chain.parts]


def test_the_commands_plan_train_go_on_and_verify(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, sets = tmp_path / "chain", [w for k, v in SMALL.items() for w in ("--set", f"{k}={v}")]
    what = ["--recipe", "two-stage-digits", "--budget", "3", *sets]
    assert main(["plan", *access(local), *what]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "asked       up to epsilon 3, 2 releases as one plan: epsilon 2.99" in text
    assert "free: second, 2 trained on the release of first" in text
    assert main(["plan", *access(local), *what, "--json"]) == ExitCode.OK
    planned = json.loads(capsys.readouterr().out)
    for more in (["--for-steps", "3"], ["--plot"], ["--over", "noise"]):
        assert main(["plan", *access(local), *what, *more]) == ExitCode.RECIPE
    train = ["train", *access(local), "--out", str(out)]
    for more in (["--start-from", "x"], ["--steps", "3"]):
        assert main([*train, *what, *more]) == ExitCode.RECIPE
    assert not out.exists()
    capsys.readouterr()
    assert main([*train, *what]) == ExitCode.OK
    told = capsys.readouterr().err
    assert "stage 2 of 3, sums: linear-teacher-digits" in told
    assert f"finished: the images are {out / 'second.npz'}" in told
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == planned["epsilon_after"]
    assert main([*train, *what]) == ExitCode.FILES  # there is one
    assert main([*train, "--resume", "--set", "first.samples=9"]) == ExitCode.RECIPE
    assert main([*train, "--resume", "--json"]) == ExitCode.OK  # there is nothing left to do
    assert json.loads(capsys.readouterr().out)["parts"] == planned["parts"]
    verify = ["certificate", "verify", str(out)]
    assert main([*verify, *access(local)[2:]]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "stage      sums: 30.0% of the shares" in text
    assert text.endswith("the signature holds, and it is your curator's\n")
    assert main([*verify, "--json"]) == ExitCode.UNKNOWN_SIGNER
    answer = json.loads(capsys.readouterr().out)
    assert [one["part"] for one in answer] == planned["parts"]
    sums, first = (out / name / "certificate.json" for name in ("sums", "first"))
    sums.write_bytes(first.read_bytes())
    assert main(verify) == ExitCode.FAILED
    assert "of another run than stage 'sums'" in capsys.readouterr().err
    sample = ["sample", "--out-of", str(out), "--count", "9", "--out", str(tmp_path / "s.npz")]
    assert main(sample) == ExitCode.FILES
    assert "of a chain STAGE or STAGE/member-1" in capsys.readouterr().err


def test_a_map_refines_the_images_and_a_stop_is_heard_between_stages(
    local: Local, tmp_path: Path
) -> None:
    recipe = tmp_path / "refined.toml"
    recipe.write_text(
        """
        [about]
        title = "a map and refined images"
        source = "a test"
        [budget]
        epsilon = 8.0
        [training]
        dataset = "digits"
        seed = 3
        [stage.first]
        kind = "generator"
        recipe = "embedding-digits"
        share = 0.5
        samples = 100
        set.training.steps = 5
        [stage.map]
        kind = "teacher"
        recipe = "linear-teacher-digits"
        share = 0.5
        source = "first"
        set.source.epochs = 1
        set.training.steps = 3
        [stage.refined]
        kind = "refine"
        source = "first"
        teacher = "map"
        augment = 0.5
        """,
        encoding="utf-8",
    )
    said = io.StringIO()
    with local.connect() as barrier:
        chain = begin_chain(barrier, load_chain(str(recipe), {}), tmp_path / "chain")
        stopped = run_chain(barrier, chain, Progress(io.StringIO()), StopAfter(0))
        assert stopped is Outcome.STOPPED
        assert barrier.budget("digits").reserved == 0
        assert run_chain(barrier, chain, Progress(said), Stop()) is Outcome.COMPLETED
        assert barrier.budget("digits").spent == chain.parts[-1].epsilon_after
    assert chain.images() == chain.images("refined")
    refined, first = load_images(chain.images()), load_images(chain.images("first"))
    assert np.array_equal(refined.images, augmented(first, 0.5, seed=3).images)
    differ = int((refined.labels != first.labels).sum())
    assert f"the teacher disagrees with {differ} of 100 labels" in said.getvalue()


def test_what_cannot_be_trained_is_told_before_anything_is_charged(
    local: Local, tmp_path: Path
) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"sums__mechanism__max_size": 1000}, "max_size"),
        ({"session__device": "cuda:99"}, "cuda"),
    ]
    with local.connect() as barrier:
        for changes, words in wrong:
            with pytest.raises(AnalystError, match=words):
                begin_chain(barrier, small(**changes), tmp_path / "chain")
        assert not (tmp_path / "chain").exists()
        assert barrier.budget("digits").reserved == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda text: text.replace('"key"', '"keys"'),
        lambda text: json.dumps(json.loads(text) | {"stages": {}}),
        lambda text: json.dumps(json.loads(text) | {"parts": [{"stage": "first"}]}),
    ],
)
def test_a_damaged_file_is_named(
    local: Local, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    out = tmp_path / "chain"
    with pytest.raises(CheckpointError, match="no chain"):
        read_chain(out)
    with local.connect() as barrier:
        begin_chain(barrier, small(), out)
    path = out / "chain.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(CheckpointError, match="cannot read the chain"):
        read_chain(out)
    with pytest.raises((CertificateError, CheckpointError)):
        certified_parts(out)
