"""The cluster of one application, as this execution may use it."""

from __future__ import annotations

from dataclasses import dataclass

from fleetbeat import __version__
from fleetbeat.clients.cluster import KubernetesCluster, Witness
from fleetbeat.clients.cluster_transport import Guard
from fleetbeat.decisions.inventory import applyset_id, parent_name
from fleetbeat.errors import Refused
from fleetbeat.model import Application, Cluster
from fleetbeat.settings import Settings
from workers.parts import Parts


@dataclass(frozen=True)
class Target:
    """An application with its cluster, and the id of its ApplySet there."""

    application: Application
    cluster: KubernetesCluster
    applyset: str
    spec: str  #: digest of the catalog entries it was made from


def target(
    shared: Parts,
    app: str,
    *,
    run: str = "",
    fence: int = 0,
    digest: str = "",
    guard: Guard | None = None,
    witness: Witness | None = None,
    removal: bool = False,
) -> Target:
    """Raises Refused when the application has left the catalog meanwhile; with ``removal``, when it is back in it.

    ``fence`` tells two executions of one run apart in the cluster's audit log.
    """
    if removal:
        departure = shared.departures.get(app)
        if departure is None:
            raise Refused(f"application {app} is not to be deleted any more")
        application, cluster, spec = departure.application, departure.cluster, departure.spec
    else:
        entry = shared.catalogs.application(app)
        if entry is None:
            raise Refused(f"application {app} is not in the catalog any more; this sync ends")
        application, cluster, spec = entry
    return connected(
        shared.settings, application, cluster, spec, run=run, fence=fence, digest=digest, guard=guard, witness=witness
    )


def connected(
    settings: Settings,
    application: Application,
    cluster: Cluster,
    spec: str,
    *,
    run: str = "",
    fence: int = 0,
    digest: str = "",
    guard: Guard | None = None,
    witness: Witness | None = None,
) -> Target:
    client = KubernetesCluster.connect(cluster, http=settings.http, pool=settings.steps.parallel * 2)
    agent = f"fleetbeat/{__version__} app/{application.name}"
    if run:
        agent += f" run/{run}"
    if fence:
        agent += f" fence/{fence}"
    if digest:
        agent += f" rev/{digest.removeprefix('sha256:')[:12]}"
    name = parent_name(application.name)
    return Target(application, client.acting(agent, guard, witness), applyset_id(name, settings.namespace), spec)
