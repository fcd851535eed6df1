"""A signal asks once, and never touches what the program was in the middle of writing."""

from __future__ import annotations

import os
import signal

import pytest

from analyst.training.stop import stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_on_signals(quiet=False) as stop:
        assert not stop.wait(0.0)
        os.kill(os.getpid(), number)
        assert stop.wait(0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    assert f"{number.name}: stopping after this step" in capfd.readouterr().err


def test_quiet_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with stop_on_signals(quiet=True) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
    assert capfd.readouterr().err == ""
