"""No secret leaves its place: a fleet is led through everything that could make it talk, then all it left is searched.

The secrets: values of Secret objects, the password of a registry, the token of a cluster, the password of Redis, the
sealing key. The places: what Redis was ever sent and what it keeps on disk, waiting messages, logs of every process,
Flower's pages and API, history and status, and what the command line prints.
"""

from __future__ import annotations

import base64
import json
import pickle
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import PATIENT, Fleet, config_map, outcomes, run
from stories import answer_to, doc
from traces import Monitor, contents, forms, traces
from waiting import wait_for

from fleetbeat.clients.oci_push import push
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import Process, free_port
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry
from fleetbeat.model import Credential, RegistryAuth, SecretText
from fleetbeat.wire import WORK_QUEUE

USER = "ci"


def marker(word: str) -> str:
    """Unlike anything else in the world, and without characters that any encoding would change."""
    return f"{word}{secrets.token_hex(8)}"


@dataclass
class Scene:
    """A fleet whose every secret is known, and what was found in each place."""

    fleet: Fleet
    registry: Registry
    cluster: Cluster
    namespace: str
    app: str
    secrets: dict[str, str]
    evidence: dict[str, bytes] = field(default_factory=dict)

    def push(self, files: dict[str, str]) -> None:
        folder = self.fleet.folder / "bundles" / secrets.token_hex(4)
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        login = RegistryAuth(USER, Credential(inline=SecretText(self.secrets["registry password"])))
        push(folder, f"{self.registry.host}/shop/{self.app}:stable", auth=login, plain_http=True)

    def sync(self, files: dict[str, str]) -> dict[str, Any]:
        self.push(files)
        return answer_to(self.fleet, self.app, self.fleet.request(self.app), 120)

    def cli(self, *words: str) -> str:
        """What a person sees; both streams."""
        done = run(self.fleet, *words, COLUMNS="200")
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, local_binary: Path, cluster: Cluster) -> Iterator[Scene]:
    hidden = {
        name: marker(name.replace(" ", "")[:6])
        for name in ("secret data", "secret text", "new value", "drifted value", "registry password", "redis password")
    }
    hidden["cluster token"] = cluster.token
    namespace = f"secrets-{secrets.token_hex(3)}"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    with (
        RedisServer(password=hidden["redis password"]) as server,
        Registry(users={USER: hidden["registry password"]}) as registry,
        Monitor(server.url) as monitor,
        Fleet(tmp_path_factory.mktemp("secrets"), server, registry, [cluster], **PATIENT) as fleet,
    ):
        hidden["sealing key"] = fleet.env["FLEETBEAT_KEY"]
        scene = Scene(fleet, registry, cluster, namespace, fleet.name("shop"), hidden)
        flower = _flower(fleet)
        try:
            _play(scene, flower)
        finally:
            flower.process.kill()
        scene.evidence["every command Redis was sent"] = monitor.heard
        scene.evidence["logs"] = fleet.logs().encode()
        scene.evidence["Redis' own log"] = server.log.read_bytes()
        yield scene


def _play(scene: Scene, flower: Flower) -> None:
    fleet, app, hidden = scene.fleet, scene.app, scene.secrets
    login = {"username": USER, "password": {"inline": hidden["registry password"]}}
    good = _bundle(scene, "secret data", "secret text")
    scene.push(good)
    fleet.application(
        app,
        namespace=scene.namespace,
        source={"oci": f"{scene.registry.host}/shop/{app}", "auth": login},
        retry={"limit": 1, "backoff": {"duration": "3m"}},
    )
    assert fleet.wait_run(app)["phase"] == "Succeeded"

    # Somebody changes a Secret by hand; the next look heals it and says who it was.
    path = f"/api/v1/namespaces/{scene.namespace}/secrets/plain"
    drifted = {"stringData": {"password": hidden["drifted value"]}}
    status, _ = scene.cluster.request("PATCH", path, drifted, content_type="application/merge-patch+json")
    assert status == 200
    scene.evidence["diff of drift"] = scene.cli("diff", app).encode()
    seen = fleet.runs_ended(app)
    fleet.ring(app)
    healed = fleet.wait_run(app, since=seen)
    assert outcomes(healed)[f"Secret {scene.namespace}/plain"] == "configured", healed

    # New values for a Secret that must not change, values the server refuses, and files that cannot be read.
    bad = _bundle(scene, "new value", "secret text")
    said = [scene.sync(bad)]
    scene.evidence["diff of a refused bundle"] = scene.cli("diff", app).encode()
    for broken in _broken(scene):
        said.append(scene.sync(good | broken))
        scene.evidence[f"diff of {next(iter(broken))}"] = scene.cli("diff", app).encode()
    assert [entry["phase"] for entry in said] == ["Failed"] * len(said), [entry["message"] for entry in said]
    # A registry and a cluster that refuse their credentials.
    wrong = {"username": USER, "password": {"inline": hidden["registry password"] + "x"}}
    refused = fleet.name("refused")
    fleet.application(refused, source={"oci": f"{scene.registry.host}/shop/{app}", "auth": wrong})
    wait_for(lambda: fleet.state(refused).get("reason") == "Unauthorized", what="the registry to refuse")

    for words in (
        ["status"],
        ["status", app, "-o", "json"],
        ["history", app, "-o", "json"],
        ["drift", app],
        ["doctor"],
    ):
        scene.evidence["fleetbeat " + " ".join(words)] = scene.cli(*words).encode()
    for page in flower.pages():
        scene.evidence[f"Flower {page}"] = flower.get(page)

    # Messages that nobody takes any more.
    for worker in fleet.workers:
        worker.kill()
    fleet.request(app)
    client = fleet.store.redis
    wait_for(lambda: client.llen(f"fleetbeat:{WORK_QUEUE}"), what="a message to wait in the queue")
    everything = contents(client)
    assert any(key.startswith("fleetbeat:blob:") for key in everything)
    scene.evidence["everything in Redis"] = b"\n".join(key.encode() + b" " + v for key, v in everything.items())
    client.config_set("rdbcompression", "no")
    client.save()
    files = [path for path in fleet.redis.folder.rglob("*") if path.is_file() and path.suffix != ".conf"]
    assert {"dump.rdb"} < {path.name for path in files}
    scene.evidence["Redis' files"] = b"\n".join(path.read_bytes() for path in files if path.name != "redis.log")


