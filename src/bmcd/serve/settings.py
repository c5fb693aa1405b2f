"""How a service is set up, and the limits of what it answers."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmcd.clicks.times import read_duration
from bmcd.errors import InputError, Message, Option
from bmcd.utils import check_count, n_cores

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Limits:
    """Limits of one request; `GET /v1/model` returns them."""

    body_bytes: int = 2**20
    """Bytes of the body of a request, whether or not its length is declared."""
    people: int = 500
    """People in one request."""
    clicks: int = 5_000
    """Clicks of one person, on known items or not; also items that are allowed or excluded."""
    k: int = 200
    """Recommendations for one person; the horizon has the same limit."""
    recommendations: int = 20_000
    """Recommendations in one answer: people x k."""
    id_length: int = 500
    """Characters of an id or a search text."""
    seconds: float = 30.0
    """Seconds for one answer, waiting included."""
    arrival_seconds: float = 10.0
    """Seconds until the head of a request has arrived, then its body; and until its answer has been read."""
    head_bytes: int = 2**16
    """Bytes of the head of a request: its first line and its header fields."""
    head_fields: int = 100
    """Header fields of a request."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InputError(f"the limit {name} must be more than 0, but it is {value!r}.")


@dataclass(frozen=True)
class LiveSettings:
    """Settings of live use."""

    folder: Path
    """For recorded clicks and the model that counts them; for this service alone."""
    refresh: float = 60.0
    """Seconds within which a click counts for all users."""
    keep: str | None = None
    """How long clicks count. Default: as long as they influence the counts."""
    queue: int = 20_000
    """Maximum number of clicks that wait to be written; more are refused with status 429."""

    def __post_init__(self) -> None:
        if not 1 <= self.refresh <= 86_400:
            raise InputError(f"refresh must be from 1 to 86,400 seconds, but it is {self.refresh:g}.")
        check_count("queue", self.queue)
        if self.keep is not None:
            read_duration(self.keep, "keep")


@dataclass(frozen=True)
class Settings:
    """Settings of `bmcd serve`."""

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
    """Number of requests that are answered at the same time."""
    queue: int = 128
    """Maximum number of requests that wait; more are refused with status 429."""
    connections: int = 1_000
    """Maximum number of open connections; fewer if the process may open fewer files."""
    health_connections: int = 32
    """Further connections, which are answered only at /health."""
    grace: int = 20
    """Seconds until it ends after SIGTERM."""
    hosts: tuple[str, ...] = ()
    """Names under which callers know it. On a loopback address only its names and these are answered."""
    limits: Limits = field(default_factory=Limits)
    live: LiveSettings | None = None
    """If given, clicks are recorded and counted, starting from the model in ``path``."""
    calibration: Callable[[Any], dict[str, Any]] | None = None
    """Measures the calibration of a loaded model, if there are test clicks."""

    def __post_init__(self) -> None:
        for name in ("slots", "queue", "grace", "connections"):
            check_count(name, getattr(self, name))
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and len(self.key) >= 8):
            raise InputError("the key must have 8 characters or more, all of them printable ASCII.")
        if self.key is not None and self.no_key:
            raise InputError(Message("there is a key, so leave out ", Option("no_key"), "."))
        if self.key is None and not (self.no_key or self.is_loopback):
            said = f"other machines can reach {self.host or 'all addresses'}, and there is no key: give one with "
            remedy = (Option("key_file"), ", or serve all callers without a key with ", Option("no_key"), ".")
            raise InputError(Message(said, *remedy))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host in LOOPBACK

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """Host names that requests may be sent to; None for any, if the address is not a loopback one."""
        if not self.is_loopback and not self.hosts:
            return None
        return frozenset((*LOOPBACK, self.host, *self.hosts))
