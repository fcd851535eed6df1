"""While a curator serves, the steward's commands go through it and hold at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analyst.errors import BudgetExhausted, Refused, RequestRefused
from curator.administration.channel import CommandRefused, send
from curator.administration.commands import COMMANDS
from curator.administration.open_ledger import open_ledger_reader
from curator.config import CuratorConfig
from tests.e2e.conftest import SINKHORN, Process, batch, digits_folder, run_cli

pytestmark = pytest.mark.e2e

Serve = Callable[..., Process]


def tell(process: Process, **fields: object) -> str:
    """Send a command through the socket of a serving curator; return what it said."""
    if fields["kind"] != "share":
        fields["reason"] = "test"
    command = COMMANDS.validate_python({"dataset": "digits", **fields})
    lines = send(process.folder.socket, command)
    assert lines is not None, "nobody serves"
    return "\n".join(lines)


def cli(process: Process, *arguments: str) -> str:
    action, *rest = arguments
    where = ("--dir", str(process.folder.root))
    done = run_cli("curator", "dataset", action, "digits", *rest, *where)
    assert done.returncode == 0, done.stderr
    return done.stdout


def repeat(times: int, call: Callable[[], object]) -> None:
    for _ in range(times):
        call()


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.reason


def test_the_life_of_a_data_set_while_it_is_served(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    images, labels = batch()
    with process.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=200)
        run.gradient(images, labels)

        tell(process, kind="pause")
        assert refusal(lambda: run.gradient(images, labels)) == "DATASET_PAUSED"
        tell(process, kind="resume")
        run = barrier.resume_run(run.run_id)
        run.gradient(images, labels)

        said = cli(process, "policy", "--set", "min_noise_multiplier=2", "--set", "max_steps=9")
        assert "min_noise_multiplier 2" in said
        assert dict(barrier.describe("digits").policy) == {
            "min_noise_multiplier": "2",
            "max_steps": "9",
        }
        asked = lambda: barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)  # noqa: E731
        assert refusal(asked) == "POLICY_REFUSED"
        cli(process, "policy", "--clear", "min_noise_multiplier", "--clear", "max_steps")

        spent = barrier.budget("digits").spent
        tell(process, kind="cap", epsilon=spent / 2)
        with pytest.raises(BudgetExhausted):
            repeat(200, lambda: run.gradient(images, labels))
        assert barrier.budget("digits").spent == spent

        tell(process, kind="retire")
        assert not barrier.resume_run(run.run_id).is_open
        assert refusal(asked) == "DATASET_RETIRED"
        tell(process, kind="erase")
        assert not folder.images("digits").exists()
        assert barrier.budget("digits").status == "erased"
    assert process.terminate() == 0
    again = serve(folder)
    with again.connect() as barrier:
        assert barrier.budget("digits").spent == spent
        assert refusal(asked_of(barrier)) == "DATASET_RETIRED"
    again.terminate()
    ledger = open_ledger_reader(folder, CuratorConfig())
    ledger.verify()
    ledger.close()


def asked_of(barrier: object) -> Callable[[], object]:
    return lambda: barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)  # type: ignore[attr-defined]


def test_a_data_set_that_is_added_while_serving_is_served(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    with process.connect() as barrier:
        with pytest.raises(RequestRefused, match="no such data set"):
            barrier.describe("more")
        facts = ["--epsilon", "3", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record"]
        facts += ["--classes", "0,1,2,3,4,5,6,7,8,9", "--image-shape", "1x8x8", "--max-level", "16"]
        facts += ["--nominal-size", "1797", "--max-size", "2000", "--sampling-rate", "0.02"]
        facts += ["--max-shared", "1"]  # the other set's images are in it
        add = run_cli(
            *("curator", "dataset", "add", "more", "sklearn:digits", *facts, "--capacity", "96"),
            *("--dir", str(folder.root)),
        )
        assert add.returncode == 0, add.stderr
        assert barrier.describe("more").epsilon == 3.0
        run = barrier.open_run(
            "more", "dp-sinkhorn", SINKHORN | {"sampling_rate": 0.01}, num_steps=3
        )
        run.gradient(*batch())


def test_an_analyst_sees_its_own_share_and_nobody_else_s(tmp_path: Path, serve: Serve) -> None:
    process = serve(digits_folder(tmp_path / "curator"))
    tell(process, kind="share", analyst="alice", epsilon=4.0)
    with process.connect("alice") as alice, process.connect("bob") as bob:
        share = alice.budget("digits").share
        assert share is not None
        assert (share.epsilon, share.spent) == (4.0, 0.0)
        assert bob.budget("digits").share is None
        many = SINKHORN | {"noise_multiplier": 1.0}
        most = alice.plan("digits", "dp-sinkhorn", many).affordable_steps
        assert most < bob.plan("digits", "dp-sinkhorn", many).affordable_steps
        asked = lambda: alice.open_run("digits", "dp-sinkhorn", many, num_steps=most + 1)  # noqa: E731
        assert refusal(asked) == "ANALYST_BUDGET_EXHAUSTED"


def test_erasing_needs_the_name_twice(tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "curator")
    done = run_cli(
        *("curator", "dataset", "erase", "digits", "--reason", "x", "--dir", str(folder.root))
    )
    assert done.returncode == 1
    assert "--confirm digits" in done.stderr
    assert folder.images("digits").exists()


def test_retiring_needs_the_name_twice(tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "curator")
    retire = ("curator", "dataset", "retire", "digits", "--reason", "x", "--dir", str(folder.root))
    for wrong in ((), ("--confirm", "digit")):
        done = run_cli(*retire, *wrong)
        assert done.returncode == 1
        assert "retiring cannot be undone: add --confirm digits" in done.stderr
    done = run_cli(*retire, "--confirm", "digits")
    assert done.returncode == 0, done.stderr
    assert "digits: retired" in done.stdout


def test_a_cap_that_ends_all_steps_needs_the_name_twice(tmp_path: Path, serve: Serve) -> None:
    process = serve(digits_folder(tmp_path / "curator"))
    where = ("--dir", str(process.folder.root), "--reason", "x")
    cap = ("curator", "dataset", "cap", "digits", *where, "--epsilon")
    with process.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=200)
        run.gradient(*batch())
        budget = barrier.budget("digits")
        assert budget.spent < budget.reserved < 9
        assert run_cli(*cap, "9").returncode == 0  # leaves something
        between = str((budget.spent + budget.reserved) / 2)
        for epsilon, words in ((between, "open runs hold"), (str(budget.spent / 2), "is spent")):
            done = run_cli(*cap, epsilon)
            assert done.returncode == 1
            assert words in done.stderr
            assert "--confirm digits" in done.stderr
            assert barrier.budget("digits").epsilon == 9
        done = run_cli(*cap, between, "--confirm", "digits")
        assert done.returncode == 0, done.stderr
        assert barrier.budget("digits").epsilon == pytest.approx(float(between))


def test_a_serving_curator_tells_of_a_data_set_that_there_is_not(
    tmp_path: Path, serve: Serve
) -> None:
    process = serve(digits_folder(tmp_path / "curator"))
    with pytest.raises(CommandRefused, match=r"no data set 'digts'; 'curator dataset list' shows"):
        tell(process, kind="pause", dataset="digts")


def test_the_same_images_stay_known_after_they_were_erased(tmp_path: Path, serve: Serve) -> None:
    folder = digits_folder(tmp_path / "curator")
    where = ("--dir", str(folder.root))
    process = serve(folder)
    with process.connect() as barrier:
        barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=1)
    process.terminate()
    run_cli("curator", "dataset", "erase", "digits", "--reason", "x", "--confirm", "digits", *where)
    facts = ["--epsilon", "3", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record"]
    facts += ["--classes", "0,1,2,3,4,5,6,7,8,9", "--image-shape", "1x8x8", "--max-level", "16"]
    facts += ["--nominal-size", "1437", "--max-size", "2000", "--sampling-rate", "0.02"]
    done = run_cli(
        *("curator", "dataset", "add", "again", "sklearn:digits-private", *facts),
        *("--capacity", "96", *where),
    )
    assert done.returncode == 1
    assert "registered as 'digits'" in done.stderr
    assert not folder.images("again").exists()


def test_a_ledger_that_was_put_back_is_refused_and_accepted_on_record(
    tmp_path: Path, serve: Serve
) -> None:
    folder = digits_folder(tmp_path / "curator")
    where = ("--dir", str(folder.root))
    process = serve(folder)
    copy = tmp_path / "copy.sqlite"
    with process.connect() as barrier:
        barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=50)
        assert run_cli("curator", "ledger", "backup", "--out", str(copy), *where).returncode == 0
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=70)
        run.gradient(*batch())
        reserved = barrier.budget("digits").reserved
    process.kill()
    for left in folder.root.glob("ledger.sqlite-*"):
        left.unlink()
    folder.ledger.write_bytes(copy.read_bytes())
    served = run_cli("curator", "serve", "--grpc-port", "0", "--rest-port", "0", *where)
    assert served.returncode == 3
    assert "older copy" in served.stderr
    accepted = run_cli("curator", "ledger", "accept-restored", "--reason", "the disk broke", *where)
    assert accepted.returncode == 0, accepted.stderr
    ledger = open_ledger_reader(folder, CuratorConfig())
    assert ledger.statement("digits").spent_epsilon == reserved
    ledger.close()
    again = serve(folder)
    with again.connect() as barrier:
        assert barrier.budget("digits").spent == reserved
