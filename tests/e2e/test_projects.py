"""Rules of a project reach the workers: they decide what is written, and an edit is one of its applications."""

from __future__ import annotations

from fleet import Fleet, config_map, outcomes
from waiting import wait_for


def test_a_projects_rules_hold_for_its_applications_and_an_edit_at_once(fleet: Fleet, namespace: str) -> None:
    project, app, other = fleet.name("project"), fleet.name("ruled"), fleet.name("free")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    fleet.project(project, ignoreDifferences=[{"kind": "ConfigMap", "jsonPointers": ["/data/key"]}])
    for name in (app, other):
        fleet.push(name, [config_map(name)])
    fleet.application(app, namespace=namespace, spec={"project": project})
    fleet.application(other, namespace=namespace)
    for name in (app, other):
        fleet.wait_run(name, phase="Succeeded")
        body = fleet.get(f"{path}/{name}")
        assert body is not None
        status, answer = fleet._cluster("").request("PUT", f"{path}/{name}", body | {"data": {"key": "by hand"}})
        assert status == 200, answer

    assert outcomes(fleet.sync(other)) == {f"ConfigMap {namespace}/{other}": "configured"}
    assert fleet.sync(app)["counts"] == {"unchanged": 1}

    runs = fleet.runs_ended(app), fleet.runs_ended(other)
    fleet.project(project, description="nothing is ignored any more")
    assert fleet.wait_run(app, since=runs[0])["trigger"] == "Spec"
    wait_for(lambda: fleet.get(f"{path}/{app}")["data"] == {"key": "value"}, what="the hand edit put back")  # type: ignore[index]
    assert fleet.runs_ended(other) == runs[1]
