"""Step 4, once per stage: write what the plan says, then wait until it is healthy, without holding a worker.

The first execution of a stage takes the ApplySet parent by compare-and-set, which makes this run the writer in the
cluster too, then writes. When something is not healthy yet the step waits in the due set; the executions that follow
only look, until all is well or the wave's time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from fleetbeat.clients import applyset
from fleetbeat.clients.ledger import Pen
from fleetbeat.decisions.inventory import group_kinds, namespaces
from fleetbeat.decisions.ledger import Place
from fleetbeat.decisions.lifecycle import after, health_pause, stage_of
from fleetbeat.decisions.manifests import RawManifest, bundle_kinds
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.kinds import api_set_with_owned
from fleetbeat.engine.plan import Plan, StagePlan, manifests_from_json
from fleetbeat.engine.remove import remove_tier, still_there
from fleetbeat.engine.settle import judge, read
from fleetbeat.engine.weigh import Weigher
from fleetbeat.engine.write import Done, ensure_namespace, group_tiers, write_stage
from fleetbeat.errors import Rejected
from fleetbeat.model import ApiSet, Health, Manifest, ObjectId
from workers import memory, tally
from workers.target import Target, target
from workers.task import Next, Outcome, Wait, Work, failed, start_over

SETTLED = ("Healthy", "Suspended")


def apply(work: Work) -> Outcome:
    shared, record, turn = work.parts, work.record, work.turn
    plan_text, rendered = shared.blobs.get(record["plan"]), shared.blobs.get(record["rendered"])
    if plan_text is None or rendered is None:
        return start_over()
    number = stage_of(turn.step)
    plan, manifests = Plan.from_json(plan_text), manifests_from_json(rendered)
    stage = plan.stages[number]
    pen = shared.ledger.pen(tally.execution(turn, stage.title))
    guard, digest = work.lease.check, record["digest"]
    where = target(shared, turn.app, run=turn.run, fence=turn.fence, digest=digest, guard=guard, witness=pen.saw)
    if where.spec != record["spec"]:
        # The plan was made for the cluster and the rules of then: another cluster must never be written by it.
        return Next("report", {"superseded": "a changed catalog"})
    begun = float(record["stage_began"]) if record.get("stage") == str(number) else time.time()
    this = _Stage(work, where, plan, stage, manifests, number, begun, pen)
    if record.get("written") != str(number):
        return this.write()
    return this.look(_pending(record))


class _Stage:
    """One execution's view of one stage."""

    def __init__(
        self,
        work: Work,
        where: Target,
        plan: Plan,
        stage: StagePlan,
        manifests: Sequence[Manifest],
        number: int,
        begun: float,
        pen: Pen,
    ) -> None:
        self.work = work
        self.where = where
        self.plan = plan
        self.stage = stage
        self.manifests = manifests
        self.number = number
        self.begun = begun
        self.pen = pen
        keys = [key for tier in stage.tiers for key in tier]
        gone_for_good = group_kinds(keys) if stage.part == "prune" else ()
        apis = api_set_with_owned(where.cluster, {(key.group, key.kind) for key in keys}, gone_for_good)
        self.apis = _with_bundle(apis, manifests)
        self.judge = Judge(where.application, where.cluster, self.apis)
        self.home = work.record.get("home", "")  #: uid of the parent, which is another one in each cluster
        self.owned = work.record.get("owned", "")  #: what the parent lists since this run wrote it last

    def write(self) -> Outcome:
        """Take the cluster's side of the lock, then write everything of the stage."""
        known_before = self.work.record.get("parent") != "absent"
        with self.pen.begin(self.where.cluster.name, self._places(), known_before=known_before):
            return self._write()

    def _places(self) -> Iterator[Place]:
        """Everything that may be written here, for the ledger: the stage's objects and the application's own record."""
        wanted = [key for tier in self.stage.tiers for key in tier]
        if self.number == 0 and self.plan.create_namespace:
            wanted.append(ObjectId("", "Namespace", "", self.plan.create_namespace))
            self.pen.explain(wanted[-1], "CreateNamespace=true")
        for key in wanted:
            resource = self.apis.find(key.group, key.kind)
            yield Place(key, resource.plural if resource else "")
        yield from applyset.places(self.work.parts.settings.namespace, self.work.turn.app)

    def _write(self) -> Outcome:
        work, where = self.work, self.where
        if waits := self._take():
            return waits
        if self.number == 0 and self.plan.create_namespace:
            ensure_namespace(where.cluster, self.plan.create_namespace)
        for change in self.plan.changes:
            if change.seen is not None:
                self.pen.know(change.id, change.seen.resource_version, change.before)
        done = self._earlier()
        finished = {one.result.id for one in done}
        if self.stage.part == "prune":
            done += self._prune(finished)
        else:
            tiers = group_tiers(self.stage.tiers, {c.id: c for c in self.plan.changes if c.id not in finished})
            done += write_stage(
                where.cluster,
                self.apis,
                tiers,
                self.manifests,
                work.parts.pool,
                weigher=Weigher(where.cluster, where.application, where.applyset, truces=self.plan.truce),
                judge=self.judge,
                record=self._keep,
                repeated=self._repeated,
            )
        if any(one.result.outcome == "failed" for one in done):
            return Next("report", {"error": "ObjectsFailed", "error_cure": _cure(done)})
        if waiting := [one for one in done if one.not_yet]:
            return self._wait(waiting[0].not_yet, {}, 0)
        pending = {one.result.id for one in done if one.health is None or one.health.status not in SETTLED}
        pending |= set(self.stage.unsettled)
        if self.stage.part == "prune":
            # Of what an execution before this one has deleted nobody knows any more whether it was gone at once.
            pending = {one.result.id for one in done if one.result.audit_id and not one.gone}
        written: dict[str, str | int | float] = {"written": self.number}
        if not pending:
            return self._next(written)
        # A bad status in the answer to a write is from before that write: only the first look judges.
        waits_for = "go" if self.stage.part == "prune" else "become healthy"
        message = f"{memory.joined(sorted(pending))} to {waits_for}"
        return self._wait(message, {**written, "pending": _keys(pending)}, 0)

    def look(self, pending: set[ObjectId]) -> Outcome:
        """Has what was written become healthy, or what was deleted gone?"""
        live = read(self.where.cluster, self.apis, self.where.applyset, pending)
        looks = int(self.work.record.get("looks") or 0) + 1
        if self.stage.part == "prune":
            there = still_there({removal.id: removal for removal in self.plan.removals}, live)
            if not there:
                return self._next({})
            return self._wait(_going(there), {"pending": _keys(there)}, looks)
        judged = judge(live, self.judge)
        tally.settle(self.work.parts, self.work.turn.run, judged, self.plan.known)
        bad = {key: state for key, (state, _) in judged.items() if state.status in ("Degraded", "Missing")}
        if bad:
            return self._unhealthy(bad)
        restless = {key: state for key, (state, _) in judged.items() if state.status not in SETTLED}
        if not restless:
            return self._next({})
        return self._wait(_told(restless), {"pending": _keys(restless)}, looks)

    def _take(self) -> Wait | None:
        """Grow the parent to everything this plan may touch, with our fence: from here on older writers get a 409."""
        turn, shared = self.work.turn, self.work.parts
        wanted = [m.id for m in self.manifests] + [removal.id for removal in self.plan.removals]
        everything = [*wanted, *self.plan.known]
        try:
            parent = applyset.take(
                self.where.cluster,
                shared.settings.namespace,
                turn.app,
                run=turn.run,
                fence=turn.fence,
                group_kinds=group_kinds(everything),
                namespaces=namespaces(everything),
                digest=self.work.record["digest"],
                is_over=self._is_over,
                absent=self.work.record.get("parent") == "absent" and not self.owned,
            )
        except (applyset.HigherFence, applyset.UnknownWriter) as error:
            # Redis was flushed or fell back: it does not remember who wrote last, so its lock kept nobody out. Whoever
            # that was lets go within the time of a lock. Then go on, above every fence the cluster has seen.
            # If instead a successor is at work, our lock is gone, and so is the right to write this wait down.
            shared.runs.raise_fence(error.fence)
            message = "Redis has forgotten the run that wrote last; it has certainly stopped when this wait is over"
            return Wait(turn.step, shared.settings.lock.ttl, message, {"outwaited": error.fence})
        self.owned, self.home = parent.listing, parent.uid
        return None

    def _is_over(self, fence: int) -> bool:
        """Has the execution of another run ended? Redis knows the fence of the last run that did."""
        if fence <= int(self.work.record.get("outwaited") or 0):
            return True
        return fence <= int(self.work.parts.runs.look(self.work.turn.app).state.get("fence") or 0)

    @property
    def _repeated(self) -> bool:
        """An execution of this stage has begun before and was killed."""
        return int(self.work.record.get("tries") or 1) > 1

    def _earlier(self) -> list[Done]:
        """What executions before this one wrote of this stage: it is not written again, and waited for all the same."""
        if not self._repeated and self.work.record.get("stage") != str(self.number):
            return []
        mine = {key for tier in self.stage.tiers for key in tier}
        kept = tally.load(self.work.parts, self.work.turn.run)
        return tally.done({key: entry for key, entry in kept.items() if key in mine})

    def _keep(self, batch: Sequence[Done]) -> None:
        tally.tell(batch, self.pen)
        self.work.lease.check()  # a successor tells these objects by its own results; the ledger is told all the same
        tally.keep(self.work.turn.run, batch, self.pen)

    def _prune(self, finished: set[ObjectId]) -> list[Done]:
        removals = {removal.id: removal for removal in self.plan.removals}
        ours = {entry.fingerprint.uid for entry in self.plan.known.values()} - {""}
        done: list[Done] = []
        for tier in self.stage.tiers:
            batch = [removals[key] for key in tier if key not in finished]
            where, pool = self.where, self.work.parts.pool
            done += remove_tier(
                where.cluster,
                self.apis,
                where.applyset,
                batch,
                pool,
                ours=ours,
                propagation=where.application.sync.prune_propagation,
                record=self._keep,
            )
        return done

    def _next(self, fields: dict[str, str | int | float]) -> Next:
        following = after(self.work.turn.step, len(self.plan.stages))
        return Next(
            following, {**fields, "pending": "", "looks": 0, "stage": "", "owned": self.owned, "home": self.home}
        )

    def _wait(self, message: str, fields: dict[str, str | int | float], looks: int) -> Outcome:
        steps, timeout = self.work.parts.settings.steps, self.where.application.sync.timeout
        waited = time.time() - self.begun
        if waited >= timeout:
            hint = f". {_WHAT_TO_DO}" if self.stage.part != "prune" else ""
            return failed(Timeout(f"{self.stage.title} is not ready after {timeout:.0f} s: {message}{hint}"))
        pause = min(health_pause(looks, steps.health_poll, steps.health_poll_max), max(timeout - waited, 0.05))
        kept: dict[str, str | int | float] = {"stage": self.number, "stage_began": self.begun, "looks": looks}
        kept |= {"owned": self.owned, "home": self.home}
        return Wait(self.work.turn.step, pause, f"{self.stage.title}: {message}", {**kept, **fields})

    def _unhealthy(self, bad: dict[ObjectId, Health]) -> Next:
        return failed(Unhealthy(f"{self.stage.title}: {_told(bad)}. {_WHAT_TO_DO}"))


