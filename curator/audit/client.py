"""The attacker: nothing but the generated stubs, one token and the curator's certificate."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, final

import grpc
import numpy as np
import numpy.typing as npt

from curator.audit.target import Target
from curator.privacy.records import Samples
from protos.weir.v1 import release_pb2, run_pb2, service_pb2_grpc, tensor_pb2

Answer = npt.NDArray[np.float64]

_SECONDS = 60.0
_DTYPES: dict[tensor_pb2.DataType.ValueType, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
}


class AnswerFailed(RuntimeError):
    """The curator answered with its opaque internal error."""


class BudgetSpent(RuntimeError):
    """The data set cannot afford the run."""


@final
class Client:
    """One analyst's connection, over TLS as usual."""

    def __init__(self, port: int, credentials: Path) -> None:
        """Connect.

        Args:
            port: Of the curator, on this machine.
            credentials: The file that a steward hands over.
        """
        content = json.loads(credentials.read_bytes())
        tls = grpc.ssl_channel_credentials(content["certificate_authority"].encode())
        self._metadata = (("authorization", f"Bearer {content['token']}"),)
        self._channel = grpc.secure_channel(f"localhost:{port}", tls)
        self._stub = service_pb2_grpc.WeirServiceStub(self._channel)

    def affordable_steps(self, dataset: str, target: Target) -> int:
        """Return how many steps the rest of a budget affords.

        Args:
            dataset: Its name.
            target: What would run.
        """
        request = run_pb2.PlanRunRequest(dataset=dataset, choice=_choice(target), num_steps=1)
        plan = self._stub.PlanRun(request, timeout=_SECONDS, metadata=self._metadata)
        return plan.affordable_steps

    def open_run(self, dataset: str, target: Target, num_steps: int) -> str:
        """Open a run.

        Args:
            dataset: Its name.
            target: What runs.
            num_steps: Declared steps.

        Returns:
            The run's id.

        Raises:
            AnswerFailed: If the curator answered with an internal error.
            BudgetSpent: If the data set cannot afford it.
        """
        request = run_pb2.OpenRunRequest(
            dataset=dataset,
            choice=_choice(target),
            num_steps=num_steps,
            idempotency_key=secrets.token_hex(16),
        )
        with _outcomes():
            state = self._stub.OpenRun(request, timeout=_SECONDS, metadata=self._metadata)
        return state.run_id

    def step(self, run_id: str, step: int, shape: tuple[int, ...], samples: Samples) -> Answer:
        """Ask for one gradient.

        Args:
            run_id: The run.
            step: Counted from 1.
            shape: Channels, height and width.
            samples: What is sent.

        Returns:
            The numbers of the answer, exactly.

        Raises:
            AnswerFailed: If the curator answered with an internal error.
        """
        request = _encode(run_id, step, shape, samples)
        with _outcomes():
            response = self._stub.Step(request, timeout=_SECONDS, metadata=self._metadata)
        return np.concatenate([_decode(block) for block in response.gradient])

    def download(self, run_id: str) -> Answer:
        """Download the one release of a run.

        Args:
            run_id: The run.

        Returns:
            Its numbers, exactly.

        Raises:
            AnswerFailed: If the curator answered with an internal error.
        """
        request = release_pb2.DownloadReleaseRequest(run_id=run_id)
        with _outcomes():
            response = self._stub.DownloadRelease(
                request, timeout=_SECONDS, metadata=self._metadata
            )
        return np.concatenate([_decode(block) for block in response.blocks])

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


@contextmanager
def _outcomes() -> Iterator[None]:
    """Turn failed calls that are outcomes into exceptions; any other is the audit's own trouble.

    Raises:
        AnswerFailed: For the opaque internal error.
        BudgetSpent: If a data set cannot afford the request.
        RpcError: As it came.
    """
    try:
        yield
    except grpc.RpcError as error:
        match cast("grpc.Call", error).code():
            case grpc.StatusCode.INTERNAL:
                raise AnswerFailed from None
            case grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise BudgetSpent from None
            case _:
                raise


def _choice(target: Target) -> run_pb2.MechanismChoice:
    return run_pb2.MechanismChoice(mechanism=target.mechanism, parameters=target.parameters_json)


def _encode(
    run_id: str, step: int, shape: tuple[int, ...], samples: Samples
) -> release_pb2.StepRequest:
    rows = len(samples.labels_N)
    if samples.weights:
        features = _floats(samples, tuple(samples.images_ND.shape))
        return release_pb2.StepRequest(
            run_id=run_id, step=step, features=features, weights=samples.weights
        )
    return release_pb2.StepRequest(
        run_id=run_id,
        step=step,
        images=_floats(samples, (rows, *shape)),
        labels=tensor_pb2.Tensor(
            data=samples.labels_N.numpy().astype("<i8").tobytes(),
            data_type=tensor_pb2.DATA_TYPE_INT64,
            shape=(rows,),
        ),
    )


def _floats(samples: Samples, shape: tuple[int, ...]) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(
        data=samples.images_ND.numpy().astype("<f4").tobytes(),
        data_type=tensor_pb2.DATA_TYPE_FLOAT32,
        shape=shape,
    )


def _decode(block: release_pb2.GradientBlock) -> Answer:
    """Return a block's numbers: lattice integers times the grid, or floats.

    Raises:
        RuntimeError: If their number does not fit the shape.
    """
    values = np.frombuffer(block.values.data, dtype=_DTYPES[block.values.data_type])
    if len(values) != math.prod(block.values.shape):
        msg = "an answer's length does not fit its shape"
        raise RuntimeError(msg)
    return np.asarray(values.astype(np.float64) * (block.grid or 1.0))