def _bundle(scene: Scene, data: str, text: str) -> dict[str, str]:
    values = scene.secrets
    encoded = base64.b64encode(values[data].encode()).decode()
    docker = {"auths": {"registry.example.com": {"auth": encoded}}}
    return {
        "plain.yaml": doc(_secret("plain", stringData={"password": values[text]}, data={"key": encoded})),
        "fixed.yaml": doc(_secret("fixed", data={"key": encoded}, immutable=True)),
        "docker.yaml": doc(
            _secret(
                "docker", stringData={".dockerconfigjson": json.dumps(docker)}, type="kubernetes.io/dockerconfigjson"
            )
        ),
        "plain-map.yaml": doc(config_map("web")),
    }


def _broken(scene: Scene) -> list[dict[str, str]]:
    """Bundles whose mistake is at a secret's value, each provoking another author of messages."""
    value = scene.secrets["new value"]
    head = "apiVersion: v1\nkind: Secret\nmetadata: {name: broken}\n"
    return [
        {"not-base64.yaml": f"{head}data: {{key: '{value}!'}}\n"},
        {"number.yaml": f"{head}stringData: {{key: {{nested: {value}}}}}\n"},
        {"list.yaml": f"{head}data: [{value}]\n"},
        {"unknown-field.yaml": f"{head}strngData: {{key: {value}}}\n"},
        {"unclosed.yaml": f'{head}stringData: {{key: "{value}\n'},
        {"alias.yaml": f"{head}stringData: {{key: *{value}}}\n"},
        {"twice.yaml": f"{head}stringData: {{key: {value}, key: {value}}}\n"},
        {"no-kind.yaml": f"apiVersion: v1\nmetadata: {{name: broken}}\nstringData: {{key: {value}}}\n"},
        {"broken.json": '{"apiVersion": "v1", "kind": "Secret", "stringData": {"key": "' + value + "}}"},
        {"docker.yaml": doc(_secret("docker", stringData={".dockerconfigjson": value}, type="kubernetes.io/tls"))},
        {"in-a-list.yaml": doc({"apiVersion": "v1", "kind": "List", "items": [{"stringData": {"key": value}}]})},
        {"pod.yaml": doc(_pod_with_numbers(value))},
    ]


def _secret(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **more}


def _pod_with_numbers(value: str) -> dict[str, Any]:
    """A Secret by the annotation kubectl leaves behind, on an object the server refuses."""
    left = json.dumps(_secret("old", stringData={"key": value}))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": left}
    return {**_secret("Broken_Name", stringData={"key": value}), "metadata": {"name": "B_", "annotations": annotations}}


