"""The ApplySet parent: what an application owns in a target cluster, and who may write for it (KEP-3659).

One ConfigMap per application. Its annotations say which kinds and namespaces hold members, so that pruning knows where
to look, and it carries fence and run of the application's writer: authority over a cluster lives in that cluster, and
Redis may be lost. Taking over is a compare-and-set on the parent's resourceVersion; a stale writer gets a conflict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleetbeat import __version__
from fleetbeat.decisions import hand_holds, inventory, self_heal
from fleetbeat.decisions.inventory import Claimant
from fleetbeat.decisions.ledger import Place
from fleetbeat.errors import Conflict, LostLock, NotYet, Refused
from fleetbeat.model import CONFIG_MAP, NAMESPACE, Body, ObjectId
from fleetbeat.model_results import Manager
from fleetbeat.ports import ClusterPort, Seen

FENCE = "fleetbeat.dev/fence"  #: annotation: integer, grows with every taking of the application's lock
RUN = "fleetbeat.dev/run"  #: annotation: id of the run that wrote last
APPLICATION = "fleetbeat.dev/application"  #: annotation: the application's name, unshortened
PINNED = "fleetbeat.dev/pinned"  #: annotation: the digest a person has pinned the application to, while that holds
HOLDS = "fleetbeat.dev/holds"  #: annotation: the holds of the application alone, a JSON list of holds.Hold
DIGEST = "fleetbeat.dev/digest"  #: annotation: "sha256:…" of the bundle that run was for
HOOK_KINDS = "fleetbeat.dev/hook-group-kinds"  #: annotation: CSV of Kind.group of objects that hooks may have left
HOOK_NAMESPACES = "fleetbeat.dev/hook-namespaces"  #: annotation: CSV of the namespaces those may be in
#: annotation: "true" where the parent's own namespace has members; the additional ones never tell
MEMBERS_HERE = "fleetbeat.dev/members-here"
HOOKS = "fleetbeat.dev/hooks"  #: annotation: "sha256:…" of the bundle whose hooks have last gone through

_TOOL = "fleetbeat"
_LEAP = 2**40  # a fence so far above ours was never counted: adopting it would break the counter of the whole fleet
_TRIES = 3  # conflicts in a row: somebody is writing for this application at the same time


class HigherFence(LostLock):
    """The cluster has seen a writer with this ``fence`` or a higher one than ours.

    Either a successor is at work, or Redis has lost its counter: raise the counter to ``fence`` and begin again.
    """

    def __init__(self, message: str, fence: int) -> None:
        super().__init__(message)
        self.fence = fence


class UnknownWriter(LostLock):
    """Another run took the parent, with this ``fence``, and the caller does not know that run to be over."""

    def __init__(self, message: str, fence: int) -> None:
        super().__init__(message)
        self.fence = fence


@dataclass(frozen=True)
class Parent:
    """The parent object as it was read or written last."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    fence: int  #: 0 when it carries none
    run: str
    group_kinds: frozenset[str]  #: "Deployment.apps", "Secret"; other tools' plural names as they stand
    namespaces: frozenset[str]  #: namespaces of members, without the parent's own
    digest: str
    body: Body = field(repr=False, compare=False)
    hook_kinds: frozenset[str] = frozenset()  #: kinds that objects with the label ``inventory.HOOK_OF`` may be of
    hook_namespaces: frozenset[str] = frozenset()  #: and where they may be
    members_here: bool = False  #: are there members in the parent's own namespace?
    hooks: str = ""  #: digest of the bundle whose hooks have last gone through
    pinned: str = ""  #: digest a person has pinned the application to
    claims: frozenset[ObjectId] = frozenset()  #: objects of the bundle that other applications own
    holds: str = ""  #: as ``HOLDS`` has them
    setters: tuple[Manager, ...] = ()  #: who has set ``fleetbeat.dev/self-heal`` on it
    holders: tuple[Manager, ...] = ()  #: and who ``fleetbeat.dev/hold-until``

    @property
    def spaces(self) -> frozenset[str]:
        """Every namespace where members may be."""
        return self.namespaces | ({self.namespace} if self.members_here else frozenset())

    @property
    def listing(self) -> str:
        """What it lists, as one comparable text; see ``listing``."""
        return listing(self.group_kinds, self.namespaces, self.namespace, self.claims)


