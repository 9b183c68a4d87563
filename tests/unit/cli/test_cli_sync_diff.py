"""sync and diff: what they print and how they exit."""

# ruff: noqa: ARG002 - fakes have the signature of what they stand for
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from fleetbeat.cli.chosen import at
from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli
from fleetbeat.cli.preview import Previewed
from fleetbeat.cli.session import Session
from fleetbeat.client import Outcome, Progress, Request
from fleetbeat.clients.holds import Held
from fleetbeat.clients.runs import Look
from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.promise import Promise
from fleetbeat.engine.preview import Preview
from fleetbeat.errors import FleetbeatError, ManifestError, SourceNotFound, SourceUnavailable, StillRunning
from fleetbeat.model import Application, Cluster, Destination, ObjectId, Revision, Source
from fleetbeat.model_results import ObjectResult

DIGEST = "sha256:" + "a" * 64
NEWEST = "sha256:" + "b" * 64
CONFIG = ObjectId("", "ConfigMap", "shop", "web-config")
SHOP = Application("shop", Source("r.example.com/shop", tag="stable"), Destination("prod"))


class Client:
    def __init__(self, events: list[Progress | Outcome | Exception]) -> None:
        self._events = events
        self.asked: dict[str, Any] = {}

    def request_sync(self, app: str, **how: Any) -> Request:
        self.asked = how
        return Request("req-1", "")

    def follow(self, app: str, request: str, *, timeout: float) -> Iterator[Progress | Outcome]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event


class NothingHeld:
    def read(self) -> Held:
        return Held((), 0)


class Ordered:
    """Pins, vetoes and what is in force."""

    def __init__(self, pin: str = "", vetoed: str = "", in_force: str = "") -> None:
        self._pin, self._vetoed, self._in_force = pin, vetoed, in_force

    def pins(self, app: str) -> Order | None:
        return Order(self._pin, "ada", "loses orders") if self._pin else None

    def vetoed(self, digest: str) -> Order | None:
        return Order(digest, "ada") if digest == self._vetoed else None

    def promise(self, promise: Promise) -> str:
        return f"plan-of-{promise.digest[7:11]}"

    def look(self, app: str) -> Look:
        return Look({}, {"digest": self._in_force}, {})


class Fake(Session):
    def __init__(self, *events: Progress | Outcome | Exception, previews: tuple[list[Preview], str] = ([], "")) -> None:
        self.fleetbeat = Client(list(events))  # type: ignore[assignment]
        self._previews = previews
        self.compared: Application | None = None
        self.orders = self.runs = Ordered()  # type: ignore[assignment]
        self.holds = NothingHeld()  # type: ignore[assignment]

    def application(self, name: str) -> tuple[Application, Cluster]:
        return SHOP, Cluster("prod")

    def preview(
        self, application: Application, cluster: Cluster, *, spec: str = "", asked_for: bool = False
    ) -> Previewed:
        self.compared = application
        return Previewed(*self._previews, Promise(application.name, application.source.digest or NEWEST, spec))


def outcome(phase: str, health: str, message: str = "1 configured") -> Outcome:
    return Outcome("shop", "run-1", phase, "Synced", health, message, Revision(DIGEST, "stable"), {})


def invoke(session: Session, *arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments), obj=session)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (outcome("Succeeded", "Healthy"), Exit.OK),
        (outcome("Succeeded", "Degraded"), Exit.FAILED),
        (outcome("Failed", "Healthy", "Deployment shop/web: no such field"), Exit.FAILED),
        (StillRunning("shop: after 3 s the sync is at step apply:1 (waiting)"), Exit.TIMEOUT),
    ],
    ids=["healthy", "degraded", "failed", "time is up"],
)
def test_sync_wait_exits_as_the_sync_ended(end: Outcome | Exception, code: Exit) -> None:
    assert invoke(Fake(end), "sync", "shop", "--wait", "--timeout", "3s").exit_code == code


def test_sync_wait_shows_waves_objects_and_what_is_waited_for() -> None:
    written = ObjectResult(CONFIG, "configured", "data.greeting", wave=0, managers=("kubectl-edit",))
    waits = Progress("run-1", "apply:1", "waiting", "Deployment shop/web: 1 of 2 replicas")
    session = Fake(Progress("run-1", "apply:0", "working", "", (written,)), waits, outcome("Succeeded", "Healthy"))
    shown = invoke(session, "sync", "shop", "--wait", "--reason", "why not")
    assert shown.stdout.splitlines() == [
        "wave 0",
        "  configured ConfigMap shop/web-config   data.greeting; changed by kubectl-edit",
        "apply:1: Deployment shop/web: 1 of 2 replicas",
        f"shop: Succeeded, Healthy at stable@{DIGEST}",
        "1 configured",
    ]
    assert session.fleetbeat.asked["reason"] == "why not"  # type: ignore[attr-defined]


