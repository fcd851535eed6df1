"""CUDA graphs without a card: what is done in a capture is written down and done again.

As with a real graph, a replay reads and writes the tensors of the capture, and runs no Python. What
makes the processor wait for a card cannot be captured, nor, with `tests.fakes.card`, what copies
from memory of the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU = torch.device("cpu")
_WAITING = {"_local_scalar_dense", "bincount", "masked_select", "nonzero", "_unique2"}


class FakeGraph:
    """Stands in the place of `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self.num_replays = 0

    def pool(self) -> tuple[int, int]:
        return (0, 0)

    def replay(self) -> None:
        self.num_replays += 1
        with torch.no_grad():
            for function, arguments, keywords, results in self.calls:
                again = tree_leaves(function(*arguments, **keywords))
                for old, new in zip(tree_leaves(results), again, strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, graph: FakeGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph
        self._before: list[tuple[Tensor, Tensor]] = []

    def undo(self) -> None:
        """Put back what was written: a capture runs nothing."""
        for one, old in reversed(self._before):
            one.data.copy_(old)  # of no version that autograd counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if func.overloadpacket.__name__ in _WAITING or len({one.device for one in given}) > 1:
            raise RuntimeError(f"{func} is not permitted when stream is capturing")
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written = args[place] if place < len(args) else (kwargs or {}).get(argument.name)
                self._before += [(one, one.clone()) for one in tree_leaves(written)]
        result = func(*args, **(kwargs or {}))
        self._graph.calls.append((func, args, kwargs or {}, result))
        return result


class FakeStream:
    def __init__(self, device: torch.device = CPU) -> None:
        self.device = device

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: FakeStream) -> None:
        pass


@contextmanager
def _graph(graph: FakeGraph, **_: object) -> Iterator[None]:
    with _Recording(graph) as recording:
        yield
    with torch.no_grad():
        recording.undo()


def install(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let a module that captures do so on the processor."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "graph", _graph)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(module, "_pinned", torch.zeros_like)
