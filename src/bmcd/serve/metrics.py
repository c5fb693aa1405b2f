"""Metrics of the service, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmcd.serve.slots import Slots

if TYPE_CHECKING:
    from bmcd.serve.live import Live

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
KINDS = ("predicted", "observed")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All metrics. Every request counts, whatever its status; those that match no route share one name."""

    def __init__(self, slots: Slots) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        of = self.registry
        said, labels = "Time until a request was answered.", ["route", "status"]
        self.requests = Histogram("bmcd_request_seconds", said, labels, buckets=BUCKETS, registry=of)
        self.people = Counter("bmcd_people", "People who received recommendations.", registry=of)
        self.reloads = Counter("bmcd_reloads", "Reloads of the model, by outcome.", ["outcome"], registry=of)
        self.model = Gauge("bmcd_model", "1 for the model in use.", ["hash", "kind"], registry=of)
        self.closed = Counter("bmcd_connections_closed", "Connections closed early.", ["reason"], registry=of)
        self.connections = Gauge("bmcd_connections", "Open connections.", registry=of)
        Gauge("bmcd_queue_waiting", "Requests that wait.", registry=of).set_function(lambda: slots.waiting)
        Gauge("bmcd_queue_limit", "Maximum number of requests that wait.", registry=of).set(slots.queue)
        Gauge("bmcd_slots_busy", "Requests that are being answered.", registry=of).set_function(lambda: slots.busy)
        Gauge("bmcd_slots", "Requests that can be answered at the same time.", registry=of).set(slots.n)
        for outcome in ("done", "failed"):
            self.reloads.labels(outcome)

    def show_model(self, hash_of_file: str, kind: str) -> None:
        """Show the model in use."""
        self.model.clear()
        self.model.labels(hash_of_file, kind).set(1)

    def show_live(self, live: Live) -> None:
        """Add the metrics of live use: recorded clicks and calibration."""
        self.registry.register(_LiveMetrics(live))

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class _LiveMetrics(Collector):
    """Metrics of live use, computed when they are read."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def collect(self) -> Iterable[Metric]:
        """Return recorded clicks, lists and hits."""
        live, observed = self.live, self.live.observed
        found = {window: observed.summary(window) for window in ("hour", "day")}

        def gauge(name: str, text: str, labels: str, rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
            family = GaugeMetricFamily(f"bmcd_live_{name}", text, labels=labels.split())
            for label_values, value in rows:
                family.add_metric(label_values, value)
            return family

        for name, text, value in (
            ("clicks_waiting", "Clicks that wait to be written.", live.store.waiting),
            ("clicks_not_counted", "Recorded clicks that the model has not counted.", len(live.recent)),
            ("writes_failed", "Groups of clicks that could not be written.", live.store.n_failed),
            ("lists_waiting", "Lists that wait for the clicks after them.", observed.waiting),
            ("latest_click_seconds", "The time of the latest click, since 1970.", live.recent.latest / 1e6),
            ("counted_until_seconds", "The time up to which clicks are counted.", live.counted.until / 1e6),
            ("count_seconds", "The duration of the last count.", live.counted.seconds),
        ):
            yield gauge(name, text, "", [((), value)])
        for name, text in (
            ("clicks", "Clicks of the last hour or day."),
            ("lists", "Lists whose next clicks came."),
            ("next_clicks", "Next clicks that lists were compared with."),
            ("coverage", "Share of the items that was recommended to anyone."),
        ):
            yield gauge(name, text, "window", [((w,), own[name] or 0) for w, own in found.items()])
        for name, text, key in (
            ("hits", "Hits among next clicks.", "{}_hits"),
            ("outside", "Share of next clicks on new items.", "outside_{}"),
        ):
            rows = [((w, kind), own[key.format(kind)] or 0) for w, own in found.items() for kind in KINDS]
            yield gauge(name, text, "window kind", rows)
        groups = [
            ((w, row["probability"], kind), row[kind])
            for w, own in found.items() for row in own["groups"] for kind in KINDS
        ]  # fmt: skip
        yield gauge("group_hits", "Hits by the probability of the item.", "window probability kind", groups)
        warnings = [((w,), float(own["state"] == "warning")) for w, own in found.items()]
        yield gauge("warning", "1 if predicted and observed hits differ too much.", "window", warnings)