def test_sync_wait_tells_a_wait_once() -> None:
    waits = Progress("run-1", "apply:1", "waiting", "Deployment shop/web: 1 of 2 replicas")
    works = Progress("run-1", "apply:1", "working", "")
    shown = invoke(Fake(works, waits, works, waits, outcome("Succeeded", "Healthy")), "sync", "shop", "--wait")
    assert shown.stdout.splitlines()[:-2] == ["apply:1 …", "apply:1: Deployment shop/web: 1 of 2 replicas"]


def test_sync_wait_does_not_say_twice_that_an_object_is_new() -> None:
    written = Progress("run-1", "apply:0", "working", "", (ObjectResult(CONFIG, "created", "new", wave=0),))
    shown = invoke(Fake(written, outcome("Succeeded", "Healthy")), "sync", "shop", "--wait")
    assert shown.stdout.splitlines()[1] == "  created    ConfigMap shop/web-config"


def test_sync_wait_tells_what_was_left_alone_and_why() -> None:
    kept = {"id": "/ConfigMap/shop/old", "outcome": "kept", "reason": "Prune=false"}
    done = {"id": CONFIG.key, "outcome": "configured", "reason": "data.greeting"}
    ended = replace(outcome("Succeeded", "Healthy"), entry={"phase": "Succeeded", "results": [done, kept]})
    shown = invoke(Fake(ended), "sync", "shop", "--wait")
    assert shown.stdout.splitlines()[:2] == ["wave 0", "  kept       ConfigMap shop/old   Prune=false"]
    assert shown.stdout.count("ConfigMap") == 1


def test_sync_wait_says_that_something_older_was_synced() -> None:
    held = "pinned to aaaaaaaaaaaa by ann@laptop: 2.4 loses orders"
    shown = invoke(Fake(replace(outcome("Succeeded", "Healthy"), held_back=held)), "sync", "shop", "--wait")
    assert shown.stderr == f"note: not what the source means now: {held}\n"
    assert shown.exit_code == Exit.OK


def test_sync_without_wait_only_asks() -> None:
    session = Fake(RuntimeError("must not follow"))
    shown = invoke(session, "sync", "shop", "--key", "build-7")
    assert shown.exit_code == Exit.OK
    assert "request req-1" in shown.stdout
    assert session.fleetbeat.asked["idempotency_key"] == "build-7"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["5", "90s", "5m", "1h30m"])
def test_durations(text: str) -> None:
    assert invoke(Fake(outcome("Succeeded", "Healthy")), "sync", "shop", "--wait", "--timeout", text).exit_code == 0


@pytest.mark.parametrize("text", ["", "5x", "m5", "-1s"])
def test_not_durations(text: str) -> None:
    assert invoke(Fake(), "sync", "shop", "--timeout", text).exit_code == Exit.USAGE


def test_diff_exits_like_diff() -> None:
    assert invoke(Fake(), "diff", "shop").exit_code == Exit.OK
    change = Preview(CONFIG, "configure", "data.greeting", "--- live\n+++ wanted\n-a\n+b")
    shown = invoke(Fake(previews=([change], "nothing is pruned: the bundle is empty")), "diff", "shop")
    assert shown.exit_code == Exit.FAILED
    assert shown.stdout.splitlines() == [
        "configure ConfigMap shop/web-config   data.greeting",
        "--- live",
        "+++ wanted",
        "-a",
        "+b",
        "nothing is pruned: the bundle is empty",
    ]


def test_diff_for_programs() -> None:
    change = Preview(CONFIG, "configure", "data.greeting", "--- live", ("data.greeting",))
    shown = invoke(Fake(previews=([change], "nothing is pruned")), "diff", "shop", "-o", "json")
    assert shown.exit_code == Exit.FAILED
    place = {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "web-config"}
    told = {"action": "configure", **place, "reason": "data.greeting", "fields": ["data.greeting"], "diff": "--- live"}
    assert json.loads(shown.stdout) == {"changes": [told], "refusal": "nothing is pruned", "notes": []}
    assert invoke(Fake(), "diff", "shop", "-o", "json").exit_code == Exit.OK


