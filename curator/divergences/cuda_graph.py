"""A function of tensors of fixed shapes as one CUDA graph, with its copies to and from the card.

A replay does the same work whatever the numbers are, and nothing in it waits for the processor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, final

import torch
from torch import Tensor

_WARM_UPS: Final = 3  # kernels are compiled and algorithms are chosen before anything is captured
_capturing = threading.Lock()


@final
class CapturedFunction:
    """A captured function: `start` hands arguments over, `wait` returns what came of them.

    One caller at a time: arguments and results lie in buffers that every replay uses again.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Tensor, ...]],
        examples: Sequence[Tensor],
        stream: torch.cuda.Stream,
    ) -> None:
        """Run the function on zeros and capture it.

        Args:
            function: From tensors on the card to tensors on the card, without waiting.
            examples: Tensors on the processor, of the shapes and types of the arguments.
            stream: Where to run; functions that share one run one after the other.
        """
        self._stream = stream
        with _capturing, torch.cuda.device(stream.device), torch.cuda.stream(stream):
            self._given = [_pinned(example) for example in examples]
            self.arguments = [one.to(stream.device) for one in self._given]
            results = function(*self.arguments)
            for _ in range(_WARM_UPS - 1):
                results = function(*self.arguments)
            self._taken = [_pinned(one) for one in results]
            stream.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
                _copy(self._given, self.arguments)
                self.results = function(*self.arguments)
                _copy(self.results, self._taken)

    def start(self, *arguments: Tensor) -> None:
        """Begin a replay.

        Args:
            *arguments: Tensors on the processor, of the shapes and types of the examples.
        """
        for buffer, argument in zip(self._given, arguments, strict=True):
            buffer.copy_(argument)
        with torch.cuda.stream(self._stream):
            self._graph.replay()

    def wait(self) -> tuple[Tensor, ...]:
        """Wait until everything on the stream is done."""
        self._stream.synchronize()
        return tuple(one.clone() for one in self._taken)


def _pinned(like: Tensor) -> Tensor:
    """Return zeros on the processor that a card copies without the processor's help."""
    return torch.zeros(like.shape, dtype=like.dtype, pin_memory=True)


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source, non_blocking=True)
