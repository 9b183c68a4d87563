"""Weighing one object that is there against its manifest: whose it is, who wins, how it is written. Writes nothing.

Comparing asks it before the plan is made, writing asks again when the object has moved since. One dry-run, and a second
one only where the object is to be replaced, or deleted and created anew.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetbeat.decisions import fights, ignores
from fleetbeat.decisions.changes import Path, changed_paths, format_path
from fleetbeat.decisions.conflicts import Field, conflicts, decide, fields, told
from fleetbeat.decisions.fieldsets import ABSENT, Edit, edited, get, text
from fleetbeat.decisions.fights import ANY, WHOLE, Dispute
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.inventory import FIELD_MANAGER, PART_OF
from fleetbeat.decisions.manifests import digest
from fleetbeat.decisions.migration import MANAGER, Takeover, takeover, tool_of
from fleetbeat.decisions.options import read as options
from fleetbeat.decisions.ownership import Foreign, Ours, changed_by, owner_of
from fleetbeat.decisions.selectors import fits
from fleetbeat.decisions.treatment import PRECIOUS, Treatment, is_immutable, replacement, treatment
from fleetbeat.engine.owners import SetOwner
from fleetbeat.engine.plan import How
from fleetbeat.errors import NotYet, Refused, Rejected, Shared
from fleetbeat.model import ApiResource, Application, Body, Manifest, ObjectId
from fleetbeat.model_results import Drifted
from fleetbeat.ports import ClusterPort, Seen


@dataclass(frozen=True)
class Weighed:
    """What an existing object lacks. Nothing in ``paths`` and ``released``: it is as wanted, or left as it is."""

    live: Body
    seen: Seen
    answer: Body  #: the object as it will be
    paths: tuple[Path, ...] = ()  #: what a write changes
    released: tuple[str, ...] = ()  #: what goes with the takeover, in words
    how: How = "apply"
    edits: tuple[Edit, ...] = ()  #: to the manifest before it is sent
    takeover: Takeover | None = None
    adopted: bool = False
    notes: tuple[str, ...] = ()  #: what is left to others, and why
    fields: tuple[Drifted, ...] = ()  #: what a write puts back, and who had set it, as fights are counted
    left: tuple[Drifted, ...] = ()  #: what it does not, for a truce
    truces: Mapping[str, Dispute] = field(default_factory=dict)  #: fields that are fought over and left for a while
    yielded: str = ""  #: of the notes, what spec.conflicts or the defaults leave to others

    @property
    def differs(self) -> bool:
        return bool(self.paths or self.released or self.how == "recreate")

    @property
    def shown(self) -> tuple[str, ...]:
        """The places that change."""
        return (*(format_path(path) for path in self.paths), *self.released)

    @property
    def patch(self) -> tuple[dict[str, Any], ...]:
        return self.takeover.patch if self.takeover else ()


#: object, field, who has it now → the dispute over it, when it is to be left alone
Truces = Callable[[ObjectId, str, str], Dispute | None]


def no_truces(_key: ObjectId, _field: str, _party: str) -> None:
    """Everything is put back."""


#: object, as it is now → why people keep it from being written
Stays = Callable[[ObjectId, Body], Held | None]


def nothing_stays(_key: ObjectId, _live: Body) -> None:
    """Everything may be written."""


class Weigher:
    """One application on one cluster. Thread-safe."""

    def __init__(
        self,
        cluster: ClusterPort,
        application: Application,
        applyset: str,
        owner_name: Callable[[str], SetOwner] = SetOwner,
        truces: Truces = no_truces,
        stays: Stays = nothing_stays,
    ) -> None:
        """``owner_name`` tells the application behind a foreign ApplySet id, asked only when one is met.

        ``truces``: which fields are fought over, and left alone for now. ``stays``: for one that
        has moved since the plan was made, whether somebody wants it left alone by now.
        """
        self._cluster = cluster
        self._app = application
        self._applyset = applyset
        self._owner_name = owner_name
        self._migrated = application.annotations.get(MANAGER, "")
        self.truce = truces
        self.stays = stays

    def hash(self, manifest: Manifest) -> str:
        """Of everything that decides how the object should be: its manifest, and the rules about it."""
        rules = [rule for rule in self._app.ignore_differences if fits(rule.objects, manifest.id)]
        policies = [rule for rule in self._app.conflicts if fits(rule.objects, manifest.id)]
        # Changed again, it has to be looked at once more who holds the fields of what is as wanted.
        taking = [] if self._app.sync.migrate else ["ClientSideApplyMigration=false"]
        taking += [self._migrated] if self._migrated else []
        if not rules and not policies and not taking:
            return digest(manifest)
        return f"{digest(manifest)}+{hashlib.sha256(repr((rules, policies, *taking)).encode()).hexdigest()[:12]}"

    def treatment(self, manifest: Manifest, live: Body | None) -> Treatment:
        """``live``: the object, or its metadata from a list, as far as it is known."""
        return treatment(manifest.body, live, manifest.id, self._app.sync)

    def wanted(self, manifest: Manifest) -> Body:
        """The manifest as it is sent: with the label that makes it a member of the application's ApplySet."""
        body = copy.copy(manifest.body)
        body["metadata"] = dict(body["metadata"])
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), PART_OF: self._applyset}
        if manifest.id.group_kind == "ClusterRole.rbac.authorization.k8s.io" and body.get("aggregationRule"):
            body.pop("rules", None)  # the controller manager's: sent with force, `rules: []` would take them all away
        return body

    def weigh(self, resource: ApiResource, manifest: Manifest, live: Body) -> Weighed:
        """Raises Refused (another owner, a conflict to report), NotYet (it is being deleted) and the server's no."""
        key, metadata = manifest.id, live["metadata"]
        seen = Seen.of(live)
        treated = self.treatment(manifest, live)
        if treated.mode in ("leave", "create"):
            return Weighed(live, seen, live, notes=(f"left alone: {treated.why}",))
        owner = owner_of(live, self._applyset)
        ours = isinstance(owner, Ours)
        adopt = self.adoptable(manifest.id, owner) if isinstance(owner, Foreign) else frozenset()
        if metadata.get("deletionTimestamp"):
            raise NotYet(f"{key} is being deleted; it is created again when it is gone")

        wanted = self.wanted(manifest)
        pointers = options(manifest).ignore_json_pointers
        left = ignores.edits(wanted, live, key, self._app.ignore_differences, pointers)
        sent = edited(wanted, left)
        how: How = "replace" if treated.replace and ours else "apply"
        try:
            answer, paths = self._dry_run(resource, sent, live, how, left)
        except Rejected as error:
            if not is_immutable(str(error)):
                raise
            return self._recreated(resource, manifest, wanted, live, treated, error)

        decided = decide(conflicts(live, paths), key, live, self._app.conflicts)
        if decided.reported:
            raise Refused(
                f"{key}: {'; '.join(map(str, decided.reported))} has set another value, and spec.conflicts says "
                "report. Take the field out of the bundle, or choose takeOver or yield"
            )
        notes: tuple[str, ...] = ()
        if decided.left:
            notes = (told(decided.left),)
            left = (*left, *ignores.left_alone(sent, live, [conflict.steps for conflict in decided.left]))
            sent = edited(wanted, left)
            paths = tuple(path for path in paths if path not in decided.left_paths)
            answer = edited(answer, _as_live(live, left))
        found = fields(paths, decided.taken)
        drift = fights.collapsed(one.drifted for one in found)
        truces = self._truces(key, drift)
        if truces:
            notes += tuple(fights.told(name, dispute) for name, dispute in truces.items())
            fought = [one for one in found if one.name in truces or WHOLE in truces]
            left = (*left, *_given_up(sent, live, fought))
            sent = edited(wanted, left)
            found = tuple(one for one in found if one not in fought)
            if found:
                answer, paths = self._dry_run(resource, sent, live, how, left)
                if any(one.name in truces for one in fields(paths, conflicts(live, paths))):
                    found = ()  # it cannot be left out of this write: then the object is not written for now
            paths = tuple(path for path in paths if path not in decided.left_paths)
        if pause := self.truce(key, ANY, _party(found)) if found else None:
            # Healed so often that the next time has to wait, whichever fields it is about now.
            notes, truces, found = (*notes, fights.told(ANY, pause)), {**truces, ANY: pause}, ()
        if truces and not found:
            yielded = told(decided.left)
            return Weighed(live, seen, live, notes=notes, left=drift, truces=truces, yielded=yielded)
        over = None
        if how == "apply":
            keep = treated.mode == "merge" or not treated.migrate
            given_up = [edit.steps for edit in left]
            forced = {conflict.steps for conflict in decided.taken}
            over = takeover(
                live, sent, adopt=adopt, manager=self._migrated, keep=keep, given_up=given_up, forced=forced
            )
        released = over.released if over else ()
        return Weighed(
            live,
            seen,
            edited(answer, [Edit(steps) for steps in released]),
            paths,
            tuple(text(steps) for steps in released),
            how,
            left,
            over,
            adopted=not ours,
            notes=notes,
            fields=fights.collapsed(one.drifted for one in found),
            left=tuple(one for one in drift if one.field in truces),
            truces=truces,
            yielded=told(decided.left),
        )

    def _truces(self, key: ObjectId, drift: Sequence[Drifted]) -> dict[str, Dispute]:
        """Which of the fields that differ are left alone for now. Many that differ together are one dispute."""
        asked = {one.field: self.truce(key, one.field, one.party) for one in drift}
        return {name: dispute for name, dispute in asked.items() if dispute is not None}

    def truce_of_all(self, key: ObjectId) -> dict[str, Dispute]:
        """Why an object that has to be created (again) as a whole is left as it is for now, nothing = it is not."""
        asked = ((name, self.truce(key, name, "")) for name in (WHOLE, ANY))
        return next(({name: dispute} for name, dispute in asked if dispute is not None), {})

    @property
    def applyset(self) -> str:
        return self._applyset

    def adoptable(self, key: ObjectId, owner: Foreign) -> frozenset[str]:
        """The word of ``spec.adopt`` that lets the owner's object be taken over. Raises Refused with its name."""
        word = tool_of(owner.tool)
        if word and word in self._app.adopt:
            return frozenset({word})
        name = owner.name
        if owner.tool == "ApplySet":
            name, application = self._owner_name(owner.name)
            if application and not self._app.sync.fail_on_shared:
                raise Shared(
                    f"belongs to application {application}, which keeps it as its own bundle has it. It is handed over "
                    f"when that bundle drops it",
                    application,
                )
        how = f". spec.adopt: [{word}] takes it over" if word else ""
        raise Refused(f"{key} belongs to {owner.tool} {name} ({owner.mark}); it is not touched{how}")

    def _dry_run(
        self, resource: ApiResource, sent: Body, live: Body, how: How, left: tuple[Edit, ...]
    ) -> tuple[Body, tuple[Path, ...]]:
        if how == "apply":
            answer = self._cluster.apply(resource, sent, dry_run=True, force=True).body
            return answer, changed_paths(live, answer)
        answer = self._cluster.replace(resource, self.replacing(sent, live, left), dry_run=True).body
        paths = changed_paths(live, answer)
        # A replace takes away what others have added; that alone is no reason for one, or it would never end.
        return answer, tuple(path for path in paths if not _added_by_others(live, answer, path))

    def replacing(self, sent: Body, live: Body, left: tuple[Edit, ...]) -> Body:
        """The body of a PUT: what is left alone must be in it with the value it has."""
        return replacement(edited(sent, _as_live(live, left)), live)

    def _recreated(
        self,
        resource: ApiResource,
        manifest: Manifest,
        wanted: Body,
        live: Body,
        treated: Treatment,
        error: Rejected,
    ) -> Weighed:
        """A field that cannot be changed: only where it is asked for is the object deleted and created anew."""
        key = manifest.id
        if not treated.force:
            careful = " (all that is in it goes too)" if key.group_kind in PRECIOUS else ""
            raise Rejected(
                f"{error}. Where this object may be deleted and created anew{careful}, give it the annotation "
                "argocd.argoproj.io/sync-options: Force=true"
            )
        whole = (Drifted(WHOLE),)
        if truces := self.truce_of_all(key):
            notes = tuple(fights.told(*one) for one in truces.items())
            return Weighed(live, Seen.of(live), live, notes=notes, left=whole, truces=truces)
        self._try_creating(resource, manifest, wanted, error)
        return Weighed(
            live,
            Seen.of(live),
            wanted,
            how="recreate",
            adopted=not isinstance(owner_of(live, self._applyset), Ours),
            notes=("deleted and created anew, since a field cannot be changed",),
            fields=whole,
        )

    def _try_creating(self, resource: ApiResource, manifest: Manifest, wanted: Body, error: Rejected) -> None:
        """Nothing is deleted that could not be created: a dry-run under another name says so beforehand."""
        try:
            try_creating(self._cluster, resource, manifest.id, wanted)
        except Rejected as second:
            raise type(second)(
                f"{error}. It would be deleted and created anew, but creating it is refused as well: {second}"
            ) from None
        except NotYet:
            return


