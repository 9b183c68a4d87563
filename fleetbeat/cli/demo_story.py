"""The demo's story: what is done, and what must then be true in the cluster. Each step checks itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleetbeat.cli.demo_person import edit_greeting, read
from fleetbeat.cli.demo_screen import Screen
from fleetbeat.cli.demo_stage import APP, INTERVAL, Stage
from fleetbeat.client import Outcome, Progress
from fleetbeat.errors import FleetbeatError
from fleetbeat.local.process import listens
from fleetbeat.model import ObjectId, Revision

_PATIENCE = 60.0  # seconds a sync may take here; it takes three

NAMESPACE = ObjectId("", "Namespace", "", "shop")
DEFINITION = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "carts.shop.example.com")
CONFIG = ObjectId("", "ConfigMap", "shop", "web-config")
WEB = ObjectId("apps", "Deployment", "shop", "web")
SERVICE = ObjectId("", "Service", "shop", "web")
CART = ObjectId("shop.example.com", "Cart", "shop", "main")
WAVES = {NAMESPACE: 0, DEFINITION: 0, CONFIG: 0, WEB: 5, SERVICE: 5, CART: 10}


class Failed(FleetbeatError):
    """A step did not do what it says."""


def play(stage: Stage, screen: Screen) -> None:
    """All steps in order. Raises Failed with what was expected, what came, and the ends of the logs."""
    for step in (_first_sync, _heal, _second_version, _broken_version, _look_at_flower):
        try:
            step(stage, screen)
        except FleetbeatError as error:
            name = step.__name__.strip("_").replace("_", " ")
            raise Failed(f"The step “{name}” did not do what it says: {error}\n{stage.last_words()}") from error


def tell_where(stage: Stage, screen: Screen) -> None:
    """URLs and the lines for another shell."""
    screen.step("It stays up until Ctrl-C")
    screen.line(f"Flower      {stage.flower_url}   {stage.flower_login}")
    screen.line(f"Registry    {stage.registry.url}/v2/_catalog")
    if stage.simulated is not None:
        screen.line(f"Cluster     export KUBECONFIG={stage.simulated.kubeconfig}")
    screen.line(f"Fleetbeat   {stage.shell_line}")
    screen.line("            fleetbeat status shop; fleetbeat history shop; fleetbeat diff shop; fleetbeat doctor")
    screen.line(f"Logs        {stage.folder / 'logs'}")


def _first_sync(stage: Stage, screen: Screen) -> None:
    _free(stage)
    screen.step(
        "CI pushes v1, beat finds it, workers sync it",
        "Namespace, CRD and ConfigMap in wave 0, Deployment and Service in wave 5, a Cart in wave 10.",
    )
    pushed = stage.repository.release("v1", stage.reference)
    _tell_push(screen, pushed)
    stage.start_beat()
    outcome = _follow(screen, stage.client.follow_next(APP, after="", timeout=_PATIENCE))
    _expect(outcome.ok, f"the sync to succeed, but it is {outcome.phase}, {outcome.health}: {outcome.message}")
    missing = [str(key) for key in WAVES if read(stage.cluster, key) is None]
    _expect(not missing, f"all objects in the cluster, but these are missing: {', '.join(missing)}")
    waves = {result.id: result.wave for result in outcome.results if result.outcome != "unchanged"}
    wrong = [str(key) for key, wave in waves.items() if WAVES.get(key, wave) != wave]
    _expect(not wrong, f"each object in its wave, not so: {', '.join(wrong)}")
    ready = (_body(stage, WEB).get("status") or {}).get("readyReplicas")
    _expect(ready == 2, f"2 ready pods of Deployment shop/web, not {ready}")
    screen.good(f"{len(WAVES)} objects are in the cluster, 2 of 2 pods ready, commit {_commit(pushed)}")


def _heal(stage: Stage, screen: Screen) -> None:
    screen.step(
        "Somebody edits the ConfigMap by hand",
        f"Fleetbeat looks every {INTERVAL} here; one LIST per kind tells that something moved.",
    )
    before = stage.client.last_run(APP)
    wanted = _greeting(stage)
    edited = time.monotonic()
    edit_greeting(stage, "Everything for free!")
    screen.line("kubectl-edit: data.greeting = Everything for free!", "yellow")
    outcome = _follow(screen, stage.client.follow_next(APP, after=before, timeout=_PATIENCE))
    healed_after = time.monotonic() - edited
    _expect(outcome.ok, f"the heal to succeed, but it is {outcome.phase}: {outcome.message}")
    healed = {result.id: result for result in outcome.results if result.outcome == "configured"}
    _expect(set(healed) == {CONFIG}, f"ConfigMap shop/web-config alone to be written, not {_names(healed)}")
    who = healed[CONFIG].managers
    _expect("kubectl-edit" in who, f"kubectl-edit to be named as who had changed it, not {who}")
    _expect(_greeting(stage) == wanted, f"the greeting to be {wanted!r} again, not {_greeting(stage)!r}")
    screen.good(f"data.greeting is “{wanted}” again {healed_after:.1f} s after the edit; history names kubectl-edit")


def _second_version(stage: Stage, screen: Screen) -> None:
    screen.step("CI pushes v2 and asks for a sync", "A new greeting and a new image: two of six objects differ.")
    pushed = stage.repository.release("v2", stage.reference)
    _tell_push(screen, pushed)
    outcome = _sync(stage, screen, "release v2")
    _expect(outcome.ok, f"the sync to succeed, but it is {outcome.phase}: {outcome.message}")
    written = _written(stage, pushed.digest)
    expected = {CONFIG: 0, WEB: 5}
    _expect(written == expected, f"ConfigMap in wave 0 and Deployment in wave 5 to be written, not {_names(written)}")
    _expect("free delivery" in _greeting(stage), "the new greeting in the cluster")
    screen.good("2 objects written in 2 waves, 4 left alone")


def _broken_version(stage: Stage, screen: Screen) -> None:
    screen.step(
        "CI pushes v3 with a typing error: imagePullPolcy",
        "Everything is dry-run by the API server before the first write.",
    )
    before = {key: _wanted_state(stage, key) for key in WAVES}
    _tell_push(screen, stage.repository.release("v3-broken", stage.reference))
    outcome = _sync(stage, screen, "release v3")
    _expect(outcome.phase == "Failed", f"the sync to fail, but it is {outcome.phase}: {outcome.message}")
    _expect("imagePullPolcy" in outcome.message, f"the error to name the field, but it says: {outcome.message}")
    screen.line(outcome.message, "red")
    changed = [str(key) for key in WAVES if _wanted_state(stage, key) != before[key]]
    _expect(not changed, f"no object to be touched, but these were: {', '.join(changed)}")
    screen.good("nothing was applied, not even the new greeting that was right; v2 stays in force")


def _look_at_flower(stage: Stage, screen: Screen) -> None:  # noqa: ARG001
    _wait(lambda: listens(stage.flower_port), f"Flower to listen on {stage.flower_url}")


def _free(stage: Stage) -> None:
    """In a cluster of the user's own, a namespace that is not ours is left alone."""
    body = read(stage.cluster, NAMESPACE)
    labels = (body or {}).get("metadata", {}).get("labels") or {}
    if body is not None and "applyset.kubernetes.io/part-of" not in labels:
        raise Failed("the cluster has a namespace shop of somebody else. Use another cluster, or remove it first")


