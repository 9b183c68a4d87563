"""``fleetbeat explain``: an object is led back to its application, run, commit and whoever asked."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from fleet import Fleet, config_map, in_wave, run

from fleetbeat.decisions.inventory import ID, PART_OF
from fleetbeat.local.cluster import Cluster

COMMIT = "8c1f0a5d5e6c0b2f4a9d1e3c7b6a5f4e3d2c1b0a"
PLACE = "https://git.example.com/shop/manifests"
#: of the artifact, as `fleetbeat push` takes them from git
ANNOTATIONS = {"org.opencontainers.image.revision": f"main@sha1:{COMMIT}", "org.opencontainers.image.source": PLACE}
MERGE = "application/merge-patch+json"


def explain(fleet: Fleet, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = run(fleet, "explain", *words)
    assert done.returncode == code, done
    return done


def told(fleet: Fleet, *words: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(explain(fleet, *words, "-o", "json").stdout)
    return data


def synced(fleet: Fleet, namespace: str) -> tuple[str, dict[str, Any]]:
    app = fleet.name("told")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "hidden-one"}}
    blue, red = (in_wave(3, config_map("web", data={"greeting": "hello", "colour": one})) for one in ("blue", "red"))
    fleet.push(app, [blue, secret])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.push(app, [red, secret], annotations=ANNOTATIONS)
    return app, fleet.sync(app)


def test_an_object_of_ours(fleet: Fleet, namespace: str, cluster: Cluster) -> None:
    """Application, run, wave, digest, commit and who asked, as text and as JSON; then what others did to it."""
    app, entry = synced(fleet, namespace)
    (result,) = [one for one in entry["results"] if one["id"].endswith("/web")]
    (event,) = [e for e in fleet.writes(app) if e["auditID"] == result["auditId"]]
    found = told(fleet, "cm/web", "-n", namespace)
    write = found["write"]
    assert (found["application"], found["exists"], found["changedSince"]) == (app, True, False)
    assert (write["run"], write["auditId"], write["by"], write["reason"]) == (
        *(entry["run"], event["auditID"]),
        *("tester", "test"),
    )
    assert (write["digest"], write["tag"]) == (entry["revision"]["digest"], "stable")
    assert (write["what"], write["stage"]) == ("data.colour", "wave 3")
    assert (write["commit"], write["source"]) == (COMMIT, PLACE)
    assert write["before"]
    assert write["before"] != write["after"]
    assert "data.colour" in found["fields"][0]["fields"]
    shown = explain(fleet, "configmap/web", "-n", namespace).stdout
    lines = dict(re.findall(r"^(\S+): +(.*)$", shown, re.MULTILINE))
    assert lines["Owner"] == f"Fleetbeat application {app}"
    assert lines["Written"].endswith(" (apply, wave 3)")
    assert lines["Run"].startswith(f"{entry['run']}, fence ")
    assert lines["Trigger"] == "Request (tester, test)"
    assert lines["Revision"] == f"stable@{entry['revision']['digest']}"
    assert (lines["Commit"], lines["Source"]) == (COMMIT, PLACE)
    assert (lines["Audit-Id"], lines["Since"]) == (event["auditID"], "unchanged")

    path = f"/api/v1/namespaces/{namespace}/configmaps/web?fieldManager=kubectl-edit"
    cluster.request("PATCH", path, {"data": {"greeting": "hacked"}}, content_type=MERGE)
    changed = told(fleet, "ConfigMap/web", "-n", namespace)
    assert changed["changedSince"] is True
    assert [(one["manager"], one["fields"]) for one in changed["changedBy"]] == [("kubectl-edit", ["data.greeting"])]
    cluster.request("PATCH", path, {"data": {"colour": None, "greeting": "hello"}}, content_type=MERGE)
    assert told(fleet, "ConfigMap/web", "-n", namespace)["changedSince"] is True, "what was removed counts"

    secret = explain(fleet, "secret/key", "-n", namespace)
    assert "stringData.token" in secret.stdout
    assert "hidden-one" not in secret.stdout


def test_one_that_is_gone_and_one_that_never_was(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("told")
    fleet.push(app, [config_map("web"), config_map("gone")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.push(app, [config_map("web")])
    entry = fleet.sync(app)
    found = told(fleet, "cm/gone", "-n", namespace)
    assert (found["exists"], found["application"]) == (False, app)
    assert (found["write"]["verb"], found["write"]["run"]) == ("delete", entry["run"])
    assert "not there any more" in explain(fleet, "cm/gone", "-n", namespace).stdout
    assert "no ledger speaks of it" in explain(fleet, "cm/never", "-n", namespace, code=1).stderr
    assert "serves no kind 'cmm'" in explain(fleet, "cmm/web", "-n", namespace, code=1).stderr
    assert "not KIND/NAME" in explain(fleet, "web", code=2).stderr
    assert "no cluster is called" in explain(fleet, "cm/web", "--cluster", "mars", code=3).stderr


def test_an_object_of_somebody_else(fleet: Fleet, namespace: str, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.request("POST", path, config_map("nobodys"))
    label = {"argocd.argoproj.io/instance": "guestbook"}
    cluster.request("POST", path, config_map("argos", labels=label))
    assert told(fleet, "cm/nobodys", "-n", namespace)["owner"] == "nobody: no tool has marked it"
    found = told(fleet, "cm/argos", "-n", namespace)
    assert found["owner"].startswith("Argo CD application guestbook")
    assert found["application"] == ""
    cluster.request("POST", path, config_map("sets", labels={PART_OF: "applyset-unknown-v1"}))
    assert told(fleet, "cm/sets", "-n", namespace)["owner"] == "ApplySet applyset-unknown-v1"
    cluster.request("POST", path, config_map("their-parent", labels={ID: "applyset-unknown-v1"}))
    assert told(fleet, "cm/sets", "-n", namespace)["owner"] == f"ApplySet {namespace}/their-parent"


def test_a_namespace_that_an_application_made_is_led_back_to_it(fleet: Fleet) -> None:
    """It carries no mark, since it is not deleted with the application."""
    app, made = fleet.name("maker"), fleet.name("made")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=made, options=["CreateNamespace=true"])
    entry = fleet.wait_run(app, phase="Succeeded")
    found = told(fleet, f"ns/{made}")
    assert (found["application"], found["write"]["run"]) == ("", entry["run"])
    assert found["owner"] == f"nobody: no tool has marked it; Fleetbeat has written it for application {app}"
    assert entry["run"] in explain(fleet, f"ns/{made}").stdout


def test_after_redis_lost_the_ledger(fleet: Fleet, namespace: str) -> None:
    """The label on the object and the application's record in the cluster are still there."""
    app, entry = synced(fleet, namespace)
    fleet.store.redis.delete(f"fleetbeat:ledger:{app}", f"fleetbeat:ledger:{app}:head")
    found = told(fleet, "cm/web", "-n", namespace)
    assert (found["application"], found["write"]) == (app, None)
    assert entry["run"] in found["unknown"]
    assert entry["revision"]["digest"] in found["unknown"]