def listing(group_kinds: frozenset[str], namespaces: frozenset[str], own: str, claims: Iterable[ObjectId] = ()) -> str:
    """All of it as one text that is the same when a parent in namespace ``own`` would list the same."""
    spaces = inventory.format_group_kinds(namespaces - {own})
    return f"{inventory.format_group_kinds(group_kinds)};{spaces};{inventory.format_claims(claims)}"


def claims(cluster: ClusterPort, namespace: str, app: str) -> dict[ObjectId, Claimant]:
    """What other applications of this installation have in their bundles and ``app`` may own. One LIST.

    Where several claim an object, the first by name.
    """
    found: dict[ObjectId, Claimant] = {}
    parents = cluster.list(CONFIG_MAP, selector=inventory.ID, namespace=namespace, metadata_only=True)
    for body in parents:
        metadata = body["metadata"]
        annotations = metadata.get("annotations") or {}
        application = annotations.get(APPLICATION, "")
        if application in ("", app) or not inventory.is_ours(annotations.get(inventory.TOOLING, "")):
            continue
        claim = Claimant(application, inventory.applyset_id(metadata["name"], namespace))
        for key in inventory.parse_claims(annotations.get(inventory.CLAIMS, "")):
            found[key] = min(claim, found.get(key, claim))
    return found


def read(cluster: ClusterPort, namespace: str, app: str) -> Parent | None:
    """The application's parent, None when there is none. ``namespace``: ``settings.namespace``.

    Raises Refused when the object of that name is not this application's parent.
    """
    body = cluster.get(CONFIG_MAP, namespace, inventory.parent_name(app))
    if body is None:
        return None
    _check_owner(body, app)
    return _parse(body)


def places(namespace: str, app: str) -> tuple[Place, ...]:
    """What ``take`` and ``shrink`` may write."""
    parent = ObjectId("", "ConfigMap", namespace, inventory.parent_name(app))
    return Place(parent, CONFIG_MAP.plural), Place(ObjectId("", "Namespace", "", namespace), NAMESPACE.plural)


def take(
    cluster: ClusterPort,
    namespace: str,
    app: str,
    *,
    run: str,
    fence: int,
    group_kinds: frozenset[str],
    namespaces: frozenset[str],
    digest: str,
    hook_kinds: frozenset[str] = frozenset(),
    hook_namespaces: frozenset[str] = frozenset(),
    pinned: str = "",
    claims: Iterable[ObjectId] = (),
    is_over: Callable[[int], bool] = lambda _: True,
    absent: bool = False,
    meet: Callable[[Parent], None] = lambda _: None,
) -> Parent:
    """Become the application's writer in this cluster, before its first write; safe to repeat.

    ``is_over`` says of the fence of another run, met in the parent, whether that execution has certainly ended.
    ``absent``: a moment ago there was none, so try to make it before reading it. ``meet`` is shown the parent as it is
    before it is written, and may raise to leave it so.

    Kinds, namespaces and claims are only added, so that what an unfinished run had written stays findable. The parent's
    namespace is made when it is missing. Costs one request when this run holds the parent already or it was
    ``absent``, else two.

    Raises:
        HigherFence: a run with a higher fence was here, or another run with the same.
        UnknownWriter: another run was here, and ``is_over`` says no.
        LostLock: others kept writing to the parent in between.
        Refused: it belongs to another tool or application.
    """
    for attempt in range(_TRIES):
        current = None if absent and not attempt else read(cluster, namespace, app)
        _check_fence(current, app, run, fence)
        if current and current.run not in ("", run) and not is_over(current.fence):
            raise UnknownWriter(
                f"Application {app}: run {current.run} with fence {current.fence} may still be writing", current.fence
            )
        if current:
            meet(current)
        wanted = _annotated(
            current.body if current else _empty(namespace, app),
            app,
            run=run,
            fence=fence,
            group_kinds=group_kinds | (current.group_kinds if current else frozenset()),
            namespaces=namespaces | (current.spaces if current else frozenset()),
            digest=digest,
            hook_kinds=hook_kinds | (current.hook_kinds if current else frozenset()),
            hook_namespaces=hook_namespaces | (current.hook_namespaces if current else frozenset()),
            pinned=pinned,
            claims=frozenset(claims) | (current.claims if current else frozenset()),
        )
        try:
            if current is None:
                return _parse(create(cluster, namespace, wanted))
            if wanted == current.body:
                return current
            return _parse(cluster.replace(CONFIG_MAP, wanted).body)
        except Conflict:
            continue
    raise LostLock(f"Application {app}: its parent in cluster {cluster.name} was written by others {_TRIES} times over")


