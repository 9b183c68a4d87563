"""What `fleetbeat doctor` looks at outside: the clusters and registries of the catalog, as syncs use them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

from fleetbeat.cli.checks import Check, clock
from fleetbeat.cli.session import Session
from fleetbeat.errors import ClusterUnavailable, FleetbeatError, SourceNotFound, SourceUnavailable, Unauthorized
from fleetbeat.model import CONFIG_MAP, ApiResource, Cluster, Source
from fleetbeat.ports import ClusterPort

_REVIEW = ApiResource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_PROBE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "fleetbeat-doctor", "namespace": "default"},
}


def cluster(session: Session, wanted: Cluster) -> Iterator[Check]:
    """Reachable, which version, what we may do there, and whether its clock is right. Writes nothing."""
    name = f"cluster {wanted.name}"
    try:
        port = session.cluster(wanted)
        apis = port.api_set()
        yield Check(name, "ok", f"Kubernetes {apis.version}, {len(apis.resources)} kinds")
        if not apis.complete:
            todo = "kubectl get apiservices shows which; nothing is pruned while one does not answer"
            yield Check(name, "warn", "some API groups do not answer", todo)
        yield _rights(name, port)
        yield _clock(name, port)
    except FleetbeatError as error:
        yield Check(name, "fail", str(error), _todo_cluster(error))


def _rights(name: str, port: ClusterPort) -> Check:
    """May we apply everything? Less can be meant, so less is a warning."""
    attributes = {"verb": "patch", "group": "*", "resource": "*"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    allowed = port.create(_REVIEW, review).body.get("status", {}).get("allowed")
    if allowed:
        return Check(f"{name} rights", "ok", "may patch everything")
    todo = "bind the ClusterRole cluster-admin, or one that covers all kinds your bundles hold"
    return Check(f"{name} rights", "warn", "may not patch everything", todo)


def _clock(name: str, port: ClusterPort) -> Check:
    """The API server stamps what it would create: a dry-run tells its clock, and that server-side apply works."""
    before = time.time()
    answer = port.apply(CONFIG_MAP, _PROBE, dry_run=True)
    stamp = answer.body.get("metadata", {}).get("creationTimestamp")
    if not answer.created or not isinstance(stamp, str):
        return Check(f"{name} apply", "ok", "server-side apply works")
    theirs = datetime.datetime.fromisoformat(stamp).timestamp()
    ahead = theirs + 0.5 - (before + time.time()) / 2  # stamps are cut to whole seconds
    return clock(f"{name} clock", ahead)


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
        return "renew the token or certificate that the Cluster in the catalog names"
    return "see the Cluster's entry in the catalog"


def _todo_source(error: FleetbeatError) -> str:
    if isinstance(error, SourceNotFound):
        return "push a bundle there (fleetbeat push), or see the Application's source in the catalog"
    if isinstance(error, SourceUnavailable):
        return "does the registry run, is it reachable from here? Else see source.ca and source.plainHTTP"
    if isinstance(error, Unauthorized):
        return "see source.auth of the Application in the catalog"
    return "see the Application's source in the catalog"
