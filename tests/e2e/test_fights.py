"""Fights over a field: after a few heals it is left alone for a while, and said; everything else is healed as ever.

Field cases a5 and f3, and the rules of f2 on the real parts. The tables are in tests/unit/decisions/test_fights.py.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from fleet import PATIENT, Fleet, config_map, outcomes, words
from people import Hands
from rivals import Rival, over_a_key, over_existence
from waiting import wait_for

from fleetbeat.cli.status_view import view
from fleetbeat.clients.runs import Look
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


def conditions(fleet: Fleet, app: str, look: Look | None = None) -> list[Body]:
    """Those that name an object, as ``fleetbeat status -o json`` shows them."""
    found: list[Body] = view(app, look or fleet.runs.look(app), now_ms=0, due_ms=None).to_json()["conditions"]
    return [one for one in found if "object" in one]


def seconds(event: Body) -> float:
    """When the API server got a request of its audit log, since epoch."""
    return datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()


def installed(fleet: Fleet, word: str, namespace: str, *manifests: Body, **options: Any) -> str:
    app = fleet.name(word)
    fleet.push(app, manifests)
    fleet.application(app, namespace=namespace, **options)
    fleet.wait_run(app, phase="Succeeded")
    return app


def test_a_fight_over_one_field_stops_and_the_rest_is_healed(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field case f3: writes are bounded, both parties are named, history is not flooded, others are unaffected."""
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_PAUSE="600")  # longer than this takes on any machine
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    app = installed(
        fleet,
        "fight",
        namespace,
        config_map("web", data={"k": "ours", "other": "ours"}),
        config_map("calm", data={"k": "ours"}),
    )
    bystander = installed(fleet, "by", namespace, config_map("theirs", data={"k": "ours"}))
    start = cluster.audit_position()
    with over_a_key(hands, f"{maps}/web", "k", "theirs", "operator") as rival:
        hands.merge(f"{maps}/web", {"data": {"k": "theirs"}}, "operator")
        for _ in range(3):
            rival.has_its_way()
            fleet.tick(app)
        assert rival.writes >= 2
        rival.has_its_way()
        fleet.tick(app)
        for _ in range(4):
            assert fleet.tick(app) == "nothing to do"
        assert words(fleet.writes(app, since=start)) == [f"patch configmaps {namespace}/web"] * 3

        state = fleet.state(app)
        assert (state["sync"], state["phase"], state["reason"]) == ("OutOfSync", "Succeeded", "Conflict")
        (condition,) = conditions(fleet, app)
        assert condition["parties"] == ["fleetbeat", "operator"]
        assert condition["message"] in state["message"]
        text = (
            f"Conflict: data.k of ConfigMap {namespace}/web is rewritten by operator each time fleetbeat puts it back"
        )
        assert condition["message"].startswith(f"{text}; left alone until 20")
        newest, healed, *_ = fleet.history(app)
        assert outcomes(newest) == {f"ConfigMap {namespace}/web": "skipped"}
        assert "is rewritten by operator" in newest["results"][0]["reason"]
        assert (healed["count"], healed["results"][0]["fields"]) == (3, ["data.k"])

        # Another field of the same object, another object, another application.
        hands.merge(f"{maps}/web", {"data": {"other": "edited"}})
        hands.merge(f"{maps}/calm", {"data": {"k": "edited"}})
        fleet.tick(app)
        assert outcomes(fleet.history(app)[0]) == {
            f"ConfigMap {namespace}/web": "configured",
            f"ConfigMap {namespace}/calm": "configured",
        }
        assert hands.get(f"{maps}/web")["data"] == {"k": "theirs", "other": "ours"}
        assert hands.get(f"{maps}/calm")["data"] == {"k": "ours"}
        assert fleet.state(app)["sync"] == "OutOfSync"
        assert conditions(fleet, app) == [condition]
        hands.merge(f"{maps}/theirs", {"data": {"k": "edited"}})
        fleet.tick(bystander)
        assert hands.get(f"{maps}/theirs")["data"] == {"k": "ours"}
        assert fleet.tick(app) == "nothing to do"

    # Whoever asks for a sync gets everything put back.
    fleet.sync(app)
    assert hands.get(f"{maps}/web")["data"] == {"k": "ours", "other": "ours"}
    assert fleet.state(app)["sync"] == "Synced"
    assert conditions(fleet, app) == []