def try_creating(cluster: ClusterPort, resource: ApiResource, key: ObjectId, wanted: Body) -> None:
    """A dry-run under another name: would the object be accepted if nothing of its name were there?

    Raises Rejected, Unauthorized and NotYet. Says nothing of kinds that cannot have another name.
    """
    if key.group_kind in _NAMED_BY_CONTENT:
        return
    name = key.name
    other = f"{name[:40].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    trial = {**wanted, "metadata": {**wanted["metadata"], "name": other}}
    try:
        cluster.apply(resource, trial, dry_run=True)
    except Rejected as error:
        if "already allocated" in str(error):  # its own address or port, which is free once it is gone
            return
        raise type(error)(str(error).replace(other, name)) from None


#: Kinds whose name says what is in them.
_NAMED_BY_CONTENT = frozenset({"CustomResourceDefinition.apiextensions.k8s.io", "APIService.apiregistration.k8s.io"})


def _party(found: Iterable[Field]) -> str:
    return next((one.by.name for one in found if one.by), "")


def _given_up(sent: Body, live: Body, fought: Sequence[Field]) -> tuple[Edit, ...]:
    """Edits that leave these fields as they are in ``live``; what is not there is left out as a whole."""
    gone = [one.steps for one in fought if get(live, one.steps) is ABSENT]
    there = [one.steps for one in fought if one.steps not in gone]
    return (*(Edit(steps) for steps in gone), *ignores.left_alone(sent, live, there))


def _as_live(live: Body, left: tuple[Edit, ...]) -> list[Edit]:
    return [Edit(edit.steps, get(live, edit.steps)) for edit in left]


def _added_by_others(live: Body, answer: Body, path: Path) -> bool:
    there: Any = answer
    for part in path:
        if part.startswith("["):
            return False
        there = there.get(part, ABSENT) if isinstance(there, dict) else ABSENT
    return there is ABSENT and all(manager.name != FIELD_MANAGER for manager in changed_by(live, [path], own=""))
