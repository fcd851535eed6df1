"""The metrics as text for Prometheus; what is not on the allow-list cannot be registered."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from curator.telemetry.counts import BUCKET, Labels, Sample
from curator.telemetry.log import BUCKET_SECONDS
from curator.telemetry.names import METRICS, Kind, Metric, listed

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@final
class AllowListRegistry(CollectorRegistry):
    """A registry that takes listed metrics only, and checks again what it gives out."""

    def register(self, collector: Collector) -> None:
        """Take a collector whose every metric is listed; anything else is an `UnlistedMetric`."""
        for family in collector.collect():
            _check(family)
        super().register(collector)

    def collect(self) -> Iterator[Family]:
        """Return the metrics, each checked."""
        for family in super().collect():
            _check(family)
            yield family


@final
class _Samples(Collector):
    """Gives out samples as they are."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._samples[sample.name].append(sample)

    def collect(self) -> Iterator[Family]:
        """Return one family for each metric."""
        for name, samples in sorted(self._samples.items()):
            yield _family(METRICS[name], samples)


def expose(samples: Iterable[Sample]) -> bytes:
    """Return the text of all metrics.

    Args:
        samples: Counted by this process, and read off the ledger just now.
    """
    registry = AllowListRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    return generate_latest(registry)


def _family(metric: Metric, samples: list[Sample]) -> Family:
    family: Family
    match metric.kind:
        case Kind.HISTOGRAM:
            return _histogram(metric, samples)
        case Kind.COUNTER:
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case Kind.GAUGE:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        family.add_sample(metric.name, dict(sample.labels), sample.value)
    return family


def _histogram(metric: Metric, samples: list[Sample]) -> Family:
    """Return cumulative buckets; no sum, because a sum of durations is a measurement."""
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    counted: dict[Labels, dict[float, float]] = defaultdict(dict)
    for sample in samples:
        labels = tuple(pair for pair in sample.labels if pair[0] != BUCKET)
        counted[labels][float(dict(sample.labels)[BUCKET])] = sample.value
    for labels, buckets in counted.items():
        total = 0.0
        for bound in (*BUCKET_SECONDS, math.inf):
            total += buckets.get(bound, 0.0)
            text = "+Inf" if math.isinf(bound) else repr(bound)
            family.add_sample(f"{metric.name}_bucket", {**dict(labels), BUCKET: text}, total)
    return family


def _check(family: Family) -> None:
    """Refuse a family that is not listed, or has a sample that is not."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    own = (f"{name}_bucket", BUCKET) if family.type == "histogram" else (name, "")
    for sample in family.samples:
        labels = tuple(label for label in sample.labels if label != own[1])
        listed(name if sample.name == own[0] else sample.name, labels)
    if not family.samples:
        listed(name, METRICS[name].labels if name in METRICS else ())
