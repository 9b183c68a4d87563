"""Writing one stage of a plan: tiers one after another, the objects of a tier in parallel.

Every write carries the state it was decided on (uid and resourceVersion, or absence). A 409 means the object moved in
between: look again, decide again, write again with the new state; the cluster's guard is asked before each try, so a
worker that has lost its lock stops instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleetbeat.decisions.changes import GONE, NEVER_SEEN, fingerprint
from fleetbeat.decisions.fieldsets import edited
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.ledger import object_hash
from fleetbeat.decisions.ownership import latest_foreign
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import LEFT, Change, HookRun, Known
from fleetbeat.engine.weigh import Weigher
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import NAMESPACE, ApiResource, ApiSet, Body, Manifest, ObjectId
from fleetbeat.model_results import Health, ObjectResult, Outcome
from fleetbeat.ports import Absent, ClusterPort, Seen, Written

#: An object that moves at each of so many tries is fought over; the next tick says so again.
TRIES = 6


@dataclass(frozen=True)
class Done:
    """One object after its turn."""

    result: ObjectResult
    known: Known | None = None  #: None when it failed or has to wait
    health: Health | None = None
    not_yet: str = ""  #: why it could not be tried yet (a kind not served yet, a namespace going away)
    gone: bool = False  #: deleted, and the API server said that nothing holds it
    change: Change | None = None  #: as it was written in the end: on which state, and what that was like


def write_stage(
    cluster: ClusterPort,
    apis: ApiSet,
    tiers: Sequence[Sequence[Change | HookRun]],
    manifests: Sequence[Manifest],
    pool: Requests,
    *,
    weigher: Weigher,
    judge: Judge,
    record: Callable[[Sequence[Done]], None],
    run_hook: Callable[[HookRun], Done],
    repeated: bool = False,
    exact: bool = False,
) -> list[Done]:
    """Apply ``tiers``. A failure lets its own tier finish and stops before the next one.

    ``record`` is called after each tier's writes, and for long tiers in between, before anything else is begun.
    ``run_hook`` makes a hook's object.
    ``repeated``: an execution of this stage was killed, perhaps between a write and its ``record``.
    ``exact``: an object that is not as it was when its change was decided is refused instead of looked at again.
    Raises LostLock and ClusterUnavailable, with no write under way any more and those that were made recorded.
    """
    done: list[Done] = []
    writer = _Writer(cluster, apis, weigher, manifests, judge, repeated, exact)

    def write(one: Change | HookRun) -> Done:
        return run_hook(one) if isinstance(one, HookRun) else writer.write(one)

    for tier in tiers:
        for start in range(0, len(tier), _BATCH):
            batch, error = pool.finish(write, tier[start : start + _BATCH])
            record(batch)
            if error is not None:
                raise error
            done += batch
        if any(one.not_yet or one.result.outcome == "failed" for one in done):
            break
    return done


#: Results are kept at least this often, so that a kill loses the telling of few writes (never the writes themselves).
_BATCH = 64


class _Writer:
    def __init__(
        self,
        cluster: ClusterPort,
        apis: ApiSet,
        weigher: Weigher,
        manifests: Sequence[Manifest],
        judge: Judge,
        repeated: bool,
        exact: bool,
    ) -> None:
        self._cluster = cluster
        self._apis = apis
        self._weigher = weigher
        self._manifests = manifests
        self._judge = judge
        self._repeated = repeated
        self._exact = exact

    def write(self, change: Change) -> Done:
        manifest = self._manifests[change.index]
        try:
            return self._apply(change, manifest)
        except NotYet as error:
            return Done(ObjectResult(change.id, "skipped", str(error), change.wave), not_yet=str(error))
        except (Rejected, Refused, Unauthorized) as error:
            return Done(ObjectResult.failure(change.id, error, change.wave))

    def _apply(self, change: Change, manifest: Manifest) -> Done:
        resource = self._apis.find(change.id.group, change.id.kind, manifest.version)
        if resource is None:
            raise NotYet(f"{change.id}: the cluster does not serve {manifest.api_version} {change.id.kind} yet")
        planned = change
        for _ in range(TRIES):
            try:
                written = self._send(resource, change, manifest)
            except Conflict:
                # Only a conflict with the plan itself can come from our own write of the execution that was killed.
                own = self._repeated and change is planned
                again = self._look_again(resource, change, manifest, own)
                if isinstance(again, Done) and (own or not self._exact):
                    return again
                if self._exact or isinstance(again, Done):
                    raise Refused(
                        f"{change.id} was changed since the plan was saved; nothing else is done to it"
                    ) from None
                change = again
                continue
            result = ObjectResult(
                change.id,
                "created" if written.created else "configured",
                "; ".join(filter(None, (change.reason, *written.warnings))),
                change.wave,
                managers=change.managers,
                audit_id=written.audit_id,
                editors=change.editors,
                fields=tuple(one.field for one in change.healed),
            )
            return replace(self._done(result, manifest, written.body), change=change)
        raise Refused(
            f"{change.id} was changed by {self._rival(resource, change.id)} at each of {TRIES} tries; "
            "it is looked at again later"
        )

    def _rival(self, resource: ApiResource, key: ObjectId) -> str:
        """Who wrote last. Without the time: history counts a failure that says the same as the one before."""
        live = self._cluster.get(resource, key.namespace, key.name)
        rival = latest_foreign(live) if live is not None else None
        return rival.name if rival is not None and rival.name else "somebody else"

    def _send(self, resource: ApiResource, change: Change, manifest: Manifest) -> Written:
        """The write that the change says, on exactly the state it was decided on: else Conflict."""
        wanted, seen = edited(self._weigher.wanted(manifest), change.edits), change.seen
        if seen is None:
            return self._cluster.apply(resource, wanted, expect=Absent(), force=True)
        if change.how == "recreate":
            self._delete(resource, change, seen)
            return self._cluster.apply(resource, wanted, expect=Absent(), force=True)
        if change.how == "replace":
            live = self._cluster.get(resource, change.id.namespace, change.id.name)
            if live is None or Seen.of(live) != seen:
                raise Conflict(f"{change.id} was changed since it was looked at")
            return self._cluster.replace(resource, self._weigher.replacing(wanted, live, change.edits))
        if change.patch:
            patched = self._cluster.patch(resource, change.id.namespace, change.id.name, change.patch)
            seen = Seen.of(patched.body)
        return self._cluster.apply(resource, wanted, expect=seen, force=True)

    def _delete(self, resource: ApiResource, change: Change, seen: Seen) -> None:
        """Raises NotYet until the object has gone: finalizers may take their time. Asks for it once."""
        namespace, name = change.id.namespace, change.id.name
        live = self._cluster.get(resource, namespace, name)
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            if Seen.of(live) != seen:
                raise Conflict(f"{change.id} was changed since it was looked at")
            self._cluster.delete(resource, namespace, name, seen=seen)
            live = self._cluster.get(resource, namespace, name)
        if live is not None:
            raise NotYet(f"{change.id} is being deleted; it is created anew when it is gone")

    def _look_again(self, resource: ApiResource, change: Change, manifest: Manifest, own: bool) -> Change | Done:
        """The object is not as it was when the change was decided. ``own``: perhaps because this run has written it."""
        live = self._cluster.get(resource, change.id.namespace, change.id.name)
        if live is None:
            return replace(change, seen=None, how="apply", edits=(), patch=(), before="")
        if held := self._weigher.stays(change.id, live):
            # Remembered as not there, so that the next look compares it, and finds out for how long.
            result = ObjectResult(change.id, "skipped", held.why, change.wave)
            return Done(result, Known("", GONE, "Healthy"), Health("Healthy", held.why))
        weighed = self._weigher.weigh(resource, manifest, live)
        if not weighed.differs:
            note = "; ".join(weighed.notes) or "was as wanted when its turn came"
            result = ObjectResult(change.id, "unchanged", note, change.wave)
            if own:
                word: Outcome = "created" if change.seen is None or change.how == "recreate" else "configured"
                fields = tuple(one.field for one in change.healed)
                result = ObjectResult(change.id, word, change.reason, change.wave, managers=change.managers)
                result = replace(result, editors=change.editors, fields=fields)
            return self._done(result, manifest, live)
        return replace(
            change,
            seen=weighed.seen,
            how=weighed.how,
            edits=weighed.edits,
            patch=weighed.patch,
            before=object_hash(live),
        )

    def _done(self, result: ObjectResult, manifest: Manifest, live: Body) -> Done:
        state = self._judge.health(live)
        return Done(
            replace(result, health=state.status),
            Known(self._weigher.hash(manifest), fingerprint(live, result.id.group_kind), state.status),
            state,
        )


def leave(changes: Iterable[Change], held: Held, weigher: Weigher, manifests: Sequence[Manifest]) -> list[Done]:
    """What of ``changes`` is drift stays after all, remembered as something that the next look compares."""
    return [
        Done(
            ObjectResult(change.id, "skipped", held.why, change.wave),
            Known(weigher.hash(manifests[change.index]) + LEFT, NEVER_SEEN, "Healthy"),
            Health("Healthy", held.why),
        )
        for change in changes
        if change.healed
    ]


def ensure_namespace(cluster: ClusterPort, name: str) -> None:
    """Make the destination namespace for CreateNamespace=true. It stays nobody's: no label, never pruned."""
    body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        cluster.create(NAMESPACE, body)
    except Conflict:
        return  # somebody was faster


def group_tiers(
    tiers: Sequence[Sequence[ObjectId]], changes: Mapping[ObjectId, Change | HookRun]
) -> list[list[Change | HookRun]]:
    """The changes of a stage in the order its tiers say; what is not in ``changes`` has been written already."""
    return [[changes[key] for key in tier if key in changes] for tier in tiers]
