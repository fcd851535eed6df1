"""An adaptation with several curators as a user meets it: losses, resume, what is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.cli import Connect, ConnectionConfig, ExitCode, main
from analyst.errors import CuratorUnreachable
from analyst.training.checkpoint import checkpoint_store
from tests.fakes.adaptation import table, toml, write_digits
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error

BOTH = ("--curator", "a:1", "--curator", "b:2", "--insecure-loopback")


class Site:
    """Two curators, a public file and an output directory."""

    def __init__(self, folder: Path, *epsilons: float) -> None:
        datasets = [FakeDataset(epsilon=epsilon, nominal_size=1000) for epsilon in epsilons]
        self.barriers = dict(zip(("a:1", "b:2"), map(FakeBarrier, datasets), strict=True))
        self.out, self.file = folder / "run", folder / "recipe.toml"
        self.source = folder / "source.npz"
        write_digits(self.source, 300)
        self.file.write_text(toml(table(training__warm_up=2, session__retry_for_s=0.0)))

    def __call__(self, *options: str, gone: tuple[str, ...] = ()) -> int:
        given = ("adapt", "train", "--source", str(self.source), "--out", str(self.out))
        return main([*given, *options], connect=self._connect(gone))

    def start(self, *options: str) -> int:
        return self(*BOTH, "--recipe", str(self.file), *options)

    def _connect(self, gone: tuple[str, ...]) -> Connect:
        def connect(config: ConnectionConfig) -> FakeBarrier:
            if config.target in gone:
                raise make_error(CuratorUnreachable)
            return self.barriers[config.target]

        return connect

    @property
    def used(self) -> list[int]:
        return [sum(a.used for a in one.accounts.values()) for one in self.barriers.values()]

    def fails(self, name: str, at: int) -> None:
        def fail(run: FakeRun) -> None:
            if run.next_step == at:
                raise make_error(CuratorUnreachable)

        self.barriers[name].before_gradient = fail

    def mend(self) -> None:
        for barrier in self.barriers.values():
            barrier.before_gradient = lambda run: None

    def updates(self) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.out / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] == "update"]


def test_all_are_asked_and_each_keeps_its_own_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "certificate", '{"signed": 1}', raising=False)
    site = Site(tmp_path, 20.0, 50.0)
    assert site.start() == ExitCode.OK
    assert site.used == [6, 6]
    rates = [one.opened[0][1]["sampling_rate"] for one in site.barriers.values()]
    assert rates == [0.04, 0.04]
    last = site.updates()[-1]
    assert (last["a:1.budget_epsilon"], last["b:2.budget_epsilon"]) == (20.0, 50.0)
    names = sorted(path.name for path in (site.out / "certificates").iterdir())
    assert names == ["1-a-1.json", "2-b-2.json"]
    assert site.start() == ExitCode.FILES  # it holds a run
    assert site(*BOTH, "--resume") == ExitCode.OK  # there is nothing left to do
    assert site.used == [6, 6]


def test_in_turn_each_answers_its_part(tmp_path: Path) -> None:
    site = Site(tmp_path, 20.0, 50.0)
    assert site.start("--combine", "round-robin", "--set", "training.steps=5") == ExitCode.OK
    assert site.used == [3, 2]


def test_a_loss_stops_and_a_resumed_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path, 20.0, 20.0)
    site.fails("b:2", at=3)
    assert site.start() == ExitCode.UNREACHABLE
    error = capsys.readouterr().err
    assert "curator b:2: no answer" in error
    again = f"analyst adapt train --source {site.source} --resume --out {site.out} --curator a:1"
    assert again in error
    site.mend()
    assert site("--curator", "a:1", "--insecure-loopback", "--resume") == ExitCode.RECIPE
    assert "holds a run of several curators" in capsys.readouterr().err
    assert site(*BOTH, "--resume", "--combine", "round-robin") == ExitCode.RECIPE
    assert site(*BOTH, "--resume", gone=("b:2",)) == ExitCode.UNREACHABLE
    assert site(*BOTH, "--resume") == ExitCode.OK
    assert site.used == [6, 5]  # the third answer of the first curator is gone
    assert len(site.updates()) == 5


def test_continue_goes_on_with_the_other_and_closes_what_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, 20.0, 4.0)
    site.fails("b:2", at=3)

    def close(run: FakeRun) -> None:
        if run.barrier is site.barriers["b:2"]:
            raise make_error(CuratorUnreachable)

    with monkeypatch.context() as patch:
        patch.setattr(FakeRun, "close", close)
        assert site.start("--on-loss", "continue") == ExitCode.OK
    assert site.used == [6, 2]
    error = capsys.readouterr().err
    assert "going on with a:1" in error
    assert "run run-0 at b:2 could not be closed" in error
    site.mend()
    assert site(*BOTH, "--resume") == ExitCode.OK
    assert site.barriers["b:2"].accounts["run-0"].closed
    assert site.used == [6, 2]


def test_resumed_in_parts_it_is_the_same_run(tmp_path: Path) -> None:
    whole, parts = Site(tmp_path, 20.0, 20.0), Site(tmp_path, 20.0, 20.0)
    whole.out, parts.out = tmp_path / "whole", tmp_path / "parts"
    assert whole.start() == ExitCode.OK
    for name in parts.barriers:
        parts.fails(name, at=4)
    assert parts.start() == ExitCode.UNREACHABLE
    parts.mend()
    assert parts(*BOTH, "--resume") == ExitCode.OK
    expected, actual = (checkpoint_store(one.out).load()[0] for one in (whole, parts))
    assert all(torch.equal(tensor, actual[name]) for name, tensor in expected.items())
    assert [one.asked for one in whole.barriers.values()] == [
        one.asked for one in parts.barriers.values()
    ]


def test_features_have_no_release_to_add(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path, 20.0, 20.0)
    assert site.start("--combine", "sum") == ExitCode.RECIPE
    assert "has no release to add" in capsys.readouterr().err
    assert not any(one.opened for one in site.barriers.values())
    assert site("--curator", "a:1", "--insecure-loopback", "--recipe", str(site.file)) == 0
    assert site(*BOTH, "--resume") == ExitCode.RECIPE
    assert "holds no run of several curators" in capsys.readouterr().err
