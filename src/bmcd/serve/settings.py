"""How a service is set up, and the limits of what it answers."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmcd.clicks.times import read_duration
from bmcd.errors import InputError, Message, Option
from bmcd.utils import n_cores

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
    """Recommendations for one person; the horizon has the same limit."""
    recommendations: int = 20_000
    """In one answer: people x k."""
    id_length: int = 500
    """Characters of an id, and of a text that is searched for."""
    seconds: float = 30.0
    """For one answer, waiting included."""
    arrival_seconds: float = 10.0
    """Until the head of a request has arrived, then its body; and until the caller has read the answer."""
    head_bytes: int = 2**16
    """Of the head of a request: its first line and its header fields."""
    head_fields: int = 100
    """Header fields of a request."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InputError(f"the limit {name} must be more than 0, but it is {value!r}.")


@dataclass(frozen=True)
class LiveSettings:
    """What live use can be told."""

    folder: Path
    """For recorded clicks and the model that counts them; nobody else may use it."""
    refresh: float = 60.0
    """Seconds within which a click counts for everybody."""
    keep: str | None = None
    """How long clicks count; by default as long as they can make a difference."""
    queue: int = 20_000
    """Clicks that may wait to be written; more are refused with status 429."""

    def __post_init__(self) -> None:
        if not 1 <= self.refresh <= 86_400:
            raise InputError(f"refresh must be from 1 to 86,400 seconds, but it is {self.refresh:g}.")
        if self.queue < 1:
            raise InputError(f"queue must be 1 or more, but it is {self.queue}.")
        if self.keep is not None:
            read_duration(self.keep, "keep")


@dataclass(frozen=True)
class Settings:
    """Everything that `bmcd serve` can be told."""

    path: Path
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = field(default=None, repr=False)
    """If given, callers must send it: ``Authorization: Bearer KEY``."""
    watch: bool = False
    """Load the file again whenever it changes."""
    no_key: bool = False
    """Serve without a key on an address that other machines can reach."""
    slots: int = field(default_factory=n_cores)
    """Questions that are worked on at a time."""
    queue: int = 128
    """Questions that may wait; more are refused with status 429."""
    connections: int = 1_000
    """Open connections; fewer where the process may open fewer files."""
    health_connections: int = 32
    """Further connections, which are answered at /health and nowhere else."""
    grace: int = 20
    """Seconds in which it ends after SIGTERM."""
    hosts: tuple[str, ...] = ()
    """Names under which callers know it. On a loopback address only its own names, and these, are answered."""
    limits: Limits = field(default_factory=Limits)
    live: LiveSettings | None = None
    """If given, clicks are recorded and counted, and ``path`` is the model to begin with."""
    calibration: Callable[[Any], dict[str, Any]] | None = None
    """Measures the calibration of a model that was loaded, where there are clicks to measure it on."""

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("queue", 1), ("grace", 1), ("connections", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be {least} or more, but it is {getattr(self, name)}.")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and len(self.key) >= 8):
            raise InputError("the key must have 8 characters or more, all of them printable ASCII.")
        if self.key is not None and self.no_key:
            raise InputError(Message("there is a key, so leave out ", Option("no_key"), "."))
        if self.key is None and not (self.no_key or self.is_loopback):
            raise InputError(
                Message(
                    f"other machines can reach {self.host or 'all addresses'}, and there is no key: give one with ",
                    Option("key_file"),
                    ", or serve everybody with ",
                    Option("no_key"),
                    ".",
                )
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host in LOOPBACK

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """Names that a request may be sent to; None if any will do, since the address is not a loopback one."""
        if not self.is_loopback and not self.hosts:
            return None
        return frozenset((*LOOPBACK, self.host, *self.hosts))