def test_diff_names_an_object_once() -> None:
    refused = Preview(CONFIG, "refuse", f"{CONFIG}: dry-run answered 403", "")
    shown = invoke(Fake(previews=([refused], "")), "diff", "shop")
    assert shown.stdout == "refuse ConfigMap shop/web-config   dry-run answered 403\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SourceNotFound("r.example.com/shop:v9: the registry has no such thing"), Exit.CONFIGURATION),
        (ManifestError(["a.yaml, line 3: first", "b.yaml, line 4: second"]), Exit.CONFIGURATION),
        (SourceUnavailable("r.example.com: connection refused"), Exit.UNREACHABLE),
    ],
    ids=["no such tag", "bad manifests", "registry down"],
)
def test_diff_exits_with_1_only_when_it_has_compared(error: FleetbeatError, code: Exit) -> None:
    class Fails(Fake):
        def preview(
            self, application: Application, cluster: Cluster, *, spec: str = "", asked_for: bool = False
        ) -> Previewed:
            raise error

    shown = invoke(Fails(), "diff", "shop", "--revision", "v9")
    assert shown.exit_code == code
    assert shown.stderr.splitlines() == [f"error: {line}" for line in str(error).splitlines()]


@pytest.mark.parametrize(
    ("text", "tag", "digest"),
    [("v2", "v2", None), (DIGEST, None, DIGEST), (f"v2@{DIGEST}", None, DIGEST)],
    ids=["tag", "digest", "both"],
)
def test_revision_pins_the_source(text: str, tag: str | None, digest: str | None) -> None:
    source = at(SHOP, text).source
    assert (source.oci, source.tag, source.digest, source.semver) == ("r.example.com/shop", tag, digest, None)


@pytest.mark.parametrize(
    ("ordered", "compared", "note"),
    [
        (Ordered(), None, ""),
        (Ordered(pin=DIGEST, in_force=DIGEST), DIGEST, "pinned to aaaaaaaaaaaa by ada: loses orders"),
        (Ordered(vetoed=NEWEST, in_force=DIGEST), DIGEST, "bbbbbbbbbbbb is vetoed by ada; aaaaaaaaaaaa stays in force"),
        (
            Ordered(vetoed=NEWEST, in_force=NEWEST),
            None,
            "bbbbbbbbbbbb is vetoed by ada; it is in force already and stays",
        ),
    ],
    ids=["newest", "pinned", "newest vetoed", "vetoed and in force"],
)
def test_diff_and_plan_are_of_the_bundle_a_sync_would_have(ordered: Ordered, compared: str | None, note: str) -> None:
    """A plan of the newest bundle was refused as long as the pin stood, with the advice to make the same one again."""
    for command in ("diff", "plan"):
        session = Fake()
        session.orders = session.runs = ordered  # type: ignore[assignment]
        session.catalogs = Entry()  # type: ignore[assignment]
        shown = invoke(session, command, "shop")
        assert shown.exit_code == Exit.OK, shown.output
        assert session.compared is not None
        assert session.compared.source.digest == compared
        assert shown.stderr == (f"note: not what the source means now: {note}\n" if note else "")
    assert f"plan-of-{(compared or NEWEST)[7:11]}" in shown.stdout


class Entry:
    def application(self, name: str) -> tuple[Application, Cluster, str]:
        return SHOP, Cluster("prod"), "spec"


def test_no_plan_of_a_bundle_that_a_veto_keeps_out() -> None:
    session = Fake()
    session.orders = session.runs = Ordered(vetoed=NEWEST)  # type: ignore[assignment]
    session.catalogs = Entry()  # type: ignore[assignment]
    shown = invoke(session, "plan", "shop")
    assert shown.exit_code == Exit.FAILED
    told = "shop: bbbbbbbbbbbb is vetoed by ada; nothing else was ever synced. To let it in: fleetbeat veto --lift"
    assert shown.stderr == f"error: {told} {NEWEST}\n"
    assert invoke(session, "diff", "shop").exit_code == Exit.CONFIGURATION, "nothing was compared"
    named = invoke(session, "diff", "shop", "--revision", "v2")
    assert named.exit_code == Exit.OK, "what is asked for by name is compared whatever stands in its way"


def test_a_refused_request_tells_no_health_of_no_bundle() -> None:
    refused = Outcome("shop", "run-1", "Failed", "OutOfSync", "Healthy", "windows are not overridden", Revision(""), {})
    shown = invoke(Fake(refused), "sync", "shop", "--wait")
    assert (shown.stdout, shown.stderr) == ("shop: Failed\n", "windows are not overridden\n")
