"""What `fleetbeat doctor` looks at outside: the clusters and registries of the catalog, as syncs use them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection, Iterator, Sequence

from fleetbeat.cli.checks import Check, clock
from fleetbeat.cli.checks_rights import rights
from fleetbeat.cli.session import Session
from fleetbeat.errors import ClusterUnavailable, FleetbeatError, NotYet, SourceNotFound, SourceUnavailable, Unauthorized
from fleetbeat.model import CONFIG_MAP, Cluster, Source
from fleetbeat.ports import ClusterPort, Written


def cluster(session: Session, wanted: Cluster, namespaces: Collection[str]) -> Iterator[Check]:
    """Reachable, which version, what we may do there, and whether its clock is right. Writes nothing.

    ``namespaces``: the destinations of its applications.
    """
    name = f"cluster {wanted.name}"
    try:
        port = session.cluster(wanted)
        apis = port.api_set()
        yield Check(name, "ok", f"Kubernetes {apis.version}, {len(apis.resources)} kinds")
        if not apis.complete:
            todo = "kubectl get apiservices shows which; nothing is pruned while one does not answer"
            yield Check(name, "warn", "some API groups do not answer", todo)
        home = session.settings.namespace
        yield from rights(name, port, home, namespaces)
        yield _clock(name, port, [*sorted({*namespaces} - {""}), home, "default"])
    except FleetbeatError as error:
        yield Check(name, "fail", str(error), _todo_cluster(error))


def _clock(name: str, port: ClusterPort, namespaces: Sequence[str]) -> Check:
    """The API server stamps what it would create: a dry-run tells its clock, and that server-side apply works."""
    before = time.time()
    answer = _tried(port, namespaces)
    stamp = answer.body.get("metadata", {}).get("creationTimestamp")
    if not answer.created or not isinstance(stamp, str):
        return Check(f"{name} apply", "ok", "server-side apply works")
    theirs = datetime.datetime.fromisoformat(stamp).timestamp()
    ahead = theirs + 0.5 - (before + time.time()) / 2  # stamps are cut to whole seconds
    return clock(f"{name} clock", ahead)


def _tried(port: ClusterPort, namespaces: Sequence[str]) -> Written:
    """In the first namespace that is there and open to us. Raises what the first one said when there is none."""
    first: FleetbeatError | None = None
    for namespace in namespaces:
        metadata = {"name": "fleetbeat-doctor", "namespace": namespace}
        try:
            return port.apply(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dry_run=True)
        except (NotYet, Unauthorized) as error:
            first = first or error
    raise first or ValueError("no namespace to try")


def registry(session: Session, source: Source) -> Iterator[Check]:
    """Does the source's tag, range or digest lead to something?"""
    name = f"source {source.oci}"
    try:
        revision = session.source.resolve(source)
    except FleetbeatError as error:
        yield Check(name, "fail", str(error), _todo_source(error))
        return
    yield Check(name, "ok", str(revision))


def _todo_cluster(error: FleetbeatError) -> str:
    if isinstance(error, ClusterUnavailable):
        return "does it run, is it reachable from here? Else see server and ca of the Cluster in the catalog"
    if isinstance(error, Unauthorized):
        return (
            "renew the token or certificate that the Cluster in the catalog names, or grant the right that is missing"
        )
    return "see the Cluster's entry in the catalog"


def _todo_source(error: FleetbeatError) -> str:
    if isinstance(error, SourceNotFound):
        return "push a bundle there (fleetbeat push), or see the Application's source in the catalog"
    if isinstance(error, SourceUnavailable):
        return "does the registry run, is it reachable from here? Else see source.ca and source.plainHTTP"
    if isinstance(error, Unauthorized):
        return "see source.auth of the Application in the catalog"
    return "see the Application's source in the catalog"
