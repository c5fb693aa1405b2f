"""How a service is set up, and the limits of what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmcd.errors import InputError
from bmcd.system.threads import n_cores

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Limits:
    """What one request may ask for; `GET /v1/model` tells them to callers."""

    body_bytes: int = 2**20
    """Of the body of a request, whether or not it says its length."""
    people: int = 500
    """In one request."""
    clicks: int = 5_000
    """Of one person, known items or not; also of the lists of items that are allowed or excluded."""
    k: int = 200
    """Recommendations for one person."""
    id_length: int = 500
    """Characters of an id, and of a text that is searched for."""
    seconds: float = 30.0
    """For one answer, waiting included."""
    arrival_seconds: float = 10.0
    """Until the head of a request has arrived, and then its body."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InputError(f"the limit {name} must be more than 0, but it is {value!r}.")


@dataclass(frozen=True)
class Settings:
    """Everything that `bmcd serve` can be told."""

    path: Path
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = field(default=None, repr=False)
    """If given, callers must send it: ``Authorization: Bearer KEY``."""
    slots: int = field(default_factory=n_cores)
    """Questions that are worked on at a time."""
    queue: int = 128
    """Questions that may wait; more are refused with status 429."""
    grace: int = 20
    """Seconds in which it ends after SIGTERM."""
    hosts: tuple[str, ...] = ()
    """Names under which callers know it. On a loopback address only its own names, and these, are answered."""
    limits: Limits = field(default_factory=Limits)
    calibration: Callable[[Any], dict[str, Any]] | None = None
    """Measures the calibration of a model that was loaded, where there are clicks to measure it on."""

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("queue", 1), ("grace", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be {least} or more, but it is {getattr(self, name)}.")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and len(self.key) >= 8):
            raise InputError("the key must have 8 characters or more, all of them printable ASCII.")

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """Names that a request may be sent to; None if any will do, since the address is not a loopback one."""
        if self.host not in LOOPBACK and not self.hosts:
            return None
        return frozenset((*LOOPBACK, self.host, *self.hosts))
