"""Bad input as users live through it: a good bundle is in force, a bad one is pushed, then a repaired one.

A ``Story`` is what was seen of that. Many are lived at once on one fleet, so that a table of fifty mistakes costs the
time of three syncs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from fleet import Fleet, config_map
from waiting import wait_for

from fleetbeat.decisions.conditions import stalled

#: file name → text
Files = Mapping[str, str]
#: puts a bundle where the application looks for it: "good" first, then "bad", at last "mended"
Publish = Callable[[Fleet, "Story", str], None]

#: an object every bundle of a story has; the bad bundle wants it changed, and must not get that
KEPT = "kept"


@dataclass(frozen=True)
class Mistake:
    """What is wrong with the second bundle."""

    name: str
    bad: Files | Publish  #: files beside the good object (``NAMESPACE`` stands for the story's), or who publishes all
    says: tuple[str, ...]  #: pieces of the message a person gets
    error: str = ""  #: the error's word
    source: Callable[[], Mapping[str, Any]] = dict  #: fields of the catalog's source, where it is not the registry
    before: Files = field(default_factory=dict)  #: of the first bundle
    destination: bool = True  #: does the application give its objects a namespace?
    lasting: bool = True  #: of one that the cluster tells: time alone does not mend it

    def __str__(self) -> str:
        return self.name


@dataclass
class Story:
    """Run entries of history, oldest first, and what the cluster had after the bad one."""

    app: str
    namespace: str
    good: dict[str, Any] = field(default_factory=dict)
    bad: dict[str, Any] = field(default_factory=dict)
    mended: dict[str, Any] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)  #: after the bad bundle
    kept: dict[str, Any] | None = None  #: the good object then
    after: dict[str, Any] | None = None  #: and in the end
    writes: list[dict[str, Any]] = field(default_factory=list)  #: kept writes between the good and the repaired bundle


def doc(body: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(body), sort_keys=False)


def live_through(fleet: Fleet, mistakes: Sequence[Mistake], timeout: float = 240) -> dict[str, Story]:
    """Let every mistake happen to an application of its own; returns mistake → story."""
    cluster = next(iter(fleet.clusters.values()))
    stories: dict[str, Story] = {}
    for mistake in mistakes:
        tail = uuid.uuid4().hex[:6]
        story = Story(f"{mistake.name}-{tail}", f"bad-{tail}")
        stories[mistake.name] = story
        status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": story.namespace}})
        assert status == 201, answer
        publish(fleet, story, mistake, "good")
        # A far retry: the tests look at one run, not at its repetitions.
        fleet.application(
            story.app,
            namespace=story.namespace if mistake.destination else "",
            source=mistake.source(),
            retry={"limit": 1, "backoff": {"duration": "3m"}},
        )
    for mistake in mistakes:
        story = stories[mistake.name]
        story.good = fleet.wait_run(story.app, phase="Succeeded", timeout=timeout)

    start = cluster.audit_position()
    for mistake in mistakes:
        story = stories[mistake.name]
        publish(fleet, story, mistake, "bad")
    requests = {mistake.name: fleet.request(stories[mistake.name].app) for mistake in mistakes}
    for mistake in mistakes:
        story = stories[mistake.name]
        story.bad = answer_to(fleet, story.app, requests[mistake.name], timeout)
        story.state = fleet.state(story.app)
        story.kept = fleet.get(f"/api/v1/namespaces/{story.namespace}/configmaps/{KEPT}")
    written = fleet.writes(since=start)
    for story in stories.values():
        story.writes = [event for event in written if f" app/{story.app} " in event["userAgent"] + " "]

    for mistake in mistakes:
        publish(fleet, stories[mistake.name], mistake, "mended")
    requests = {mistake.name: fleet.request(stories[mistake.name].app) for mistake in mistakes}
    for mistake in mistakes:
        story = stories[mistake.name]
        story.mended = answer_to(fleet, story.app, requests[mistake.name], timeout)
        story.after = fleet.get(f"/api/v1/namespaces/{story.namespace}/configmaps/{KEPT}")
    return stories


def answer_to(fleet: Fleet, app: str, request: str, timeout: float) -> dict[str, Any]:
    """The history entry of the run that took up this request."""

    def answered() -> dict[str, Any] | None:
        return next((entry for entry in fleet.history(app) if entry["request"] == request), None)

    try:
        return wait_for(answered, timeout=timeout, what=f"the sync of {app}", every=0.05)
    except AssertionError as error:
        look = fleet.runs.look(app)
        raise AssertionError(f"{error}\nrun: {look.run}\nstate: {look.state}\n{fleet.logs()[-6000:]}") from None


def check(story: Story, mistake: Mistake) -> None:
    """The bad bundle was refused as a whole, told clearly, and is got over."""
    message = story.bad["message"]
    assert story.bad["phase"] == "Failed", message
    for piece in mistake.says:
        assert piece.replace("NAMESPACE", story.namespace) in message, message
    if mistake.error:
        assert story.bad["error"] == mistake.error
    assert story.state["message"] == message, "status and history tell the same"
    assert story.state["phase"] == "Failed"
    assert story.state["sync"] == ("OutOfSync" if story.bad["results"] else "Unknown"), "unknown without a comparison"
    assert story.state["digest"] == story.good["revision"]["digest"], "the good bundle stays in force"
    if story.bad["results"]:
        assert stalled(story.state).status == ("True" if mistake.lasting else "False")
    assert not story.writes, [f"{e['verb']} {e['requestURI']}" for e in story.writes]
    assert story.kept is not None
    assert story.kept["data"] == {"value": "good"}
    assert story.mended["phase"] == "Succeeded", story.mended["message"]
    assert story.after is not None
    assert story.after["data"] == {"value": "wanted"}


def publish(fleet: Fleet, story: Story, mistake: Mistake, stage: str) -> None:
    if callable(mistake.bad):
        mistake.bad(fleet, story, stage)
    else:
        fleet.push(story.app, files(story, stage, mistake.bad if stage == "bad" else mistake.before))


def files(story: Story, stage: str, more: Files | None = None) -> dict[str, str]:
    """The good object, changed from the second bundle on, and ``more``."""
    value = "good" if stage == "good" else "wanted"
    placed = {name: text.replace("NAMESPACE", story.namespace) for name, text in (more or {}).items()}
    return {"00-kept.yaml": doc(config_map(KEPT, story.namespace, {"value": value})), **placed}
