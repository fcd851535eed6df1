"""Nothing is counted, and nothing leaves, that is not on the allow-list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from curator.telemetry import names
from curator.telemetry.counts import MOST_SERIES, OTHER, Counts, sample
from curator.telemetry.exposition import AllowListRegistry, expose
from curator.telemetry.names import METRICS, Kind, UnlistedMetric

PRIVATE_WORDS = ("batch", "norm", "loss", "clip", "size", "class", "record", "image", "sample")


class Late(Collector):
    """Shows a listed metric first and another one later."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self) -> Iterator[Family]:
        self.asked += 1
        name = names.READY if self.asked == 1 else "weir_batch_size"
        yield GaugeMetricFamily(name, "late", value=1)


def test_the_list_names_no_private_thing() -> None:
    for metric in METRICS.values():
        assert metric.name.startswith("weir_")
        assert not any(word in metric.name for word in PRIVATE_WORDS), metric.name
        assert set(metric.labels) <= {"dataset", "method", "outcome", "reason"}
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("weir_batch_size", {}),
        (names.READY, {"analyst": "alice"}),
        (names.REFUSALS, {}),
        (names.REFUSALS, {"reason": "X", "norm": "3"}),
    ],
)
def test_an_unlisted_metric_or_label_is_refused(name: str, labels: dict[str, str]) -> None:
    counts = Counts()
    with pytest.raises(UnlistedMetric):
        counts.add(name, **labels)
    with pytest.raises(UnlistedMetric):
        counts.observe(name, 1.0, **labels)
    with pytest.raises(UnlistedMetric):
        sample(name, 1.0, **labels)
    assert counts.samples() == ()


def test_an_unlisted_metric_cannot_be_registered() -> None:
    registry = AllowListRegistry(auto_describe=False)
    with pytest.raises(UnlistedMetric):
        Gauge("weir_batch_size", "no", registry=registry)
    assert list(registry.collect()) == []


def test_another_label_and_a_sum_of_durations_cannot_leave() -> None:
    labelled = AllowListRegistry(auto_describe=False)
    Gauge(names.CAP, "another label", ["analyst"], registry=labelled).labels("alice").set(1)
    summed = AllowListRegistry(auto_describe=False)
    Histogram(names.REQUEST_SECONDS, "sum", ["method"], registry=summed).labels("/m").observe(1)
    for registry in (labelled, summed):
        with pytest.raises(UnlistedMetric):
            list(registry.collect())


def test_what_is_registered_is_checked_again_when_it_leaves() -> None:
    registry = AllowListRegistry(auto_describe=False)
    registry.register(Late())
    with pytest.raises(UnlistedMetric):
        list(registry.collect())


def test_labels_are_bounded_in_number_and_kind() -> None:
    counts = Counts()
    for number in range(MOST_SERIES + 100):
        counts.add(names.REFUSALS, reason=f"R{number}")
    for odd in ("", "a" * 129, 'x"y', "two\nlines", "émile"):
        counts.add(names.STEPS_ANSWERED, dataset=odd)
    found = counts.samples()
    reasons = {one.labels: one.value for one in found if one.name == names.REFUSALS}
    assert len(reasons) == MOST_SERIES + 1
    assert reasons[(("reason", OTHER),)] == 100
    (odd_ones,) = [one for one in found if one.name == names.STEPS_ANSWERED]
    assert (odd_ones.labels, odd_ones.value) == ((("dataset", OTHER),), 5)


def test_durations_are_told_in_the_log_s_buckets_without_a_sum() -> None:
    counts = Counts()
    for seconds in (0.005, 0.02, 0.03, 99.0):
        counts.observe(names.REQUEST_SECONDS, seconds, method="/m")
    text = expose(counts.samples()).decode()
    for bound, total in (("0.01", 1), ("0.1", 3), ("1.0", 3), ("10.0", 3), ("+Inf", 4)):
        assert f'weir_request_seconds_bucket{{le="{bound}",method="/m"}} {total}.0\n' in text
    assert "_sum" not in text
    assert "_created" not in text
    assert "0.02" not in text
