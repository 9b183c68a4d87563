"""Vetoes and holds of the whole fleet, noted in each cluster and taken from there when Redis has lost its data.

An unchanged look asks nothing of this: mark and note come with what it reads anyway (``Runs.look``).
"""

from __future__ import annotations

import logging

from fleetbeat import __version__
from fleetbeat.clients import fleet_note
from fleetbeat.clients.cluster import KubernetesCluster, Witness
from fleetbeat.clients.fleet_orders import FleetOrdersStore
from fleetbeat.clients.runs import Marks, new_run_id
from fleetbeat.decisions import fleet_orders
from fleetbeat.decisions.ledger import Execution
from fleetbeat.errors import Conflict, FleetbeatError, StoreUnavailable
from fleetbeat.model import Cluster
from workers.parts import Parts

log = logging.getLogger(__name__)

_TRIES = 3  # so often in a row one worker notes what has changed meanwhile; the next look goes on


def attend(shared: Parts, cluster: Cluster, marks: Marks) -> None:
    """Before anything is chosen: take up what the cluster remembers and Redis does not, note there what is new.

    A cluster that does not answer keeps no look from going on. Nothing is written to it before ``recall`` has gone
    through. Raises StoreUnavailable.
    """
    mark, noted = marks
    if noted == mark:
        return
    try:
        if noted is None:
            recall(shared, _connected(shared, cluster))
        _note(shared, cluster)
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        told = "cluster %s: the orders for the fleet are not noted there, a later look tries again: %s"
        log.warning(told, cluster.name, error)


def recall(shared: Parts, cluster: KubernetesCluster) -> frozenset[str]:
    """Restore what the cluster remembers: digests of vetoes, ids of holds. Raises the errors of ``ClusterPort.get``."""
    note = fleet_note.read(cluster, shared.settings.namespace)
    found, faults = fleet_orders.FleetOrders(), list[str]()
    if note and note.installation == _installation(shared):
        found, faults = fleet_orders.read(note.data, shared.runs.now())
    elif note:
        faults = ["it is of an installation with another FLEETBEAT_KEY, or was not written by Fleetbeat"]
    restored = FleetOrdersStore(shared.store).restore(cluster.name, found, there=note is not None)
    where = f"cluster {cluster.name}: ConfigMap {shared.settings.namespace}/{fleet_orders.NAME}"
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        log.warning("%s: not taken from there, and overwritten: %s%s", where, "; ".join(faults[:3]), more)
    if restored:
        log.warning("%s: Redis has lost its data; %d orders are taken from there", where, len(restored))
    return restored


def _note(shared: Parts, cluster: Cluster) -> None:
    client = FleetOrdersStore(shared.store)
    found = client.read(cluster.name)
    if found.noted in (None, found.mark) or (turn := client.begin_note(cluster.name)) is None:
        return
    token, fence = turn
    for _ in range(_TRIES):
        found = client.read(cluster.name)
        if found.noted is None:
            return  # Redis has lost its data this moment: what it does not know any more is in the note
        try:
            _write(shared, cluster, found.orders, found.now, fence)
        except Conflict:
            continue
        if client.noted(cluster.name, found.mark, token):
            return
    client.end_note(cluster.name, token)


def _write(shared: Parts, cluster: Cluster, orders: fleet_orders.FleetOrders, now: int, fence: int) -> None:
    space, mine = shared.settings.namespace, _installation(shared)
    # Not an application's ledger: one that syncs meanwhile writes there. No application can be called so.
    run = new_run_id(now)
    pen = shared.ledger.pen(Execution(_writer(cluster), "", run, fence, "note of the fleet's orders"))
    view = _connected(shared, cluster, f" run/{run} fence/{fence}", pen.saw)
    before = fleet_note.read(view, space)
    noted = fleet_orders.read(before.data, now)[0].holds if before and before.installation == mine else ()
    wanted = fleet_orders.to_note(orders, cluster.name, now, fleet_orders.ids(noted))
    data, left = fleet_orders.written(wanted)
    if (before.data, before.installation) == (data, mine) if before else wanted == fleet_orders.FleetOrders():
        return
    if left:
        log.warning("cluster %s: %d orders for the fleet are too many to be noted there", cluster.name, left)
    with pen.begin(cluster.name, fleet_note.places(space), known_before=False):
        fleet_note.write(view, space, before, mine, data)


def _writer(cluster: Cluster) -> str:
    return f"orders@{cluster.name}"


def _connected(shared: Parts, cluster: Cluster, more: str = "", witness: Witness | None = None) -> KubernetesCluster:
    client = KubernetesCluster.connect(cluster, http=shared.settings.http, pool=shared.settings.steps.parallel * 2)
    return client.acting(f"fleetbeat/{__version__} app/{_writer(cluster)}{more}", None, witness)


def _installation(shared: Parts) -> str:
    return shared.store.fingerprint(b"installation")[:16]
