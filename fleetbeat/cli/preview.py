"""A sync without the writing: pull, read, compare, all in this process. What ``fleetbeat diff`` shows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from fleetbeat.clients import applyset
from fleetbeat.decisions.inventory import applyset_id, parent_name
from fleetbeat.decisions.promise import Promise
from fleetbeat.engine.kinds import api_set_with_owned
from fleetbeat.engine.owners import owner_name
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.planning import make_plan
from fleetbeat.engine.preview import Preview, previews
from fleetbeat.engine.promising import promise
from fleetbeat.engine.rendering import render
from fleetbeat.model import Application, ObjectId
from fleetbeat.ports import ClusterPort, SourcePort
from fleetbeat.settings import Settings


class Previewed(NamedTuple):
    """What a sync would do."""

    changes: list[Preview]
    refusal: str  #: why nothing would be pruned, "" when that is not held back
    promise: Promise


def preview(
    source: SourcePort,
    cluster: ClusterPort,
    application: Application,
    settings: Settings,
    *,
    spec: str = "",
    asked_for: bool = False,
) -> Previewed:
    """Everything a sync would change.

    ``spec``: digest of the catalog entry, for the promise; ``asked_for``: a sync that a person asks for runs hooks.
    Every object is compared by dry-run, whatever earlier syncs remember. Raises the errors of both ports, and
    ManifestError.
    """
    revision = source.resolve(application.source)
    pulled = source.pull(application.source, revision)
    limits = settings.bundles
    wanted = render(
        pulled.layer, application, cluster, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries
    ).manifests
    parent = applyset.read(cluster, settings.namespace, application.name)
    owned = parent.group_kinds if parent else frozenset()
    with ThreadPoolExecutor(settings.steps.parallel) as threads:
        plan, comparison = make_plan(
            cluster,
            api_set_with_owned(cluster, {(m.id.group, m.id.kind) for m in wanted}, owned),
            application,
            wanted,
            applyset=applyset_id(parent_name(application.name), settings.namespace),
            owned_kinds=owned,
            owned_namespaces=parent.spaces if parent else (),
            known={},
            pool=Requests(threads, settings.steps.parallel),
            owner_name=owner_name(cluster, settings.namespace, application.destination.namespace),
            home=settings.namespace,
            # Hooks of a bundle that they have gone through for run again only when a sync is asked for: no difference.
            hooks_due=asked_for or parent is None or parent.hooks != revision.digest,
        )
    gone = {}
    for removal in plan.removals:
        gone[removal.id] = _live(cluster, removal.id)
    told = promise(plan, wanted, app=application.name, digest=revision.digest, spec=spec)
    return Previewed(previews(plan, comparison, wanted, gone), plan.refusal, told)


def _live(cluster: ClusterPort, object_id: ObjectId) -> dict[str, object] | None:
    resource = cluster.api_set().find(object_id.group, object_id.kind)
    return cluster.get(resource, object_id.namespace, object_id.name) if resource else None
