"""The drift ledger: what a run writes into it, what is forgotten, what people and programs are shown."""

from __future__ import annotations

import json
from dataclasses import replace

from fleetbeat.decisions.drift import (
    DriftLedger,
    Found,
    Kept,
    Row,
    after_run,
    end,
    rows_to_json,
    summary,
    who,
)
from fleetbeat.decisions.fights import ANY, WHOLE, Dispute, Limits
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Drifted, Manager

NOW = 1_795_995_200_000  # 2026-11-29T23:33:20Z
SECOND = 1000
DAY = 86_400_000
WEB, DB = ObjectId("", "ConfigMap", "shop", "web"), ObjectId("", "ConfigMap", "shop", "db")
EDITOR = Manager("kubectl-edit", "Update", "2026-11-29T23:33:19Z")
FIELDS = Limits()
OBJECTS = Limits(10, 600, 2, 300, 3)
KEPT = Kept(rows=3, days=90)


def run(
    before: DriftLedger, now: int = NOW, *, healed: object = None, left: object = None, **more: object
) -> DriftLedger:
    found = Found(f"r{now}", now, healed or {}, left or {}, **more)  # type: ignore[arg-type]
    return after_run(before, found, FIELDS, OBJECTS, KEPT)


def test_a_heal_names_the_editor_and_is_counted():
    first = run(DriftLedger(), healed={WEB: [Drifted("data.k", EDITOR)]})
    assert first.rows[WEB]["data.k"] == Row(
        first=NOW,
        last=NOW,
        by=EDITOR,
        healed=1,
        healed_at=NOW,
        run=f"r{NOW}",
        dispute=Dispute((NOW,), last=NOW, party="kubectl-edit"),
    )
    other = Manager("operator", "Apply", "2026-11-29T23:33:29Z")
    second = run(first, NOW + 10 * SECOND, healed={WEB: [Drifted("data.k", other)]})
    row = second.rows[WEB]["data.k"]
    assert (row.first, row.last, row.by, row.healed, row.run) == (
        *(NOW, NOW + 10 * SECOND, other, 2),
        f"r{NOW + 10 * SECOND}",
    )
    assert row.dispute.heals == (NOW, NOW + 10 * SECOND)


def test_the_author_of_a_removal_is_nobody_even_where_an_edit_was_seen_before():
    ledger = run(DriftLedger(), healed={WEB: [Drifted("data.k", EDITOR)]})
    ledger = run(ledger, NOW + 1, healed={WEB: [Drifted("data.k")]})
    assert ledger.rows[WEB]["data.k"].by is None
    assert who("data.k", None) == "removed by somebody whom only the cluster's audit log knows"
    assert who(WHOLE, None) == "deleted by somebody whom only the cluster's audit log knows"
    assert who("data.k", EDITOR) == "kubectl-edit (Update, 2026-11-29T23:33:19Z)"


def test_drift_that_is_left_stands_since_it_was_found_and_goes_by_itself():
    left = {WEB: [Drifted("data.k", EDITOR)]}
    ledger = run(run(DriftLedger(), left=left), NOW + 5, left=left)
    row = ledger.rows[WEB]["data.k"]
    assert (row.first, row.last, row.since, row.healed, row.run) == (NOW, NOW + 5, NOW, 0, "")
    gone = run(ledger, NOW + 9)
    row = gone.rows[WEB]["data.k"]
    assert (row.since, row.last, row.healed) == (0, NOW + 5, 0)
    again = run(gone, NOW + 20, left=left).rows[WEB]["data.k"]
    assert (again.first, again.since) == (NOW, NOW + 20)


def test_of_an_object_that_could_not_be_compared_nothing_new_is_known():
    ledger = run(DriftLedger(), left={WEB: [Drifted("data.k", EDITOR)], DB: [Drifted("data.k", EDITOR)]})
    ledger = run(ledger, NOW + 5, unknown={WEB})
    assert ledger.rows[WEB]["data.k"].since == NOW
    assert ledger.rows[DB]["data.k"].since == 0


def test_a_truce_is_kept_with_the_row_and_a_back_off_with_the_object():
    truce, pause = Dispute((NOW,), 1, NOW + 60 * SECOND, NOW, "x"), Dispute((NOW,), 1, NOW + 2 * SECOND, NOW, "x")
    left = {WEB: [Drifted("data.k", EDITOR), Drifted("data.l", EDITOR)]}
    ledger = run(DriftLedger(), left=left, truces={WEB: {"data.k": truce, ANY: pause}})
    assert ledger.dispute(WEB, "data.k") == truce
    assert ledger.dispute(WEB, ANY) == pause
    assert ledger.dispute(WEB, "data.l") == Dispute()
    assert ledger.dispute(WEB, "data.never") is None
    assert ANY not in ledger.rows[WEB]