_WHAT_TO_DO = (
    "Mend it and push, give it more time by spec.sync.timeout, or leave an object out of the wait by its annotation "
    "argocd.argoproj.io/ignore-healthcheck: 'true'"
)


class Timeout(Rejected):
    """A wave did not become ready in ``spec.sync.timeout``."""

    @property
    def reason(self) -> str:
        return "HealthCheckTimeout"


class Unhealthy(Rejected):
    """What was applied is broken, and says so itself."""

    @property
    def reason(self) -> str:
        return "HealthCheckFailed"


def _with_bundle(apis: ApiSet, manifests: Sequence[Manifest]) -> ApiSet:
    """What the cluster serves, and what it will serve once the bundle's CRDs are established."""
    served = {(r.group, r.version, r.kind) for r in apis.resources}
    coming = [
        r
        for r in bundle_kinds([RawManifest(m.body, m.origin) for m in manifests])
        if (r.group, r.version, r.kind) not in served
    ]
    return ApiSet((*apis.resources, *coming), apis.complete, apis.version)


def _pending(record: dict[str, str]) -> set[ObjectId]:
    return {ObjectId.from_key(key) for key in orjson.loads(record.get("pending") or "[]")}


def _keys(ids: Iterable[ObjectId]) -> str:
    return orjson.dumps(sorted(key.key for key in ids)).decode()


def _told(states: dict[ObjectId, Health]) -> str:
    return memory.joined([f"{key} is {s.status}: {s.message}" for key, s in sorted(states.items())], most=3)


def _going(there: Mapping[ObjectId, str]) -> str:
    return memory.joined([f"{key} {why}" for key, why in sorted(there.items())], most=3)


def _cure(done: Sequence[Done]) -> str:
    """A run whose objects failed is tried again in time: rights may be granted, webhooks come back."""
    return "time" if any(one.result.outcome == "failed" for one in done) else ""
