"""Updates as two CUDA graphs: forward with its copies, and backward with Adam and the averages.

A step of a small generator is a hundred kernels of a few microseconds, so launching them one by one
takes longer than running them. The numbers are those of the eager step but for rounding: the fused
Adam and the algorithms that cuDNN finds fastest for these shapes add in another order.

Shapes: N rows, Z latent dimensions, C channels, H height, W width.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, final

import torch
from torch import Tensor

from analyst.errors import RecipeError
from analyst.generators.decoded import sent_rows
from analyst.training.state import TrainingState

_WARM_UPS: Final = 3  # algorithms are chosen and memory is found before anything is captured


@final
class CapturedUpdates:
    """See `Updates`. The processor waits once a step, for the images that it has to send.

    Where they are not sent it waits for the step before, whose buffers it fills.
    """

    def __init__(
        self,
        state: TrainingState,
        device: torch.device,
        memory_format: torch.memory_format = torch.contiguous_format,
        *,
        are_images_sent: bool = True,
    ) -> None:
        """Let the optimizer keep all that it changes on the card.

        Args:
            state: Changed in place; its tensors are the same objects from here on.
            device: A graphics card, where the generator is.
            memory_format: Of the generator's four-dimensional weights.
            are_images_sent: Whether images go to the processor, and gradients come from there.
        """
        self._are_sent = are_images_sent
        self._state = state
        self._device = device
        self._rate = torch.zeros((), device=device)
        self._sent_rate = _pinned(self._rate)
        self._steps: dict[int, _CapturedStep] = {}
        self._last: _CapturedStep | None = None
        _prepare(state, self._rate, memory_format)

    def images(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """See `Updates`; overwritten by the next call.

        Raises:
            RecipeError: If the generator cannot be captured.
        """
        step = self._steps.get(len(labels_N))
        if step is None:
            step = self._steps[len(labels_N)] = self._captured(latents_NZ, labels_N)
        self._last = step
        stream = torch.cuda.current_stream(self._device)
        if not self._are_sent:
            stream.synchronize()  # the last replays have read what is written now
        step.latents_NZ.copy_(latents_NZ)
        step.labels_N.copy_(labels_N)
        step.forward.replay()
        if self._are_sent:
            stream.synchronize()
        return step.images_NCHW

    def apply(self, gradient_NCHW: Tensor, rate: float) -> None:
        """See `Updates`; the processor does not wait for the card.

        Raises:
            ValueError: If there are no images.
        """
        step, self._last = self._last, None
        if step is None:
            msg = "a gradient needs images to flow through"
            raise ValueError(msg)
        step.gradient_NCHW.copy_(gradient_NCHW)  # the last replay has read it: images waited
        self._sent_rate.fill_(rate)
        step.backward.replay()

    def catch_up(self) -> None:
        """See `Updates`: all of a step is in its graph."""

    def _captured(self, latents_NZ: Tensor, labels_N: Tensor) -> _CapturedStep:
        try:
            with torch.cuda.device(self._device), _fastest_algorithms():
                return _CapturedStep(
                    self._state,
                    latents_NZ,
                    labels_N,
                    (self._sent_rate, self._rate),
                    are_sent=self._are_sent,
                )
        except RuntimeError as error:
            message = f"this generator's step cannot be captured as a CUDA graph: {error}"
            raise RecipeError(message, "Leave session.cuda_graph out.") from None


@final
class _CapturedStep:
    """Both graphs for one number of rows, and the buffers that they copy from and to."""

    def __init__(
        self,
        state: TrainingState,
        latents_NZ: Tensor,
        labels_N: Tensor,
        rate: tuple[Tensor, Tensor],
        *,
        are_sent: bool,
    ) -> None:
        """Run a step that is undone, then capture.

        Args:
            state: As it was at the end.
            latents_NZ: Of the shape of every step's.
            labels_N: The same; class indices that exist.
            rate: Learning rate on the processor, and where the optimizer reads it.
            are_sent: Whether images and gradients are copied to and from the processor.
        """
        device = rate[1].device
        self.latents_NZ, self.labels_N = _pinned(latents_NZ), _pinned(labels_N)
        self.latents_NZ.copy_(latents_NZ)
        self.labels_N.copy_(labels_N)
        latents, labels = self.latents_NZ.to(device), self.labels_N.to(device)

        def forward() -> Tensor:
            latents.copy_(self.latents_NZ, non_blocking=True)
            labels.copy_(self.labels_N, non_blocking=True)
            return sent_rows(state.model, latents, labels)

        def backward(images: Tensor) -> None:
            if are_sent:
                gradient.copy_(self.gradient_NCHW, non_blocking=True)
            rate[1].copy_(rate[0], non_blocking=True)
            torch.autograd.backward([images], [gradient])
            state.optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(  # one kernel in place of one for each weight
                    list(state.ema.weights.values()),
                    list(state.model.parameters()),
                    1 - state.ema.decay,
                )

        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        state.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.stream(stream), _undone(state), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a capturable step that runs eagerly
            images = forward()
            gradient = torch.zeros_like(images)
            sent = _pinned(images) if are_sent else None
            self.gradient_NCHW = _pinned(images) if are_sent else gradient
            backward(images)
            for _ in range(_WARM_UPS - 1):
                state.optimizer.zero_grad(set_to_none=True)
                backward(forward())
            del images
        state.optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        graph = partial(torch.cuda.graph, stream=stream, capture_error_mode="thread_local")
        with graph(self.forward):
            images = forward()
            made = images.detach()
            if sent is not None:
                sent.copy_(made, non_blocking=True)
        self.images_NCHW = made if sent is None else sent
        with graph(self.backward, pool=self.forward.pool()):
            backward(images)


@torch.no_grad()
def _prepare(state: TrainingState, rate: Tensor, memory_format: torch.memory_format) -> None:
    """Lay weights, averages and moments out alike, with the optimizer's counts on the card."""
    optimizer = state.optimizer
    for group in optimizer.param_groups:
        group |= {"capturable": True, "fused": True, "foreach": False, "lr": rate}
    for name, weight in state.model.named_parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=memory_format)
        state.ema.weights[name] = torch.empty_like(weight).copy_(state.ema.weights[name])
        known = optimizer.state[weight]
        optimizer.state[weight] = {
            "step": torch.zeros((), device=rate.device).add_(float(known.get("step", 0.0))),
            **{
                moment: torch.zeros_like(weight).add_(known.get(moment, 0.0))
                for moment in ("exp_avg", "exp_avg_sq")
            },
        }


@contextmanager
def _undone(state: TrainingState) -> Iterator[None]:
    """Put everything back that steps in the block change."""
    changed = [*state.model.parameters(), *state.model.buffers(), *state.ema.weights.values()]
    for moments in state.optimizer.state.values():
        changed += moments.values()
    before = [one.detach().clone() for one in changed]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, old in zip(changed, before, strict=True):
                one.copy_(old)


@contextmanager
def _fastest_algorithms() -> Iterator[None]:
    """Let cuDNN try its algorithms on these shapes, which never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _pinned(like: Tensor) -> Tensor:
    """Return zeros on the processor that a card copies without the processor's help."""
    return torch.zeros(like.shape, dtype=like.dtype, pin_memory=True)
