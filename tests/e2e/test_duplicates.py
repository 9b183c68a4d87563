"""Every message comes twice, to two workers at the same time. Each object is written once all the same."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

from breaking import at_rest, breakable, created, kept, new_namespace, stale_writes, versions
from fleet import config_map, in_wave, outcomes, words
from waiting import wait_for

from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry
from fleetbeat.wire import WORK_QUEUE

NAMES = ("a0", "a1", "a2", "b0", "b1", "b2")


def test_every_message_delivered_twice(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """Field cases j1, j3. The copies lie side by side in the queue, so that both workers take one at once."""
    with breakable(tmp_path, registry, cluster, lock_ttl=30.0) as (fleet, nursery):  # nobody dies
        for _ in range(2):
            nursery.worker({"do": "twice"})
        spaces = {f"app-{uuid.uuid4().hex[:6]}": new_namespace(cluster) for _ in range(4)}
        for round_, value in enumerate(("first", "second")):
            since = cluster.audit_position()
            digests = {}
            for app, namespace in spaces.items():
                manifests = [in_wave(5 * (name[0] == "b"), config_map(name, data={"key": value})) for name in NAMES]
                digests[app] = fleet.push(app, manifests).digest
                fleet.application(app, namespace=namespace)
                fleet.request(app)
                for _ in range(3):
                    fleet.ring(app)
            for app, digest in digests.items():
                at_rest(fleet, app, digest)
            for app, namespace in spaces.items():
                writes = fleet.writes(app, since=since)
                each = sorted(f"patch configmaps {namespace}/{name}" for name in NAMES)
                assert sorted(words(kept(writes))) == each
                assert created(writes) == ([] if round_ else each)
                assert stale_writes(fleet, app, since=since) == []
                entries = fleet.history(app)
                assert len({entry["run"] for entry in entries}) == len(entries)
                told = [entry for entry in entries if entry["revision"]["digest"] == digests[app] and outcomes(entry)]
                assert len(told) == 1, "one run wrote, and told it once"
                word = "configured" if round_ else "created"
                assert outcomes(told[0]) == {f"ConfigMap {namespace}/{name}": word for name in NAMES}
        wait_for(lambda: "stale" in fleet.logs() or "busy" in fleet.logs(), what="a worker to meet a duplicate")


def test_two_reconciles_of_a_new_application_at_once(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """Field case j12."""
    with breakable(tmp_path, registry, cluster, lock_ttl=30.0) as (fleet, nursery):
        two = [nursery.worker(), nursery.worker()]
        wait_for(lambda: all("ready" in worker.log.read_text() for worker in two), what="both workers")
        apps = {f"new-{uuid.uuid4().hex[:6]}": new_namespace(cluster) for _ in range(6)}
        for app, namespace in apps.items():
            digest = fleet.push(app, [config_map("web")]).digest
            gate = threading.Barrier(3)

            def ring(app: str = app, gate: threading.Barrier = gate) -> None:
                celery = make_app(fleet.settings, "fleetbeat.tests")
                with celery.connection_for_write() as connection:
                    connection.connect()
                gate.wait()
                publish_reconcile(celery, [app], WORK_QUEUE)
                celery.close()

            threads = [threading.Thread(target=ring) for _ in range(2)]
            for thread in threads:
                thread.start()
            fleet.application(app, namespace=namespace)
            wait_for(lambda app=app: app in fleet.catalogs.names(), what=f"{app} in the catalog")
            gate.wait()
            for thread in threads:
                thread.join()
            at_rest(fleet, app, digest)
            (entry,) = fleet.history(app)
            assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
            assert created(fleet.writes(app)) == [f"patch configmaps {namespace}/web"]
            assert list(versions(fleet, namespace)) == ["web"]