def _sync(stage: Stage, screen: Screen, reason: str) -> Outcome:
    request = stage.client.request_sync(APP, by="ci@example.com", reason=reason)
    return _follow(screen, stage.client.follow(APP, request.id, timeout=_PATIENCE))


def _follow(screen: Screen, events: Iterator[Progress | Outcome]) -> Outcome:
    for event in events:
        screen.event(event)
        if isinstance(event, Outcome):
            return event
    raise Failed("the sync ended without an outcome")


def _written(stage: Stage, digest: str) -> dict[ObjectId, int]:
    """Object → wave of everything written at this digest: by the run asked for, or by beat a moment earlier."""
    found: dict[ObjectId, int] = {}
    for entry in stage.history():
        if entry["revision"]["digest"] == digest:
            for result in entry["results"]:
                if result["outcome"] in ("created", "configured", "pruned"):
                    found[ObjectId.from_key(result["id"])] = result["wave"]
    return found


def _wanted_state(stage: Stage, key: ObjectId) -> str:
    """Everything of a live object that a sync could change; status moves by itself."""
    body = _body(stage, key)
    metadata = {name: body["metadata"].get(name) for name in ("uid", "generation", "labels")}
    return json.dumps([metadata, body.get("spec"), body.get("data")], sort_keys=True)


def _body(stage: Stage, key: ObjectId) -> dict[str, Any]:
    body = read(stage.cluster, key)
    if body is None:
        raise Failed(f"expected {key} in the cluster, but it is not there")
    return body


def _greeting(stage: Stage) -> str:
    return str(_body(stage, CONFIG).get("data", {}).get("greeting"))


def _tell_push(screen: Screen, pushed: Revision) -> None:
    screen.line(f"pushed shop/manifests:{pushed.tag}@sha256:{pushed.short}…", "dim")
    if pushed.commit:
        ref = pushed.revision.partition("@")[0]
        screen.line(f"of {pushed.source}, {ref}@{pushed.commit[:12]}", "dim")


def _commit(revision: Revision) -> str:
    return revision.commit[:12] or "unknown (no git here)"


def _names(ids: dict[ObjectId, Any]) -> str:
    return ", ".join(str(key) for key in ids) or "nothing"


def _expect(true: bool, what: str) -> None:
    if not true:
        raise Failed(f"expected {what}")


def _wait(condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        _expect(time.monotonic() < deadline, what)
        time.sleep(0.1)