@dataclass
class Flower:
    process: Process
    url: str

    def get(self, path: str) -> bytes:
        return requests.get(f"{self.url}{path}", timeout=120).content

    def pages(self) -> list[str]:
        """What a person and a program can look at: workers with their settings, tasks with arguments and results."""
        found = wait_for(lambda: json.loads(self.get("/api/workers?refresh=1")), timeout=120, what="Flower's workers")

        def applied() -> dict[str, Any] | None:
            tasks: dict[str, Any] = json.loads(self.get("/api/tasks?limit=1000"))
            return tasks if any(task["name"] == "fleetbeat.apply" for task in tasks.values()) else None

        tasks = wait_for(applied, timeout=120, what="Flower's tasks", every=0.2)
        some = [f"/task/{number}" for number in list(tasks)[:5]] + [f"/api/task/info/{number}" for number in tasks]
        return ["/api/workers?refresh=1", "/api/tasks?limit=1000", "/tasks", "/broker", "/metrics", *some] + [
            f"/worker/{name}" for name in found
        ]


def _flower(fleet: Fleet) -> Flower:
    port = free_port()
    command = ["-m", "celery", "-A", "workers.app", "flower", "--address=127.0.0.1", f"--port={port}"]
    process = Process(
        "flower",
        [sys.executable, *command],
        log=fleet.folder / "flower.log",
        env={**fleet.env, "FLOWER_UNAUTHENTICATED_API": "true"},
        port=port,
    )
    process.start()
    flower = Flower(process, f"http://127.0.0.1:{port}")

    def answers() -> bool:
        try:
            return bool(flower.get("/healthcheck"))
        except requests.ConnectionError:
            return False

    wait_for(answers, timeout=120, what="Flower")
    return flower


SECRETS = (
    *("secret data", "secret text", "new value", "drifted value"),
    *("registry password", "cluster token", "redis password", "sealing key"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_no_trace_of_a_secret(scene: Scene, name: str) -> None:
    """Field cases l1, l9, l10."""
    found = {}
    for place, evidence in scene.evidence.items():
        if name == "redis password" and place == "every command Redis was sent":
            continue  # it is how clients log in; MONITOR itself hides it
        if where := traces(evidence, scene.secrets[name]):
            found[place] = where
    assert found == {}


def test_every_place_was_really_looked_at(scene: Scene) -> None:
    """What is no secret is found in all of them: the search is not blind."""
    places = scene.evidence
    assert {place for place, evidence in places.items() if not evidence} == set()
    assert traces(places["every command Redis was sent"], scene.app)
    assert b"fleetbeat.apply" in places["every command Redis was sent"]
    assert traces(places["everything in Redis"], scene.app)
    assert traces(places["Redis' files"], scene.app)
    assert traces(places["Flower /api/tasks?limit=1000"], scene.app)
    assert "password" in places["diff of drift"].decode(), "that it differs is told"
    live = scene.cluster.request("GET", f"/api/v1/namespaces/{scene.namespace}/secrets/plain")[1]
    assert traces(json.dumps(live).encode(), scene.secrets["secret text"]), "the cluster has it"


@pytest.mark.parametrize("shift", range(3))
def test_the_search_finds_what_is_wrapped(shift: int) -> None:
    secret = marker("wrap")
    inner = base64.b64encode(b"x" * shift + secret.encode() + b" and more")
    assert traces(b"before " + inner + b" after", secret)
    assert traces(base64.b64encode(json.dumps({"body": inner.decode()}).encode()), secret)
    assert all(len(form) > 15 for form in forms(secret).values())
    assert not traces(base64.b64encode(secrets.token_bytes(600)), secret)


class Bomb:
    """Unpickled it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_in_the_queue_is_refused_and_the_worker_lives(fleet: Fleet, namespace: str, tmp_path: Path) -> None:
    """Field case l10."""
    proof = tmp_path / "exploded"
    body = base64.b64encode(pickle.dumps(((Bomb(proof),), {}, {}))).decode()
    properties = {
        "correlation_id": "1",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": WORK_QUEUE},
        "delivery_tag": "bomb",
        "body_encoding": "base64",
    }
    headers = {"lang": "py", "task": "fleetbeat.reconcile", "id": "bomb", "root_id": "bomb", "parent_id": None}
    message = {
        "body": body,
        "content-encoding": "binary",
        "content-type": "application/x-python-serialize",
        "headers": headers,
        "properties": properties,
    }
    pids = [worker.pid for worker in fleet.workers]
    client = fleet.store.redis
    client.lpush(f"fleetbeat:{WORK_QUEUE}", json.dumps(message))
    wait_for(lambda: "ContentDisallowed" in fleet.logs() or "disallowed" in fleet.logs(), what="a refusal")
    app = fleet.name("after-pickle")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    assert fleet.wait_run(app)["phase"] == "Succeeded"
    assert [worker.pid for worker in fleet.workers] == pids
    # other applications of this fleet may have a message under way
    wait_for(lambda: client.llen(f"fleetbeat:{WORK_QUEUE}") == 0, what="nothing to be left in the queue")
    wait_for(lambda: client.hlen("fleetbeat:unacked") == 0, what="nothing to be left over")
    assert not proof.exists()
