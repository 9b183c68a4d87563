"""From the bytes of a bundle to manifests for one cluster: unpacked, read, defaulted, checked against its API set.

What the objects' own marks ask for is read here too, before anything is planned: a bundle that cannot be synced as it
says is refused as a whole, by the same rules that ``fleetbeat check`` uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetbeat.decisions.bundles import unpack
from fleetbeat.decisions.examine import examine
from fleetbeat.decisions.manifests import bundle_kinds, read, refuse, resolve
from fleetbeat.engine.kinds import api_set_for
from fleetbeat.model import Application, Manifest
from fleetbeat.ports import ClusterPort


@dataclass(frozen=True)
class Rendered:
    manifests: list[Manifest]  #: in the order they were read, those that are left out (``hook: Skip``) included
    said: tuple[str, ...]  #: what was skipped or assumed, full sentences


def render(
    layer: bytes, application: Application, cluster: ClusterPort, *, max_unpacked: int, max_entries: int
) -> Rendered:
    """Raises BundleError, ManifestError with every problem, NotYet for kinds that may still come, and the port's."""
    found = read(unpack(layer, max_unpacked=max_unpacked, max_entries=max_entries), path=application.source.path)
    ours = {(kind.group, kind.kind) for kind in bundle_kinds(found.documents)}
    used = {(d.body["apiVersion"].rpartition("/")[0], d.body["kind"]) for d in found.documents}
    apis = api_set_for(cluster, used - ours)
    resolved = resolve(found.documents, apis=apis, namespace=application.destination.namespace)
    examined = examine(resolved.manifests)
    refuse(examined.problems)
    skipped = (f"{place} is not applied: {why}" for place, why in found.skipped)
    said = (*skipped, *resolved.warnings, *examined.told, *map(str, examined.remarks))
    return Rendered(resolved.manifests, said)
