"""What is counted, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from bmcd.serve.slots import Slots

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
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

    def text(self) -> bytes:
        """Return everything, as Prometheus reads it."""
        return generate_latest(self.registry)
