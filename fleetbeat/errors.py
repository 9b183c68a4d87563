"""The error tree. Every error a caller can meet is one of these; foreign exceptions stop at ``fleetbeat.clients``.

FleetbeatError
├── Permanent                 the same input fails again: wait for a new digest, catalog or request
│   ├── CatalogError          catalog YAML: names file, document, field
│   ├── ManifestError         a manifest in the bundle: names file, document, object, field
│   ├── BundleError           the OCI artifact itself
│   │   ├── DigestMismatch        content does not have the digest or size it was announced with
│   │   ├── UnsafeBundle          an archive entry that would leave the target, a link, a device
│   │   └── BundleTooLarge        over a limit; the message names the limit
│   ├── SourceNotFound        no such repository, tag or digest; no tag fits the range
│   ├── Rejected              the API server refused an object: validation, immutable field
│   │   └── Denied                admission did: a policy or webhook, which may say something else soon
│   ├── Refused               Fleetbeat refused: somebody else owns the object, everything would be pruned, …
│   │   └── PlanRefused           a saved plan that does not hold any more: nothing follows from the request
│   └── ConfigurationError    settings or a local part: says which variable or program
├── Transient                 worth trying again; ``retry_after`` seconds where the other side said so
│   ├── SourceUnavailable     registry: connection, time-out, 5xx
│   │   └── SourceThrottled       429
│   ├── ClusterUnavailable    API server: connection, time-out, 429, 5xx
│   ├── StoreUnavailable      Redis
│   └── NotYet                a condition that time alone may change (a kind not served yet, a namespace going away)
│       └── StillRunning          the time somebody was willing to wait is up; what they wait for goes on
├── Unauthorized              401 / 403 from registry or cluster: retried at the retry interval, a person must act
├── Conflict                  409: the object moved since it was looked at; look again
└── LostLock                  this execution is no longer the application's writer: stop at once, write nothing
"""

from __future__ import annotations


class FleetbeatError(Exception):
    """Base of all. The message is for a person: what happened, to what, what to do. It never holds a secret."""

    lasting = False  #: time alone does not mend it

    #: stable CamelCase word for status, history and metrics (Kubernetes condition style)
    @property
    def reason(self) -> str:
        return type(self).__name__


class Permanent(FleetbeatError):
    """The same input would fail in the same way."""

    lasting = True


class CatalogError(Permanent):
    """A mistake in the catalog; ``problems`` holds every one that was found, each a full sentence."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ManifestError(Permanent):
    """Manifests that cannot be used; ``problems`` holds every one that was found, each naming file and document."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class BundleError(Permanent):
    """An OCI artifact that is not a bundle."""


class DigestMismatch(BundleError):
    """Bytes that are not what their descriptor announced."""


class UnsafeBundle(BundleError):
    """An archive entry that must not be unpacked."""


class BundleTooLarge(BundleError):
    """Over a limit of ``settings.BundleLimits``."""


class SourceNotFound(Permanent):
    """The registry answered: there is no such thing."""


class Rejected(Permanent):
    """The API server refused an object; the message starts with the object and quotes the server."""


class Denied(Rejected):
    """Admission refused an object: Pod Security, a policy, a webhook. What it goes by is not in the object alone."""

    lasting = False


class Refused(Permanent):
    """Fleetbeat refused on its own rules."""


class PlanRefused(Refused):
    """A saved plan would do something else now than it said."""


class Shared(Refused):
    """The object belongs to another application of this installation, which keeps it."""

    def __init__(self, message: str, application: str) -> None:
        super().__init__(message)
        self.application = application


class ConfigurationError(Permanent):
    """Settings or a needed program."""


class Transient(FleetbeatError):
    """Trying again later may work."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  #: seconds, as the other side asked; None = our own back-off


class SourceUnavailable(Transient):
    """The registry could not be reached or failed."""


class SourceThrottled(SourceUnavailable):
    """The registry asked to slow down."""


class ClusterUnavailable(Transient):
    """The API server could not be reached, is overloaded or failed."""


class StoreUnavailable(Transient):
    """Redis could not be reached or refused the command."""


class NotYet(Transient):
    """Waiting for something that is on its way."""


class StillRunning(NotYet):
    """Waiting ended before the outcome; the message says what is being done or waited for."""


class Unauthorized(FleetbeatError):
    """Credentials were refused, or lack a right; the message names the verb and object."""


class Conflict(FleetbeatError):
    """Optimistic concurrency: somebody wrote in between.

    ``causes`` lists field conflicts as (field path, manager) where the server named them, else it is empty.
    """

    def __init__(self, message: str, causes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class LostLock(FleetbeatError):
    """Another execution has taken over, or the lock's deadline has passed."""
