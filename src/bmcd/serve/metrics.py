"""What is counted, in the form that Prometheus reads."""

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
    """Every request counts, whatever its status; those that match no route share one name."""

    def __init__(self, slots: Slots) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        of = self.registry
        self.requests = Histogram(
            "bmcd_request_seconds",
            "Time until a request was answered.",
            ["route", "status"],
            buckets=BUCKETS,
            registry=of,
        )
        self.people = Counter("bmcd_people", "People that recommendations were made for.", registry=of)
        self.reloads = Counter("bmcd_reloads", "Reloads of the model, by outcome.", ["outcome"], registry=of)
        self.model = Gauge("bmcd_model", "1 for the model that answers.", ["hash", "kind"], registry=of)
        self.closed = Counter("bmcd_connections_closed", "Connections closed early.", ["reason"], registry=of)
        self.connections = Gauge("bmcd_connections", "Open connections.", registry=of)
        Gauge("bmcd_queue_waiting", "Questions that wait.", registry=of).set_function(lambda: slots.waiting)
        Gauge("bmcd_queue_limit", "Questions that may wait.", registry=of).set(slots.queue)
        Gauge("bmcd_slots_busy", "Questions that are worked on.", registry=of).set_function(lambda: slots.busy)
        Gauge("bmcd_slots", "Questions that can be worked on at a time.", registry=of).set(slots.n)
        for outcome in ("done", "failed"):
            self.reloads.labels(outcome)

    def show_model(self, hash_of_file: str, kind: str) -> None:
        """Say which model answers now."""
        self.model.clear()
        self.model.labels(hash_of_file, kind).set(1)

    def show_live(self, live: Live) -> None:
        """Show what `bmcd.serve.live` knows of recorded clicks and of calibration."""
        self.registry.register(_LiveMetrics(live))

    def text(self) -> bytes:
        """Return everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class _LiveMetrics(Collector):
    """What is worked out when it is asked for."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def collect(self) -> Iterable[Metric]:
        """Return recorded clicks, lists and hits."""
        live, observed = self.live, self.live.observed

        def gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"bmcd_live_{name}", text, labels=labels)

        plain = {
            "clicks_waiting": ("Clicks that wait to be written.", live.store.waiting),
            "clicks_not_counted": ("Recorded clicks that the model has not counted.", len(live.recent)),
            "writes_failed": ("Groups of clicks that could not be written.", live.store.n_failed),
            "lists_waiting": ("Lists that wait for the clicks after them.", observed.waiting),
            "latest_click_seconds": ("The time of the latest click, since 1970.", live.recent.latest / 1e6),
            "counted_until_seconds": ("The time up to which clicks are counted.", live.counted.until / 1e6),
            "count_seconds": ("How long the last count took.", live.counted.seconds),
        }
        for name, (text, value) in plain.items():
            yield _with(gauge(name, text), [((), value)])
        found = {window: observed.summary(window) for window in ("hour", "day")}
        wide = {
            "clicks": ("Clicks of the last hour or day.", "clicks"),
            "lists": ("Lists whose next clicks came.", "lists"),
            "next_clicks": ("Next clicks that lists were compared with.", "next_clicks"),
            "coverage": ("Share of the items that was recommended to anybody.", "coverage"),
        }
        for name, (text, key) in wide.items():
            yield _with(gauge(name, text, ["window"]), [((w,), own[key] or 0) for w, own in found.items()])
        for name, text in (("hits", "Hits among next clicks."), ("outside", "Share of next clicks on new items.")):
            keys = {kind: f"{kind}_hits" if name == "hits" else f"outside_{kind}" for kind in KINDS}
            rows = [((w, kind), own[keys[kind]] or 0) for w, own in found.items() for kind in KINDS]
            yield _with(gauge(name, text, ["window", "kind"]), rows)
        groups = [
            ((w, row["probability"], kind), row[kind])
            for w, own in found.items()
            for row in own["groups"]
            for kind in KINDS
        ]
        yield _with(
            gauge("group_hits", "Hits by the probability of the item.", ["window", "probability", "kind"]), groups
        )
        warnings = [((w,), float(own["state"] == "warning")) for w, own in found.items()]
        yield _with(gauge("warning", "1 if predicted and observed hits differ too much.", ["window"]), warnings)


def _with(family: GaugeMetricFamily, rows: Iterable[tuple[Sequence[str], float]]) -> GaugeMetricFamily:
    for labels, value in rows:
        family.add_metric(labels, value)
    return family
