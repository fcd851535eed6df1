"""Translate between messages and the service's values; every check is about the request alone."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np
import torch

from curator.errors import MalformedRequest
from curator.ledger.ledger import NOTHING, Account, RunState, RunStatus, Statement
from curator.mechanisms.catalogue import mechanism_names, parameter_schema
from curator.privacy.facts import DatasetFacts
from curator.privacy.records import Samples
from curator.rpc.release_codec import encode_blocks
from curator.service.live_run import Answer
from curator.service.plan_run import Plan
from curator.service.release_gradient import StepRequest
from protos.weir.v1 import budget_pb2, dataset_pb2, release_pb2, run_pb2, tensor_pb2

VALUE_MIN, VALUE_MAX = -1.0, 1.0

_IMAGE_DIMENSIONS = 4


def decode_step(
    message: release_pb2.StepRequest, facts: DatasetFacts, max_samples: int
) -> StepRequest:
    """Decode and validate a step.

    Args:
        message: As received.
        facts: The data set's public facts.
        max_samples: Most rows of one step.

    Returns:
        The validated request, with a digest of the decoded tensors.

    Raises:
        MalformedRequest: If a field is not valid; the detail names it and never echoes values.
    """
    if message.step < 1:
        msg = "step is counted from 1"
        raise MalformedRequest(msg, "step")
    images = _decode_images(message.images, facts, max_samples)
    labels = _decode_labels(message.labels, len(images), len(facts.classes))
    samples = Samples(
        images_ND=torch.from_numpy(images.reshape(len(images), -1)),
        labels_N=torch.from_numpy(labels),
    )
    return StepRequest(
        run_id=message.run_id, step=message.step, samples=samples, digest=_digest(images, labels)
    )


def _digest(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Return what tells two requests for one step apart."""
    digest = hashlib.sha256(repr(images.shape).encode())
    digest.update(images.reshape(-1).view(np.uint8).data)
    digest.update(labels.view(np.uint8).data)
    return digest.digest()


def _decode_images(tensor: tensor_pb2.Tensor, facts: DatasetFacts, max_samples: int) -> np.ndarray:
    """Decode images.

    Raises:
        MalformedRequest: If type, shape, length or a value is not valid.
    """
    expected = (facts.channels, facts.height, facts.width)
    if tensor.data_type != tensor_pb2.DATA_TYPE_FLOAT32:
        msg = "images must be float32"
        raise MalformedRequest(msg, "images")
    if len(tensor.shape) != _IMAGE_DIMENSIONS or tuple(tensor.shape[1:]) != expected:
        msg = f"images must have shape (rows, {expected[0]}, {expected[1]}, {expected[2]})"
        raise MalformedRequest(msg, "images")
    if not 1 <= tensor.shape[0] <= max_samples:
        msg = f"images must have 1 to {max_samples} rows"
        raise MalformedRequest(msg, "images")
    images = _from_bytes("images", tensor, np.dtype("<f4"))
    # a comparison with NaN is false, so NaN and infinity are refused here too
    if not (images.min() >= VALUE_MIN and images.max() <= VALUE_MAX):
        msg = f"images must be finite and in [{VALUE_MIN:g}, {VALUE_MAX:g}]"
        raise MalformedRequest(msg, "images")
    return images


def _decode_labels(tensor: tensor_pb2.Tensor, rows: int, num_classes: int) -> np.ndarray:
    """Decode labels.

    Raises:
        MalformedRequest: If type, shape, length or a value is not valid.
    """
    if tensor.data_type != tensor_pb2.DATA_TYPE_INT64:
        msg = "labels must be int64"
        raise MalformedRequest(msg, "labels")
    if tuple(tensor.shape) != (rows,):
        msg = "labels must have one entry per image"
        raise MalformedRequest(msg, "labels")
    labels = _from_bytes("labels", tensor, np.dtype("<i8"))
    if not (labels.min() >= 0 and labels.max() < num_classes):
        msg = f"labels must be in 0 to {num_classes - 1}"
        raise MalformedRequest(msg, "labels")
    return labels


