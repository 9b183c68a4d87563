"""The ledger against the API server's own audit log, over hundreds of writes whose workers are killed in between."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from breaking import at_rest, breakable, kept, new_namespace
from departing import removed
from fleet import Fleet, config_map, in_wave, run
from hooking import hook
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

OBJECTS = 75
DIGESTS = 7


def audit(fleet: Fleet, *words: str) -> subprocess.CompletedProcess[str]:
    return run(fleet, "audit", *words)


def bundle(number: int) -> list[dict[str, Any]]:
    """Every object differs from the last digest's; some come and some go."""
    return [
        in_wave(n % 3, config_map(f"o{n:02}", data={"value": str(number)}))
        for n in range(OBJECTS)
        if (n + number) % 10  # so that each tenth is pruned, another one each time
    ]


def saved(cluster: Cluster, since: int, folder: Path) -> Path:
    """The audit log since the test began, as an administrator would copy it."""
    copy = folder / "audit.log"
    with cluster.audit_log.open("rb") as log:
        log.seek(since)
        copy.write_bytes(log.read())
    return copy


@pytest.mark.slow
def test_every_write_is_in_the_ledger_whatever_was_killed(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """500 writes with kills in between: each is joined to run, digest and commit, none is claimed that was not made."""
    seed = int(os.environ.get("KILL_SEED") or random.randrange(2**32))
    print(f"KILL_SEED={seed}")
    dice, since, app = random.Random(seed), cluster.audit_position(), "joined"
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        namespace, commits, kills = new_namespace(cluster), dict[str, str](), 0
        for number in range(DIGESTS):
            # Killed right between a wave's writes and the telling of them, then at random moments of the rest.
            worker = nursery.worker({"point": "before record", "do": "kill", "nth": dice.randint(1, 3)})
            revision = {"org.opencontainers.image.revision": f"main@sha1:{number:040x}"}
            digest = fleet.push(app, bundle(number), annotations=revision).digest
            commits[digest] = f"{number:040x}"
            fleet.application(app, namespace=namespace)
            request = fleet.request(app)
            wait_for(lambda worker=worker: not worker.alive, timeout=120, what="the worker to die before its record")
            kills += 1
            for _ in range(2):
                worker = nursery.worker()
                time.sleep(dice.uniform(0.1, 1.5))  # the random moment
                worker.kill()
                kills += 1
            worker = nursery.worker()
            at_rest(fleet, app, digest)
            wait_for(lambda: not fleet.runs.look(app).run, what=f"request {request} to end")
            worker.kill()
        events = kept(fleet.writes(app, since=since, parents=True))
        print(f"{len(events)} writes, {kills} kills")
        assert len(events) >= 500

        log = saved(cluster, since, tmp_path)
        whole = audit(fleet, app, "--verify")
        assert (whole.returncode, whole.stderr) == (0, ""), whole
        joined = audit(fleet, app, "--join", str(log), "-o", "json")
        assert joined.returncode == 0, joined
        found = json.loads(joined.stdout)
        assert found["byAuditId"] + len(found["byUserAgent"]) == len(events)
        assert found["byUserAgent"], "no kill fell between a write and its record: the test has lost its point"
        assert found["outside"] == []

        rows = [json.loads(line) for line in audit(fleet, app, "-o", "json").stdout.splitlines()]
        assert {(row["digest"], row["commit"]) for row in rows} == set(commits.items())
        ids = [row["auditId"] for row in rows if row["auditId"]]
        assert len(ids) == len(set(ids)) == found["byAuditId"], "a write is claimed twice"
        runs = {entry["run"] for entry in fleet.history(app)}
        assert {row["run"] for row in rows} <= runs
        assert_lies_are_found(fleet, app, log, rows)


def assert_lies_are_found(fleet: Fleet, app: str, log: Path, rows: list[dict[str, Any]]) -> None:
    """What only one of the two says is printed, and is an error."""
    lines = log.read_text().splitlines(keepends=True)
    victim = rows[len(rows) // 2]["auditId"] or next(row["auditId"] for row in rows[len(rows) // 2 :] if row["auditId"])
    log.write_text("".join(line for line in lines if victim not in line))
    missing = audit(fleet, app, "--join", str(log))
    assert (missing.returncode, missing.stderr.count("in the ledger only")) == (1, 1), missing
    (event,) = [json.loads(line) for line in lines if victim in line]
    event |= {"auditID": "never-told", "objectRef": {**event["objectRef"], "name": "somebody-elses"}}
    log.write_text("".join([*lines, json.dumps(event) + "\n"]))
    foreign = audit(fleet, app, "--join", str(log))
    assert (foreign.returncode, foreign.stderr.count("in the log only")) == (1, 1), foreign


def test_every_kind_of_write_is_in_the_ledger_with_its_audit_id(fleet: Fleet, cluster: Cluster) -> None:
    """Also namespaces, records, hooks, takeovers, replacing, recreating, pruning, letting go, deleting."""
    app, space, since = fleet.name("every"), fleet.name("every-space"), cluster.audit_position()
    options = "argocd.argoproj.io/sync-options"
    frozen = config_map("frozen", data={"k": "1"}, annotations={options: "Force=true"}) | {"immutable": True}
    replaced = config_map("replaced", data={"k": "1"}, annotations={options: "Replace=true"})
    kept = config_map("kept", annotations={options: "Delete=false"})
    helper = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "helper"}}
    migrator = hook("PreSync", helper, policy="HookSucceeded")
    fleet.push(app, [frozen, replaced, kept, config_map("gone"), migrator])
    spec = {"deletionPolicy": "Delete"}
    fleet.application(app, namespace=space, spec=spec, options=["CreateNamespace=true"])
    fleet.wait_run(app, phase="Succeeded")
    theirs = config_map("theirs", space, {"k": "1", "old": "1"})
    last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(theirs)}
    theirs["metadata"]["annotations"] = last
    path = f"/api/v1/namespaces/{space}/configmaps?fieldManager=kubectl-client-side-apply"
    assert cluster.request("POST", path, theirs)[0] == 201
    frozen, replaced = ({**body, "data": {"k": "2"}} for body in (frozen, replaced))
    fleet.push(app, [frozen, replaced, kept, config_map("theirs", data={"k": "2"}), migrator])
    assert fleet.sync(app)["phase"] == "Succeeded"
    fleet.leave(app)
    removed(fleet, app)

    log = saved(cluster, since, fleet.folder)
    joined = audit(fleet, app, "--join", str(log), "-o", "json")
    assert joined.returncode == 0, joined
    found = json.loads(joined.stdout)
    assert found == {**found, "byUserAgent": [], "outside": []}
    rows = [json.loads(line) for line in audit(fleet, app, "-o", "json").stdout.splitlines()]
    assert len(rows) == found["byAuditId"]
    made = {(row["verb"], row["kind"], row["name"]) for row in rows}
    assert {
        ("create", "Namespace", space),
        ("create", "ConfigMap", f"app-{app}"),
        ("replace", "ConfigMap", f"app-{app}"),
        ("delete", "ConfigMap", f"app-{app}"),
        ("apply", "ServiceAccount", "helper"),
        ("delete", "ServiceAccount", "helper"),
        ("apply", "ConfigMap", "frozen"),
        ("delete", "ConfigMap", "frozen"),
        ("replace", "ConfigMap", "replaced"),
        ("patch", "ConfigMap", "theirs"),
        ("delete", "ConfigMap", "gone"),
        ("patch", "ConfigMap", "kept"),
    } <= made
    assert audit(fleet, app, "--verify").returncode == 0
