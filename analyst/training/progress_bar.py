"""A bar on a terminal, above the one line that says where a run is."""

from __future__ import annotations

from typing import TextIO, final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_BAR_WIDTH = 30


@final
class LiveBar:
    """Rewrites itself in place until it is stopped; then it stays."""

    def __init__(self, stream: TextIO) -> None:
        """Start on a new line of a terminal."""
        console = Console(file=stream, highlight=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def show(self, share: float, text: str) -> None:
        """Write the bar again.

        Args:
            share: Of the whole, from 0 to 1.
            text: What to say beside it.
        """
        width = max(0, min(_BAR_WIDTH, self._live.console.width - len(text) - 2))
        line = Table.grid(padding=(0, 1))
        words = Text(text, no_wrap=True, overflow="ellipsis")
        line.add_row(ProgressBar(total=1.0, completed=share, width=width), words)
        self._live.update(line, refresh=True)

    def stop(self) -> None:
        """Leave the last line as it is."""
        self._live.stop()
