"""One line that says where a run is: live on a terminal, now and then in a log, or quiet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO, final

from analyst.rehearsal import limit_text

_LIVE_INTERVAL_S = 0.1
_PLAIN_INTERVAL_S = 10.0
_WINDOW = 200
_BAR_WIDTH = 30
OPENING: Final = "the curator opens the run"
RELEASING: Final = (
    "the curator makes the run's one release, a pass of the same work whichever records there are "
    "(how far it is the steward alone is told: its pace could tell of them)"
)
_FIRST_WAIT_S = 10.0
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a run is."""

    step: int
    num_steps: int
    spent_epsilon: float
    budget_epsilon: float
    share_epsilon: float | None = None


@final
class Progress:
    """Writes the line; the rate and the remaining time come from the last 200 steps."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False
    ) -> None:
        """Write to `stream`, live if it is a terminal; only problems if `quiet`."""
        self._stream = stream
        self._clock = clock
        self._quiet = quiet
        self._is_terminal = stream.isatty()
        self._interval = _LIVE_INTERVAL_S if self._is_terminal else _PLAIN_INTERVAL_S
        self._recent: deque[tuple[float, int]] = deque(maxlen=_WINDOW)
        self._last_written: float | None = None
        self._bar: LiveBar | None = None

    def update(self, position: Position) -> None:
        """Note a step, and write the line if it is time or the run is complete."""
        now = self._clock()
        if self._recent and position.step <= self._recent[-1][1]:  # another run has begun
            self._recent.clear()
        self._recent.append((now, position.step))
        due = self._last_written is None or now - self._last_written >= self._interval
        if due or position.step >= position.num_steps:
            self._last_written = now
            self._write(position)

    def steps_per_s(self) -> float:
        """Return the recent rate; 0 before two steps."""
        if len(self._recent) < 2:
            return 0.0
        (start, first), (end, last) = self._recent[0], self._recent[-1]
        return (last - first) / (end - start) if end > start else 0.0

    def say(self, text: str) -> None:
        """Write a line of its own, below the live one, unless quiet."""
        if not self._quiet:
            self.warn(text)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Say now and then how long the block has lasted; for what tells nothing of itself.

        Args:
            text: What is waited for.
        """
        began, over = self._clock(), threading.Event()

        def tell() -> None:
            pause = _FIRST_WAIT_S
            while not over.wait(pause):
                self.say(f"{text}: {format_seconds(self._clock() - began)} so far")
                pause = min(2 * pause, _LONGEST_WAIT_S)

        thread = threading.Thread(target=tell, daemon=True, name="waiting")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def warn(self, text: str) -> None:
        """Write a line of its own about a problem, also when quiet."""
        self.finish()
        self._stream.write(text + "\n")
        self._stream.flush()

    def finish(self) -> None:
        """End the live line, so that what follows starts on a new one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _write(self, position: Position) -> None:
        if self._quiet:
            return
        if not self._is_terminal:
            self._stream.write(describe(position, self.steps_per_s()) + "\n")
            self._stream.flush()
            return
        if self._bar is None:
            self._bar = LiveBar(self._stream)
        share = position.step / position.num_steps
        self._bar.show(share, describe(position, self.steps_per_s()))


@final
class LiveBar:
    """Rewrites itself in place until it is stopped; then it stays."""

    def __init__(self, stream: TextIO) -> None:
        """Start on a new line of a terminal."""
        from rich.console import Console  # here: only a terminal needs rich
        from rich.live import Live

        console = Console(file=stream, highlight=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def show(self, share: float, text: str) -> None:
        """Write the bar again.

        Args:
            share: Of the whole, from 0 to 1.
            text: What to say beside it.
        """
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        width = max(0, min(_BAR_WIDTH, self._live.console.width - len(text) - 2))
        line = Table.grid(padding=(0, 1))
        words = Text(text, no_wrap=True, overflow="ellipsis")
        line.add_row(ProgressBar(total=1.0, completed=share, width=width), words)
        self._live.update(line, refresh=True)

    def stop(self) -> None:
        """Leave the last line as it is."""
        self._live.stop()


def describe(position: Position, steps_per_s: float) -> str:
    """Return the line: steps, rate, epsilon of the budget, remaining time."""
    left = position.num_steps - position.step
    eta = format_seconds(left / steps_per_s) if steps_per_s else "--:--"
    share = "" if position.share_epsilon is None else f" (your share: {position.share_epsilon:g})"
    return (
        f"step {position.step:,}/{position.num_steps:,}  "
        f"{100 * position.step / position.num_steps:3.0f}%  {steps_per_s:.1f} steps/s  "
        f"epsilon {position.spent_epsilon:.3f} of {limit_text(position.budget_epsilon)}{share}  "
        f"ETA {eta}"
    )


def format_seconds(seconds: float) -> str:
    """Return 'm:ss', 'h:mm:ss' or 'd days h:mm:ss'."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