def shrink(
    cluster: ClusterPort,
    parent: Parent,
    group_kinds: frozenset[str],
    namespaces: frozenset[str],
    digest: str,
    hooks: str = "",
    pinned: str = "",
    claims: Iterable[ObjectId] = (),
) -> Parent:
    """Record what the application really has, after its last prune. No request when nothing differs.

    ``hooks``: the bundle whose hooks have gone through; "" = leave what the parent says of that.

    Raises LostLock (HigherFence) when another run has taken the parent since.
    """
    app = parent.body["metadata"]["annotations"][APPLICATION]
    current = parent
    for _ in range(_TRIES):
        wanted = _annotated(
            current.body,
            app,
            run=parent.run,
            fence=parent.fence,
            group_kinds=group_kinds,
            namespaces=namespaces,
            digest=digest,
            hook_kinds=current.hook_kinds,
            hook_namespaces=current.hook_namespaces,
            hooks=hooks,
            pinned=pinned,
            claims=frozenset(claims),
        )
        if wanted == current.body:
            return current
        try:
            return _parse(cluster.replace(CONFIG_MAP, wanted).body)
        except Conflict:
            found = read(cluster, parent.namespace, app)
            if found is None:
                raise LostLock(f"Application {app}: its parent in cluster {cluster.name} was deleted") from None
            _check_fence(found, app, parent.run, parent.fence)
            current = found
    raise LostLock(f"Application {app}: its parent in cluster {cluster.name} was written by others {_TRIES} times over")


def remove(cluster: ClusterPort, parent: Parent) -> None:
    """Delete the parent: nothing is left of the application. Raises LostLock when it was written to since."""
    seen = Seen(parent.uid, parent.resource_version)
    try:
        cluster.delete(CONFIG_MAP, parent.namespace, parent.name, seen=seen)
    except Conflict:
        raise LostLock(f"ConfigMap {parent.namespace}/{parent.name} was written to by another run") from None


def note(cluster: ClusterPort, parent: Parent, annotation: str, text: str) -> None:
    """Note PINNED or HOLDS ("" = nothing any more) without becoming the writer.

    Raises Conflict when the parent was written since.
    """
    metadata = parent.body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), annotation: text}
    if not text:
        del annotations[annotation]
    cluster.replace(CONFIG_MAP, {**parent.body, "metadata": {**metadata, "annotations": annotations}})


def create(cluster: ClusterPort, namespace: str, body: Body) -> Body:
    """Create one of our ConfigMaps, and ``namespace`` for it when that is missing. Raises Conflict when it exists."""
    try:
        return cluster.create(CONFIG_MAP, body).body
    except NotYet:
        with contextlib.suppress(Conflict):  # it exists: made by another application just now, or being deleted
            cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        return cluster.create(CONFIG_MAP, body).body


def _check_owner(body: Body, app: str) -> None:
    """Nothing but this application's parent may be written to."""
    metadata = body["metadata"]
    where = f"ConfigMap {metadata['namespace']}/{metadata['name']}"
    annotations = metadata.get("annotations") or {}
    tooling = annotations.get(inventory.TOOLING, "")
    if tooling and not inventory.is_ours(tooling):
        raise Refused(f"{where} is the parent of an ApplySet of {tooling}; Fleetbeat does not write to it")
    owner = annotations.get(APPLICATION, "")
    if owner and owner != app:
        raise Refused(f"{where} is the parent of application {owner}, not of {app}")
    id_ = inventory.applyset_id(metadata["name"], metadata["namespace"], "ConfigMap", "")
    if not owner and (metadata.get("labels") or {}).get(inventory.ID) != id_:
        raise Refused(f"{where} exists and is not an ApplySet parent; delete or rename it, Fleetbeat needs the name")


