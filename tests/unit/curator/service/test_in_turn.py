"""Work is done in the caller's thread, so many at once, in the order of coming."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from curator.service.fair_turns import InTurn

SECONDS = 20.0


def test_work_is_done_in_the_thread_of_the_call() -> None:
    done = InTurn(2).submit(threading.get_ident)
    assert done.done()
    assert done.result() == threading.get_ident()


def test_what_fails_is_in_the_future_and_leaves_its_place() -> None:
    executor = InTurn(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            executor.submit(lambda: 1 // 0).result()
    assert executor.submit(int, "7").result() == 7


def test_tiny_numbers_count_as_zero_inside_alone() -> None:
    def halved() -> float:
        return float(torch.tensor(1.5e-38).mul_(0.25))

    assert InTurn(1).submit(halved).result() == 0
    assert halved() > 0


def test_those_who_wait_are_served_in_the_order_of_coming() -> None:
    executor, release, order = InTurn(1), threading.Event(), list[int]()
    first = threading.Thread(target=executor.submit, args=(release.wait, SECONDS))
    first.start()
    waiting = []
    for number in range(8):
        waiting.append(threading.Thread(target=executor.submit, args=(order.append, number)))
        waiting[-1].start()
        while executor._turns.num_waiting <= number:
            assert not release.wait(0.001)
    release.set()
    for thread in (first, *waiting):
        thread.join(SECONDS)
    assert order == list(range(8))


def test_a_pool_computes_for_those_inside() -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        InTurn(1, pool=pool) as executor,
    ):
        assert executor.submit(threading.get_ident).result() != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            executor.submit(lambda: 1 // 0).result()


def test_no_more_than_so_many_compute_at_once() -> None:
    executor, together = InTurn(2), threading.Barrier(2)
    inside, most, lock = [0], [0], threading.Lock()

    def work() -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        together.wait(SECONDS)  # two are inside together, or this breaks
        with lock:
            inside[0] -= 1

    threads = [threading.Thread(target=executor.submit, args=(work,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert most == [2]
    assert not together.broken


def test_shutting_down_waits_for_all_and_takes_no_more() -> None:
    executor, release, done = InTurn(1), threading.Event(), list[str]()
    begun = threading.Event()

    def slow() -> None:
        begun.set()
        release.wait(SECONDS)
        done.append("slow")

    thread = threading.Thread(target=executor.submit, args=(slow,))
    thread.start()
    assert begun.wait(SECONDS)
    threading.Timer(0.05, release.set).start()
    executor.shutdown()
    assert done == ["slow"]
    with pytest.raises(RuntimeError):
        executor.submit(int)
    thread.join(SECONDS)