def test_the_pauses_grow_up_to_the_longest_and_begin_anew_with_a_digest(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field cases f2 and f3: one write per pause, pauses that never shrink; another bundle is another matter."""
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_PAUSE="1", FLEETBEAT_FIGHTS_LONGEST="3")
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    app = installed(fleet, "grow", namespace, config_map("web", data={"k": "ours"}))
    start = cluster.audit_position()

    def healed() -> list[float]:
        return [seconds(event) for event in fleet.writes(app, since=start)]

    with over_a_key(hands, path, "k", "theirs", "operator") as rival:
        hands.merge(path, {"data": {"k": "theirs"}}, "operator")
        while len(healed()) < 7:
            rival.has_its_way()
            fleet.tick(app)
        gaps = [later - earlier for earlier, later in itertools.pairwise(healed())]
        assert all(gap >= pause for gap, pause in zip(gaps[2:], (1, 2, 3, 3), strict=False)), gaps
        # The first sync, three heals, and then all pauses with the heals after them.
        (_, first, _) = fleet.history(app)
        assert first["count"] == 3

        revision = fleet.push(app, [config_map("web", data={"k": "ours", "more": "1"})])
        fleet.tick(app)
        fleet.wait_run(app, digest=revision.digest, phase="Succeeded")
        rival.has_its_way()
        fleet.tick(app)
        assert outcomes(fleet.history(app)[0]) == {f"ConfigMap {namespace}/web": "configured"}
        assert conditions(fleet, app) == []


def test_a_field_that_is_restored_by_its_rival_is_no_conflict_any_more(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands
) -> None:
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_HEALS="1", FLEETBEAT_FIGHTS_PAUSE="600")
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    app = installed(fleet, "end", namespace, config_map("web", data={"k": "ours"}))
    for _ in range(2):
        hands.merge(path, {"data": {"k": "theirs"}}, "operator")
        fleet.tick(app)
    assert len(conditions(fleet, app)) == 1
    hands.merge(path, {"data": {"k": "ours"}}, "operator")
    fleet.tick(app)
    assert conditions(fleet, app) == []
    assert fleet.state(app)["sync"] == "Synced"


def test_an_object_that_is_deleted_each_time(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_PAUSE="600")
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    app = installed(fleet, "gone", namespace, config_map("web"), config_map("calm"))
    start = cluster.audit_position()
    with over_existence(hands, path) as rival:
        for _ in range(4):
            rival.has_its_way()
            fleet.tick(app)
        for _ in range(4):
            assert fleet.tick(app) == "nothing to do"
    assert len(fleet.writes(app, since=start)) == 3
    (condition,) = conditions(fleet, app)
    assert condition["message"].startswith(f"Conflict: ConfigMap {namespace}/web is deleted by somebody")
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert hands.gone(path)
    fleet.sync(app)
    assert not hands.gone(path)
    assert fleet.state(app)["sync"] == "Synced"


def rule(*versions: str) -> Body:
    return {"apiGroups": ["x.example.com"], "apiVersions": list(versions), "operations": ["*"], "resources": ["*"]}


def test_an_atomic_list_that_a_controller_splits(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field case a5: a real conflict is said to be one, healed with growing pauses, and an ignore rule ends it."""
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_PAUSE="1", FLEETBEAT_FIGHTS_LONGEST="60")
    bundle = base64.b64encode(cluster.ca_pem.encode()).decode()
    hook = {
        "name": "w.example.com",
        "clientConfig": {"service": {"name": "w", "namespace": namespace}},
        "rules": [rule("v1alpha1", "v1beta1")],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"never": "there"}},
    }
    configuration: Body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }
    app = installed(fleet, "split", namespace, configuration)
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}"
    split = [["v1alpha1"], ["v1beta1"]]

    def versions() -> list[list[str]]:
        return [one["apiVersions"] for one in hands.get(path)["webhooks"][0]["rules"]]

    def rewrite() -> None:
        live = hands.get(path)["webhooks"][0]
        live["rules"] = [rule("v1alpha1"), rule("v1beta1")]
        live["clientConfig"]["caBundle"] = bundle
        hands.merge(path, {"webhooks": [live]}, "webhook-controller")

    start = cluster.audit_position()
    ends: list[int] = []
    with Rival(lambda: versions() == split, rewrite) as rival:
        while len(ends) < 3:
            rival.has_its_way()
            fleet.tick(app)
            look = fleet.runs.look(app)  # both of one moment: beat rings at the end of a pause
            if (end := int(look.state["truce"] or 0)) and end not in ends:
                (condition,) = conditions(fleet, app, look)
                assert condition["field"] == "webhooks[name=w.example.com].rules"
                assert condition["parties"] == ["fleetbeat", "webhook-controller"]
                ends.append(end)
                wait_for(lambda: fleet.runs.now() >= ends[-1], what="the end of the truce")
        gaps = [later - earlier for earlier, later in itertools.pairwise(ends)]
        # From one end to the next: until somebody looks, and then a pause of 2 s and one of 4 s.
        assert gaps[0] >= 2000
        assert gaps[1] >= 4000
        written = [event for event in fleet.writes(app, since=start) if seconds(event) * 1000 < ends[-1]]
        assert len(written) == 3 + 2
        assert hands.get(path)["webhooks"][0]["clientConfig"]["caBundle"] == bundle

        ignored = {"kind": "MutatingWebhookConfiguration", "jsonPointers": ["/webhooks/0/rules"]}
        fleet.application(app, namespace=namespace, spec={"ignoreDifferences": [ignored]})
        wait_for(lambda: fleet.history(app)[0]["trigger"] == "Spec", what="the run with the rule")
        assert fleet.state(app)["sync"] == "Synced"
        assert conditions(fleet, app) == []
        rival.has_its_way()
        hook["timeoutSeconds"] = 5
        fleet.push(app, [configuration])
        fleet.tick(app)
        assert hands.get(path)["webhooks"][0]["timeoutSeconds"] == 5
        assert versions() == split
        seen = rival.writes
        for _ in range(4):
            assert fleet.tick(app) == "nothing to do"
        assert rival.writes == seen