def _check_fence(found: Parent | None, app: str, run: str, fence: int) -> None:
    if found and found.fence - fence > _LEAP:
        raise Refused(
            f"ConfigMap {found.namespace}/{found.name}: annotation {FENCE} is {found.fence}, which Fleetbeat has never "
            "counted to; remove the annotation if no sync of this application is running"
        )
    if found and (found.fence > fence or (found.fence == fence and found.run != run)):
        raise HigherFence(
            f"Application {app}: run {found.run} with fence {found.fence} has taken over from run {run} with {fence}",
            found.fence,
        )


def _empty(namespace: str, app: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": inventory.parent_name(app), "namespace": namespace},
    }


def _annotated(
    body: Body,
    app: str,
    *,
    run: str,
    fence: int,
    group_kinds: frozenset[str],
    namespaces: frozenset[str],
    digest: str,
    hook_kinds: frozenset[str] = frozenset(),
    hook_namespaces: frozenset[str] = frozenset(),
    hooks: str = "",
    pinned: str = "",
    claims: frozenset[ObjectId],
) -> Body:
    """A copy of the parent with our keys set; labels and annotations of others stay."""
    metadata = body["metadata"]
    name, own = metadata["name"], metadata["namespace"]
    labels = {**(metadata.get("labels") or {}), inventory.ID: inventory.applyset_id(name, own, "ConfigMap", "")}
    annotations = {
        **(metadata.get("annotations") or {}),
        inventory.TOOLING: f"{_TOOL}/{__version__}",
        inventory.CONTAINS_GROUP_KINDS: inventory.format_group_kinds(group_kinds),
        inventory.ADDITIONAL_NAMESPACES: inventory.format_group_kinds(namespaces - {own}),
        APPLICATION: app,
        FENCE: str(fence),
        RUN: run,
        DIGEST: digest,
        **({HOOK_KINDS: inventory.format_group_kinds(hook_kinds)} if hook_kinds else {}),
        **({HOOK_NAMESPACES: inventory.format_group_kinds(hook_namespaces)} if hook_namespaces else {}),
        **({HOOKS: hooks} if hooks else {}),
        PINNED: pinned,
    }
    if not pinned:
        del annotations[PINNED]
    annotations.pop(MEMBERS_HERE, None)
    if own in namespaces:
        annotations[MEMBERS_HERE] = "true"
    annotations.pop(inventory.CLAIMS, None)
    if claims:
        annotations[inventory.CLAIMS] = inventory.format_claims(claims)
    return {**body, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _parse(body: Body) -> Parent:
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    fence = annotations.get(FENCE, "0")
    if not (fence.isascii() and fence.isdigit() and len(fence) < 20):
        raise Refused(
            f"ConfigMap {metadata['namespace']}/{metadata['name']}: annotation {FENCE} is {fence[:30]!r}, "
            "not a number of ours; remove the annotation if no sync of this application is running"
        )
    setters, holders = self_heal.setters(body), self_heal.setters(body, hand_holds.KEYS)
    # What a server keeps about writers only makes each replace larger; it does not need to come back.
    body = {**body, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
    return Parent(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        fence=int(fence),
        run=annotations.get(RUN, ""),
        group_kinds=inventory.parse_group_kinds(annotations.get(inventory.CONTAINS_GROUP_KINDS, "")),
        namespaces=inventory.parse_group_kinds(annotations.get(inventory.ADDITIONAL_NAMESPACES, "")),
        digest=annotations.get(DIGEST, ""),
        body=body,
        hook_kinds=inventory.parse_group_kinds(annotations.get(HOOK_KINDS, "")),
        hook_namespaces=inventory.parse_group_kinds(annotations.get(HOOK_NAMESPACES, "")),
        members_here=annotations.get(MEMBERS_HERE) == "true",
        hooks=annotations.get(HOOKS, ""),
        pinned=annotations.get(PINNED, ""),
        holds=annotations.get(HOLDS, ""),
        setters=setters,
        holders=holders,
        claims=inventory.parse_claims(annotations.get(inventory.CLAIMS, "")),
    )