def test_heals_of_different_fields_count_for_the_object():
    ledger = DriftLedger()
    for number in range(12):
        drift = [Drifted(f"data.{number}", EDITOR), Drifted(f"data.more-{number}")]
        ledger = run(ledger, NOW + number, healed={WEB: drift})
    assert len(ledger.often[WEB].heals) == 10
    assert ledger.often[WEB].party == "kubectl-edit"


def test_another_digest_ends_disputes_and_keeps_what_is_told():
    about = ("sha256:1", "spec", "home")
    ledger = replace(run(DriftLedger(), healed={WEB: [Drifted("data.k", EDITOR)]}), about=about)
    assert ledger.for_run(about) == ledger
    other = ledger.for_run(("sha256:2", "spec", "home"))
    assert other.dispute(WEB, "data.k") == Dispute()
    assert other.often == {}
    assert other.rows[WEB]["data.k"].healed == 1


def test_the_oldest_of_what_is_over_go_and_what_stands_or_is_fought_over_stays():
    ledger = DriftLedger()
    for number in range(5):
        ledger = run(ledger, NOW + number, healed={WEB: [Drifted(f"data.{number}", EDITOR)]})
    assert len(ledger.rows[WEB]) == 5, "their disputes are alive for an hour"
    later = NOW + 2 * 3_600_000
    ledger = run(ledger, later, left={DB: [Drifted("data.k", EDITOR)]})
    assert (list(ledger.rows[WEB]), list(ledger.rows[DB]), ledger.cut) == (["data.4", "data.3"], ["data.k"], 3)
    assert end(ledger, KEPT) == 0, "as long as something stands"
    ledger = run(ledger, later + 1)
    assert end(ledger, KEPT) == 90 * DAY
    ledger = run(ledger, later + 91 * DAY)
    assert ledger.rows == {}
    assert ledger.cut == 3


def test_as_json_and_back():
    ledger = run(DriftLedger(cluster="prod"), healed={WEB: [Drifted(WHOLE), Drifted("data.k", EDITOR)]})
    ledger = run(ledger, NOW + 1, left={DB: [Drifted("data.k", replace(EDITOR, subresource="scale"))]})
    assert DriftLedger.from_json(json.loads(json.dumps(ledger.to_json()))) == ledger


def test_shown_to_programs():
    ledger = run(DriftLedger(), healed={WEB: [Drifted(WHOLE), Drifted("data.k", EDITOR)]})
    until = NOW + 60 * SECOND
    ledger = run(
        ledger,
        NOW + SECOND,
        left={DB: [Drifted("data.k", EDITOR)]},
        truces={DB: {"data.k": Dispute((NOW,), 1, until, NOW, "x")}},
    )
    first, whole, healed = rows_to_json(ledger, NOW + 2 * SECOND)
    assert first == {
        "object": "ConfigMap shop/db",
        "id": "/ConfigMap/shop/db",
        "field": "data.k",
        "manager": "kubectl-edit",
        "operation": "Update",
        "subresource": None,
        "changedAt": "2026-11-29T23:33:19Z",
        "firstSeen": "2026-11-29T23:33:21.000Z",
        "lastSeen": "2026-11-29T23:33:21.000Z",
        "standsSince": "2026-11-29T23:33:21.000Z",
        "leftUntil": "2026-11-29T23:34:20.000Z",
        "healed": 0,
        "lastHealed": None,
        "run": None,
    }
    assert (whole["field"], whole["manager"], whole["operation"], whole["changedAt"]) == ("", None, None, None)
    assert (healed["healed"], healed["lastHealed"], healed["run"]) == (1, "2026-11-29T23:33:20.000Z", f"r{NOW}")
    assert rows_to_json(ledger, until)[0]["leftUntil"] is None
    assert summary(ledger) == {
        "fields": 3,
        "healed": 2,
        "standing": 1,
        "standsSince": "2026-11-29T23:33:21.000Z",
        "lastSeen": "2026-11-29T23:33:21.000Z",
        "last": "data.k of ConfigMap shop/db",
        "by": "kubectl-edit (Update, 2026-11-29T23:33:19Z)",
    }
    assert summary(DriftLedger()) == {}


def test_what_an_earlier_version_left_in_a_plan_is_read():
    assert Drifted.from_json(["data.k", "operator"]) == Drifted("data.k", Manager("operator", "", ""))
    assert Drifted.from_json(["data.k", ""]) == Drifted("data.k")
    assert Drifted.from_json(Drifted("data.k", EDITOR).to_json()) == Drifted("data.k", EDITOR)
