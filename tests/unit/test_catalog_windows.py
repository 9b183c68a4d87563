"""``syncWindows`` and ``sync.windows``: what is read, what each mistake is told as, and who gets which window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetbeat.catalog import load, parse_application, parse_entry, parse_project
from fleetbeat.errors import CatalogError
from fleetbeat.model_windows import LabelRequirement, SyncWindow

HEAD = {"apiVersion": "fleetbeat.dev/v1alpha1"}
NIGHT = {"kind": "allow", "schedule": "0 22 * * *", "duration": "8h", "applications": ["*"]}


def project(*windows: Any) -> dict[str, Any]:
    return {**HEAD, "kind": "Project", "metadata": {"name": "web"}, "spec": {"syncWindows": list(windows)}}


def application(name: str = "shop", *, labels: Any = None, **sync: Any) -> dict[str, Any]:
    spec = {
        "project": "web",
        "source": {"oci": "registry.example.com/shop"},
        "destination": {"cluster": "prod", "namespace": "shop"},
        "sync": sync,
    }
    return {**HEAD, "kind": "Application", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def read(**window: Any) -> SyncWindow:
    (found,) = parse_project(project({**NIGHT, **window}), "web.yaml").windows
    return found


def test_defaults_are_argo_cds() -> None:
    assert read() == SyncWindow("allow", "0 22 * * *", 8 * 3600, applications=("*",), origin="Project web")


def test_every_field() -> None:
    found = read(
        kind="deny",
        schedule="  30  9 ? * mon-fri ",
        duration="1h30m",
        timeZone="Europe/London",
        namespaces=["team-*", ""],
        clusters=["https://prod*"],
        selector={
            "matchLabels": {"team": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}],
        },
        andOperator=True,
        kinds=["Deployment", "Cart.shop.example.com"],
        scope="self-heal",
        manualSync=True,
        syncOverrun=True,
        description="office\nhours",
    )
    assert found == SyncWindow(
        kind="deny",
        schedule="30 9 ? * mon-fri",
        duration=5400,
        time_zone="Europe/London",
        applications=("*",),
        namespaces=("team-*", ""),
        clusters=("https://prod*",),
        labels=(LabelRequirement("team", "In", ("web",)), LabelRequirement("tier", "NotIn", ("test",))),
        and_operator=True,
        kinds=("Deployment", "Cart.shop.example.com"),
        scope="self-heal",
        manual_sync=True,
        sync_overrun=True,
        origin="Project web",
    )
    assert found.description == "office hours"


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h", 3600), ("90m", 5400), ("1h30m", 5400), ("1.5h", 5400), ("30s", 30)]
)
def test_durations(text: str, seconds: float) -> None:
    assert read(duration=text).duration == seconds


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "P19 kind in another case": ({"kind": "Deny"}, '.kind: must be allow or deny, not "Deny"'),
    "P19 no kind": ({"kind": None}, ".kind: is empty"),
    "P20 bad schedule": ({"schedule": "61 * * * *"}, "schedule: \"61 * * * *\": minute '61': must be from 0 to 59"),
    "no schedule": ({"schedule": None}, ".schedule: is empty"),
    "P21 days": ({"duration": "1d"}, ".duration: must be a duration such as 30s, 5m or 1h30m (units h, m, s, ms)"),
    "no unit, as text": ({"duration": "60"}, ".duration: must be a duration"),
    "no duration": ({"duration": ""}, ".duration: must be a duration"),
    "0 (Argo CD: accepted)": ({"duration": "0"}, ".duration: must be a duration"),
    "a week": ({"duration": "1w"}, ".duration: must be a duration"),
    "no unit": ({"duration": 60}, '.duration: needs a unit: write "60s" for 60 seconds'),
    "a blank inside": ({"duration": "1h 30m"}, ".duration: must be a duration"),
    "upper case": ({"duration": "1H"}, ".duration: must be a duration"),
    "T10 nothing": ({"duration": "0s"}, '.duration: must be from 1s to 8784h, not "0s"'),
    "T11 negative": ({"duration": "-1h"}, ".duration: must be a duration"),
    "longer than a year": ({"duration": "8785h"}, '.duration: must be from 1s to 8784h, not "8785h"'),
    "T17 impossible date": ({"schedule": "0 0 30 2 *"}, "day 30 of month 2 never comes"),
    "T20 unknown zone": ({"timeZone": "Mars/Base"}, '.timeZone: "Mars/Base" is no time zone of the IANA database.'),
    "T20 zone in lower case": ({"timeZone": "europe/paris"}, "Did you mean Europe/Paris?"),
    "T20 an offset": ({"timeZone": "+02:00"}, '.timeZone: "+02:00" is no time zone'),
    "T21 the host's zone": ({"timeZone": "Local"}, "Local would be another zone on another host"),
    "the host's zone, otherwise": ({"timeZone": "localtime"}, "would be another zone on another host"),
    "a path": ({"timeZone": "../../etc/passwd"}, "is no time zone"),
    "T22 a zone in the schedule": ({"schedule": "TZ=Asia/Tokyo 0 22 * * *"}, "write it under timeZone"),
    "selects nothing": ({"applications": None}, ".applications: missing: whom the window is for"),
    "selects by nothing": ({"applications": []}, "missing: whom the window is for"),
    "a glob without its end": ({"applications": ["{a,b"]}, 'applications[0]: "{a,b" has a { without its }'),
    "a number for a glob": ({"clusters": [1]}, "clusters[0]: must be text, not a number"),
    "misspelt field": ({"manualsync": True}, ".manualsync: unknown field. Did you mean manualSync?"),
    "unknown scope": ({"scope": "prune"}, '.scope: must be all or self-heal, not "prune"'),
    "a kind as people say it": ({"kinds": ["deployments"]}, "kinds[0]: must be a kind such as Deployment"),
    "no kinds": ({"kinds": []}, ".kinds: is empty"),
    "an empty selector": ({"selector": {}}, "selector.matchLabels: missing"),
    "unknown operator": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}},
        'selector.matchExpressions[0].operator: must be In or NotIn or Exists or DoesNotExist, not "in"',
    ),
    "nothing to compare with": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "values: missing: In compares with at least one",
    ),
    "something to compare with": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        "values: Exists compares with none",
    ),
    "a long description": ({"description": "x" * 256}, ".description: has 256 characters; at most 255 fit"),
}


@pytest.mark.parametrize(("window", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(window: dict[str, Any], told: str) -> None:
    with pytest.raises(CatalogError) as caught:
        read(**window)
    assert all(p.startswith("web.yaml, Project web: spec.syncWindows[0]") for p in caught.value.problems)
    assert told in caught.value.problems[0]


def problems(document: dict[str, Any]) -> list[str]:
    parse = parse_project if document["kind"] == "Project" else parse_application
    with pytest.raises(CatalogError) as caught:
        parse(document, "web.yaml")
    return caught.value.problems


def test_only_a_full_duplicate_is_refused() -> None:
    """Field case e6."""
    one, two = {**NIGHT, "applications": ["one*"]}, {**NIGHT, "applications": ["two*"]}
    assert len(parse_project(project(one, two), "web.yaml").windows) == 2
    again = {**one, "manualSync": True, "syncOverrun": True, "description": "another", "schedule": " 0 22  * * *"}
    assert problems(project(one, two, again)) == [
        "web.yaml, Project web: spec.syncWindows[2]: is the same window as syncWindows[0]. Remove one of them"
    ]


def test_a_window_of_an_application_selects_nothing() -> None:
    own = {name: value for name, value in NIGHT.items() if name != "applications"}
    (window,) = parse_application(application(windows=[own]), "shop.yaml").windows
    assert window == SyncWindow("allow", "0 22 * * *", 8 * 3600, origin="Application shop")
    (problem,) = problems(application(windows=[NIGHT]))
    assert problem.endswith(
        "applications: unknown field. Here it is in a Project; a window of an application is for itself"
    )


def test_too_many() -> None:
    assert "has 10001 windows; at most 10000 are read" in problems(project(*[NIGHT] * 10_001))[0]


def test_applications_get_the_windows_that_match_them(tmp_path: Path) -> None:
    cluster = {**HEAD, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"inCluster": True}}
    windows = [
        {**NIGHT, "applications": ["blog"], "description": "blog"},
        {**NIGHT, "applications": None, "selector": {"matchLabels": {"team": "web"}}, "description": "team"},
        {**NIGHT, "applications": None, "clusters": ["https://kubernetes.default.svc"], "description": "cluster"},
    ]
    for window in windows:
        if window["applications"] is None:
            del window["applications"]
    own = {"kind": "deny", "schedule": "0 9 * * *", "duration": "1h", "description": "own"}
    documents = [
        cluster,
        project(*windows),
        application("shop", labels={"team": "web"}, windows=[own]),
        application("blog"),
    ]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    loaded = load(tmp_path)
    found = {name: [w.description for w in app.windows] for name, app in loaded.catalog.applications.items()}
    assert found == {"shop": ["own", "team", "cluster"], "blog": ["blog", "cluster"]}
    for name, app in loaded.catalog.applications.items():
        assert parse_entry(loaded.documents[f"Application/{name}"], "in Redis") == app
