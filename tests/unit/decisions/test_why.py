"""Which rule is named first, until when, and what helps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from fleetbeat.decisions.choice import suspension
from fleetbeat.decisions.events import stamp
from fleetbeat.decisions.progress import Progress
from fleetbeat.decisions.why import Facts, Finding, why
from fleetbeat.decisions.windows import Verdict

NOW = 1_796_000_000_000
LATER = NOW + 60_000
DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
WELL = {
    "phase": "Succeeded",
    "sync": "Synced",
    "health": "Healthy",
    "message": "2 unchanged",
    "digest": DIGEST,
    "attempted": DIGEST,
    "tag": "stable",
    "revision": "main@sha1:" + "c" * 40,
    "source": "https://git.example.com/shop",
    "ready_since": str(NOW - 3_600_000),
}
FAILED = {
    **WELL,
    "phase": "Failed",
    "sync": "OutOfSync",
    "attempted": OTHER,
    "reason": "Rejected",
    "message": "Deployment shop/web: spec.replicas: must not be negative",
    "cure": "change",
    "failures": "3",
}
WAITS = {"run": "r1", "step": "apply:0", "state": "waiting", "trigger": "Revision", "wake": str(LATER)}
HELD = '[{"message": "ConfigMap shop/web: data.k changed by kubectl-edit; self-heal is disabled until T"}]'
SHUT = datetime.fromtimestamp(LATER / 1000, UTC)


def told(*conditions: tuple[str, str, int]) -> str:
    """Conditions in the state: type, message, end in ms."""
    return json.dumps(
        [{"type": kind, "message": f"{kind}: {text}", "until": stamp(until)} for kind, text, until in conditions]
    )


def facts(state: dict[str, str] | None = None, **more: Any) -> Facts:
    return Facts(
        **{
            "app": "shop",
            "now": NOW,
            "state": WELL if state is None else state,
            "due": LATER,
            "beats": {"b": 0.4},
            **more,
        }
    )


def blocked(word: str, message: str) -> dict[str, str]:
    return {**WAITS, "blocked": word, "message": message}


@pytest.mark.parametrize(
    ("known", "rule", "says", "until", "help_"),
    [
        pytest.param(facts(beats={}), "NoBeat", "no beat has ever run", None, "scheduler.app beat", id="no beat"),
        pytest.param(facts(beats={"a": 99, "b": 16}), "NoBeat", "silent for 16 s", None, "beat", id="silent beat"),
        pytest.param(
            facts(messages=2, workers=0),
            "NoWorker",
            "2 messages wait and no worker answers",
            None,
            "workers.app",
            id="no worker",
        ),
        pytest.param(
            facts(catalog_error="shop.yaml, document 1, Application shop: spec.sorce: unknown field"),
            *("CatalogError", "spec.sorce: unknown field", None, "mend the file"),
            id="its own catalog entry is broken",
        ),
        pytest.param(
            facts({}, departing="held: most of the catalog has gone"),
            *("Departing", "most of the catalog has gone", None, "fleetbeat delete shop"),
            id="departing and held",
        ),
        pytest.param(facts({}, departing=""), "Departing", "are deleted", LATER, "", id="departing"),
        pytest.param(
            facts(run=blocked("SyncWindow", "wave 0 waits for a sync window: shut until T by deny")),
            *("SyncWindow", "apply:0: wave 0 waits for a sync window", LATER, "--override-windows"),
            id="window",
        ),
        pytest.param(
            facts(run=blocked("SyncWindow", "wave 0 waits for a sync window: shut with no opening in sight by deny")),
            *("SyncWindow", "no opening in sight", None, "fleetbeat windows shop"),
            id="window without an opening: the wake-up is only the next look",
        ),
        pytest.param(
            facts(
                run=blocked("DependencyNotReady", "waits for others: db is being synced"),
                unmet={"db": "db is Degraded since"},
            ),
            *("DependencyNotReady", "db is Degraded", None, "fleetbeat why db"),
            id="dependency",
        ),
        pytest.param(
            facts(run=blocked("ConfirmationNeeded", "ConfigMap shop/web asks for a confirmation")),
            *("ConfirmationNeeded", "ConfigMap shop/web", None, "fleetbeat delete shop --confirm"),
            id="a deletion asks for a word",
        ),
        pytest.param(
            facts(run=blocked("Hold", "held by ada until T: drain")), "Hold", "held by ada", LATER, "", id="hold"
        ),
        pytest.param(
            facts({**WELL, "trouble": "SourceUnavailable", "reason": "SourceUnavailable", "message": "no route"}),
            *("SourceUnavailable", "the look at it fails: SourceUnavailable: no route", LATER, "fleetbeat doctor"),
            id="trouble",
        ),
        pytest.param(
            facts({**FAILED, "cure": "time"}),
            *("Rejected", "to cdcdcdcdcdcd, failed: Rejected: Deployment shop/web: spec.replicas", LATER, "by itself"),
            id="failed, time may mend it",
        ),
        pytest.param(facts(FAILED), "Rejected", "3 times in a row", LATER, "mend it and push", id="failed for good"),
        pytest.param(
            facts({**FAILED, "given_up": "1", "reason": "WorkerLost"}),
            *("GivenUp", "given up at cdcdcdcdcdcd: WorkerLost", None, "fleetbeat sync shop"),
            id="given up",
        ),
        pytest.param(
            facts(
                {**WELL, "held_back": "abababababab is vetoed by ada: loses orders; 123 stays in force"},
                vetoes=[OTHER, DIGEST],
            ),
            *("Vetoed", "loses orders", None, f"fleetbeat veto --lift {DIGEST}"),
            id="veto",
        ),
        pytest.param(
            facts(run=blocked("Hold", "wave 0 waits: hold 3fa9c1 of cluster prod by ada until T: drain.")),
            *("Hold", "apply:0: wave 0 waits: hold 3fa9c1", LATER, "fleetbeat hold --lift 3fa9c1"),
            id="a run waits for a hold",
        ),
        pytest.param(
            facts({**WELL, "sync": "OutOfSync", "held_until": str(LATER), "held": HELD}),
            *(
                "Hold",
                "ConfigMap shop/web: data.k changed by kubectl-edit; self-heal is disabled",
                LATER,
                "take the annotation off",
            ),
            id="an object is left as it is",
        ),
        pytest.param(
            facts({**WELL, "held_back": suspension("spec.suspend: true")}),
            *("Suspended", "suspended by spec.suspend: true in the catalog", None, "in the catalog"),
            id="suspended",
        ),
        pytest.param(
            facts(orders={"pin": DIGEST, "pin_by": "ada", "pin_reason": "2.4 is bad"}),
            *("Pinned", "pinned to abababababab by ada: 2.4 is bad", None, "fleetbeat unpin shop"),
            id="pin",
        ),
        pytest.param(
            facts(
                {
                    **WELL,
                    "sync": "OutOfSync",
                    "reason": "Conflict",
                    "truce": str(LATER),
                    "conflicts": told(("Conflict", "data.x is rewritten by op", LATER)),
                }
            ),
            *("Conflict", "data.x is rewritten by op", LATER, "fleetbeat sync shop"),
            id="fight",
        ),
        pytest.param(
            facts(
                {
                    **WELL,
                    "sync": "OutOfSync",
                    "reason": "BackOff",
                    "truce": str(LATER),
                    "conflicts": told(
                        ("BackOff", "ConfigMap shop/web was healed 10 times in 4 min", LATER),
                        ("BackOff", "ConfigMap shop/db was healed 10 times in 5 min", LATER + 60_000),
                    ),
                }
            ),
            *("BackOff", "ConfigMap shop/web was healed 10 times in 4 min (and 1 more)", LATER, "fleetbeat sync shop"),
            id="healed again and again",
        ),
        pytest.param(
            facts({**WELL, "sync": "OutOfSync", "reason": "PruneRefused", "message": "not every kind"}),
            *("PruneRefused", "not every kind", None, "fleetbeat diff shop"),
            id="prune refused",
        ),
        pytest.param(
            facts(
                {**WELL, "sync": "OutOfSync", "reason": "PruneRefused", "message": "everything", "would_empty": "sha"}
            ),
            *("PruneRefused", "everything", None, "fleetbeat sync shop --confirm-prune"),
            id="everything would go",
        ),
        pytest.param(
            facts(
                {**WELL, "sync": "OutOfSync"},
                results=[{"id": "/ConfigMap/shop/web", "outcome": "kept", "reason": "Prune=confirm"}],
            ),
            *("OutOfSync", "ConfigMap shop/web is kept: Prune=confirm", None, "--confirm-prune"),
            id="kept until confirmed",
        ),
        pytest.param(
            facts(
                {**WELL, "sync": "OutOfSync"},
                results=[{"id": "/ConfigMap/shop/web", "outcome": "skipped", "reason": "data.k; self-heal is off"}],
            ),
            *(
                "OutOfSync",
                "ConfigMap shop/web is skipped: data.k",
                None,
                "until its manifest changes or somebody asks",
            ),
            id="left as it was changed by hand",
        ),
        pytest.param(facts({**WELL, "health": "Degraded"}), "HealthCheckFailed", "Degraded", None, "", id="degraded"),
        pytest.param(facts({}), "NotSyncedYet", "not looked at yet", LATER, "fleetbeat sync shop", id="new"),
        pytest.param(
            facts({"held_back": "abc is vetoed by ada; nothing else was ever synced"}),
            *("Vetoed", "nothing else was ever synced", None, "--lift"),
            id="new and vetoed",
        ),
    ],
)
def test_what_blocks(known: Facts, rule: str, says: str, until: int | None, help_: str) -> None:
    first = why(known)[0]
    assert (first.rule, first.blocks) == (rule, True), why(known)
    assert says in first.message
    assert first.until == until
    assert help_ in first.help


@pytest.mark.parametrize(
    ("known", "rule", "says"),
    [
        pytest.param(
            facts(),
            *(
                "Synced",
                "synced and healthy since 2026-11-29T23:53:20.000Z at stable@abababababab, commit main@sha1:ccc",
            ),
            id="synced",
        ),
        pytest.param(
            facts(run={**WAITS, "message": "wave 0: Deployment shop/web is Progressing"}),
            *("Progressing", "run r1 (Revision) is at apply:0: wave 0: Deployment shop/web"),
            id="a wave becomes healthy",
        ),
        pytest.param(
            facts(
                run={
                    **WAITS,
                    "message": "wave 0: Deployment shop/web is Progressing",
                    "progress": Progress(NOW / 1000 - 40, 60).to_json(),
                }
            ),
            *("Progressing", "Deployment shop/web is Progressing; no progress for 40 s of 60 s"),
            id="a wave stands still",
        ),
        pytest.param(
            facts(request={"id": "q", "by": "ada"}), "Requested", "asked for by ada has not begun", id="asked"
        ),
        pytest.param(facts({**WELL, "health": "Progressing"}), "Progressing", "Progressing", id="not healthy yet"),
        pytest.param(facts({**WELL, "phase": "Superseded"}), "Progressing", "2 unchanged", id="between two runs"),
        pytest.param(facts(messages=2, workers=3), "Synced", "synced", id="messages wait, workers answer"),
    ],
)
def test_what_does_not_block(known: Facts, rule: str, says: str) -> None:
    first = why(known)[0]
    assert (first.rule, first.blocks) == (rule, False)
    assert says in first.message


def test_a_shut_window_without_anything_to_write_is_only_told() -> None:
    found = why(facts(automated=Verdict(False, (), SHUT, SHUT)))
    assert [(one.rule, one.blocks, one.until) for one in found] == [
        ("Synced", False, None),
        ("SyncWindow", False, LATER),
    ]


def test_another_applications_mistake_in_the_catalog_is_only_told() -> None:
    found = why(facts(catalog_error="x.yaml, Application other: bogus: unknown field"))
    assert [(one.rule, one.blocks) for one in found] == [("CatalogError", False), ("Synced", False)]


def rules(found: Sequence[Finding]) -> list[str]:
    return [one.rule for one in found if one.blocks]


def test_several_are_told_in_the_order_in_which_they_stand_in_the_way() -> None:
    """What goes on beneath is of use only when what is above is over."""
    pinned = {"pin": DIGEST, "pin_by": "ada"}
    everything = facts(FAILED, beats={}, messages=1, workers=0, orders=pinned)
    assert rules(why(everything)) == ["NoBeat", "NoWorker", "Rejected", "Pinned"]
    waits = facts(FAILED, run=blocked("SyncWindow", "shut until T"), orders=pinned)
    assert rules(why(waits)) == ["SyncWindow", "Pinned"]


def test_as_json() -> None:
    (found,) = why(facts(run=blocked("SyncWindow", "shut until T")))
    assert found.to_json() == {
        "rule": "SyncWindow",
        "blocks": True,
        "message": "apply:0: shut until T",
        "until": "2026-11-30T00:54:20.000Z",
        "help": "fleetbeat windows shop; to go past it: fleetbeat sync shop --override-windows --reason …",
    }


def test_a_retry_under_way_does_not_hide_what_it_repeats() -> None:
    retries = facts(FAILED, run={**WAITS, "trigger": "Retry", "message": "wave 0: Deployment shop/web is Progressing"})
    first, second = why(retries)
    assert (first.rule, first.blocks, first.until) == ("Rejected", True, None)
    assert "spec.replicas: must not be negative (3 times in a row)" in first.message
    assert first.help == "tried again at this moment; mend it and push"
    assert (second.rule, second.blocks) == ("Progressing", False)
    assert rules(why(facts(FAILED, run={**WAITS, "message": "wave 0"}))) == [], "another bundle has all its chances"


def test_the_end_that_is_told_is_that_of_the_field_that_is_told() -> None:
    two = told(("Conflict", "data.a is rewritten until later", LATER), ("Conflict", "data.b is until now", NOW + 5000))
    (found,) = why(facts({**WELL, "sync": "OutOfSync", "conflicts": two}))
    assert (found.message, found.until) == ("data.b is until now (and 1 more)", NOW + 5000)


@pytest.mark.parametrize(
    ("message", "help_"),
    [
        (
            "ConfigMap shop/web: hold 3fa9c1 of app shop by ada until T: a hold 999999 of old",
            "fleetbeat hold --lift 3fa9c1",
        ),
        ("ConfigMap shop/web: self-heal hold 0a1b2c of label a=b by ada until T: x", "fleetbeat hold --lift 0a1b2c"),
        (
            "ConfigMap shop/web: self-heal is disabled until T by annotation …",
            "take the annotation off, or wait for its end",
        ),
    ],
)
def test_what_ends_a_hold_is_told_with_its_id(message: str, help_: str) -> None:
    (found,) = why(facts({**WELL, "sync": "OutOfSync", "held": json.dumps([{"message": message}])}))
    assert (found.rule, found.help) == ("Hold", help_)
    if "hold " in message:
        waits = facts(run=blocked("Hold", message.removeprefix("ConfigMap shop/web: ")))
        assert why(waits)[0].help.endswith(help_)
