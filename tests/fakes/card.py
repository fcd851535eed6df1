"""A graphics card that is none: its tensors lie in the processor's memory, and meet no other ones.

They say that they are on `meta`, the only other device of every torch. What is computed on the card
is what torch computes on the processor, so results are the processor's; what a test sees is that
every operand was put where it belongs. As on a card, a tensor has no NumPy array, and one number
may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CARD = torch.device("meta")
_COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class CardTensor(Tensor):
    """A tensor that says that it is on the card."""

    value: Tensor

    @staticmethod
    def __new__(cls, value: Tensor) -> Self:
        made: Self = torch.Tensor._make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=CARD,
        )
        made.value = value
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


class _Card(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on what the tensors hold.

    Raises:
        RuntimeError: If tensors of both devices meet.
    """
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    known = {id(one.value): one for one in tensors if isinstance(one, CardTensor)}
    if known and func not in _COPIES:
        strangers = [one for one in tensors if not isinstance(one, CardTensor) and one.ndim]
        if strangers:
            msg = f"{func} was given tensors on the card and on the processor"
            raise RuntimeError(msg)
    wanted = kwargs.get("device")
    is_on_card = bool(known) if wanted is None else torch.device(wanted).type == CARD.type
    if func is torch.ops.aten.copy_.default:
        is_on_card = isinstance(args[0], CardTensor)
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map(_held, (args, kwargs))
    result = func(*args, **kwargs)
    if not is_on_card:
        return result

    def shown(one: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        return known[id(one)] if id(one) in known else CardTensor(one)

    return tree_map(shown, result)


def _held(one: Any) -> Any:
    return one.value if isinstance(one, CardTensor) else one


@contextmanager
def pretended_card() -> Iterator[torch.device]:
    """Let tensors be put on the card that is yielded."""
    from_numbers = torch.tensor  # asks no mode

    def tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
        return from_numbers(data, **options).to(device or "cpu")

    with patch.object(torch, "tensor", tensor), _Card():  # type: ignore[no-untyped-call]
        yield CARD
