"""Five thousand objects in one application: it syncs, within its lock's and its steps' limits, and stays cheap."""

from __future__ import annotations

import time

import pytest
from fleet import Fleet, config_map
from stories import doc
from waiting import wait_for

COUNT = 5_000


def bundle(changed: str = "") -> dict[str, str]:
    """A hundred files of fifty ConfigMaps each."""
    files = {}
    for number in range(0, COUNT, 50):
        texts = [
            doc(config_map(f"cm-{n:04}", data={"n": f"{n}{changed if n == 77 else ''}"}))
            for n in range(number, number + 50)
        ]
        files[f"maps/{number:04}.yaml"] = "---\n".join(texts)
    return files


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_five_thousand_objects(fleet: Fleet, namespace: str, record_property: pytest.RecordProperty) -> None:
    """The fleet's locks last fifteen seconds: a step that went quiet for longer would be taken over."""
    app = fleet.name("large")
    cluster = next(iter(fleet.clusters.values()))
    start = cluster.audit_position()
    fleet.push(app, bundle())
    began = time.monotonic()
    fleet.application(app, namespace=namespace)
    first = fleet.wait_run(app, timeout=600)
    took = {"first": time.monotonic() - began}
    assert first["phase"] == "Succeeded", first["message"]
    assert first["counts"] == {"created": COUNT}
    asked = [e for e in cluster.audit(start) if f" app/{app} " in f"{e['userAgent']} "]
    assert len([e for e in asked if e.get("objectRef", {}).get("namespace") == namespace]) <= 2 * COUNT + 12
    assert len(asked) <= 2 * COUNT + 40
    assert len(fleet.writes(app, since=start)) == COUNT, "each written once: nobody took the run over"

    position = cluster.audit_position()
    began = time.monotonic()
    again = fleet.sync(app, timeout=300)
    took["unchanged"] = time.monotonic() - began
    assert again["counts"] == {"unchanged": COUNT}
    assert fleet.writes(app, since=position) == []

    fleet.push(app, bundle(changed=" and more"))
    began = time.monotonic()
    changed = fleet.sync(app, timeout=300)
    took["one changed"] = time.monotonic() - began
    assert changed["counts"] == {"configured": 1, "unchanged": COUNT - 1}
    # Else each later look at this cluster would turn the pages of them.
    fleet.leave(app)
    wait_for(lambda: app not in fleet.catalogs.names(), what="the catalog without it")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    while cluster.request("GET", f"{path}?limit=1")[1]["items"]:
        assert (
            cluster.request("DELETE", f"{path}?limit=500")[0] == 200
        )  # all at once might take longer than a request may
    for what, seconds in took.items():
        record_property(what, round(seconds, 1))
    print({what: round(seconds, 1) for what, seconds in took.items()}, first["durations"], changed["durations"])
