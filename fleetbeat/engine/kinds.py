"""What the cluster serves, as fresh as the question needs it."""

from __future__ import annotations

from collections.abc import Iterable

from fleetbeat.model import ApiSet
from fleetbeat.ports import ClusterPort


def api_set_for(cluster: ClusterPort, kinds: Iterable[tuple[str, str]]) -> ApiSet:
    """The cached discovery, asked anew once when it lacks one of ``kinds`` (group, kind).

    A worker that did not apply a CustomResourceDefinition itself learns of its kind here: without the second look it
    would take the kind's objects for gone, or for not judgeable yet. The client bounds how often it really asks
    (field case k8).
    """
    apis = cluster.api_set()
    served = {(r.group, r.kind) for r in apis.resources}
    return apis if served.issuperset(kinds) else cluster.api_set(refresh=True)