def _from_bytes(name: str, tensor: tensor_pb2.Tensor, dtype: np.dtype) -> np.ndarray:
    """Read a writable array.

    Raises:
        MalformedRequest: If the number of bytes does not fit the shape.
    """
    data, shape = tensor.data, tuple(tensor.shape)  # each reading of the field is a copy
    if len(data) != math.prod(shape) * dtype.itemsize:
        msg = f"{name} must have as many bytes as its shape and type say"
        raise MalformedRequest(msg, name)
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def encode_answer(run_id: str, answer: Answer) -> release_pb2.StepResponse:
    """Encode the reply to a step: nothing but a `Release` and public ledger facts.

    Args:
        run_id: The run.
        answer: What the service made.

    Returns:
        The message; lattice integers as int32 when they fit, which depends on released values only.
    """
    return release_pb2.StepResponse(
        run_id=run_id,
        step=answer.step,
        gradient=encode_blocks(answer.release),
        spent_epsilon=answer.spent_epsilon,
        budget_epsilon=answer.budget_epsilon,
    )


@functools.cache
def _schema_text(mechanism: str) -> str:
    return json.dumps(parameter_schema(mechanism))


def encode_facts(
    facts: DatasetFacts, max_samples: int, rules: Mapping[str, str]
) -> dataset_pb2.DatasetFacts:
    """Encode public facts.

    Args:
        facts: What the steward declared; `max_size` stays with the steward.
        max_samples: Most rows of one step.
        rules: Of the steward's policy.

    Returns:
        The message.
    """
    return dataset_pb2.DatasetFacts(
        dataset=facts.name,
        channels=facts.channels,
        height=facts.height,
        width=facts.width,
        value_min=VALUE_MIN,
        value_max=VALUE_MAX,
        classes=facts.classes,
        nominal_size=facts.nominal_size,
        capacity=facts.capacity,
        sampling_rate=facts.sampling_rate,
        epsilon=facts.epsilon,
        delta=facts.delta,
        adjacency=str(facts.adjacency),
        unit=facts.unit,
        mechanisms=[
            dataset_pb2.MechanismFacts(mechanism=name, parameters_schema=_schema_text(name))
            for name in mechanism_names()
        ],
        max_samples=max_samples,
        max_records_per_group=facts.max_records_per_group or 0,
        policy=[dataset_pb2.PolicyRule(rule=rule, value=value) for rule, value in rules.items()],
    )


def encode_statement(
    statement: Statement, share: Account | None = None
) -> budget_pb2.BudgetStatement:
    """Encode what is left of a data set.

    Args:
        statement: By the ledger.
        share: The caller's own cap, if there is one.

    Returns:
        The message.
    """
    message = budget_pb2.BudgetStatement(
        dataset=statement.dataset,
        adjacency=str(statement.adjacency),
        unit=statement.adjacency.unit,
        accountant=statement.accountant,
        epsilon=statement.cap,
        registered_epsilon=statement.budget.epsilon,
        delta=statement.budget.delta,
        spent=statement.spent_epsilon,
        reserved=statement.reserved_epsilon,
        remaining=statement.remaining_epsilon,
        status=statement.status,
    )
    if share is not None:
        numbers = share.numbers(NOTHING)
        message.share.epsilon = numbers.budget
        message.share.spent, message.share.reserved = numbers.spent, numbers.reserved
        message.share.remaining = numbers.remaining
    return message


def encode_plan(plan: Plan) -> run_pb2.Plan:
    """Encode a plan.

    Args:
        plan: By the service.

    Returns:
        The message.
    """
    return run_pb2.Plan(
        num_steps=plan.num_steps,
        affordable_steps=plan.affordable_steps,
        epsilon_after=plan.epsilon_after,
        epsilon_alone=plan.epsilon_alone,
        fits=plan.fits,
        budget=encode_statement(plan.statement),
    )


def encode_run(
    state: RunState, next_step: int, statement: Statement, certificate: str
) -> run_pb2.RunState:
    """Encode where a run stands.

    Args:
        state: By the ledger.
        next_step: What the holder expects next.
        statement: Of the run's data set.
        certificate: Of a closed run, else empty.

    Returns:
        The message.
    """
    is_open = state.status is RunStatus.OPEN
    return run_pb2.RunState(
        run_id=state.run_id,
        dataset=state.dataset,
        choice=run_pb2.MechanismChoice(mechanism=state.mechanism, parameters=state.parameters_json),
        status=run_pb2.RUN_STATUS_OPEN if is_open else run_pb2.RUN_STATUS_CLOSED,
        num_steps=state.num_steps,
        next_step=next_step,
        used_steps=state.used,
        close_reason=state.close_reason or "",
        budget=encode_statement(statement),
        certificate=certificate,
    )
