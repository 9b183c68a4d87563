"""One stage of a plan as one execution sees it: taking the parent, writing, looking, cleaning up after hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import orjson

from fleetbeat.clients import applyset
from fleetbeat.clients.ledger import Pen
from fleetbeat.decisions import self_heal
from fleetbeat.decisions.deletion import stays_because
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.hooks import is_hook
from fleetbeat.decisions.inventory import HOOK_OF, group_kinds, namespaces
from fleetbeat.decisions.ledger import Place
from fleetbeat.decisions.lifecycle import after, health_pause
from fleetbeat.decisions.progress import Progress
from fleetbeat.decisions.pruning import keep_reason
from fleetbeat.engine.hooking import Hooks
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.kinds import api_set_with_owned, with_bundle
from fleetbeat.engine.owners import owner_name
from fleetbeat.engine.plan import Change, HookRun, Plan, StagePlan
from fleetbeat.engine.remove import remove_tier, still_there
from fleetbeat.engine.settle import judge, read
from fleetbeat.engine.weigh import Weigher
from fleetbeat.engine.write import Done, ensure_namespace, group_tiers, leave, write_stage
from fleetbeat.errors import NotYet, StoreUnavailable, Transient
from fleetbeat.model import Body, Manifest, ObjectId
from fleetbeat.model_results import WELL, Health
from workers import meeting, memory, removal, tally, waiting
from workers.departing import is_removal
from workers.hooks import after_failure, clean_up
from workers.target import Target
from workers.task import Next, Outcome, Wait, Work, failed


class Stage:
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
        self.apis = with_bundle(apis, manifests)
        self.judge = Judge(where.application, where.cluster, self.apis)
        owner = owner_name(where.cluster, work.parts.settings.namespace, where.application.destination.namespace)
        self.weigher = Weigher(where.cluster, where.application, where.applyset, owner, plan.truce, self._stays)
        self.hooks = plan.hooks_of(stage.phase or work.record.get("failed_in", ""))
        self.runner = Hooks(
            where.cluster,
            self.apis,
            run=work.turn.run,
            manifests=manifests,
            weigher=self.weigher,
            judge=self.judge,
        )
        self.home = work.record.get("home", "")  #: uid of the parent, which is another one in each cluster
        self.owned = work.record.get("owned", "")  #: what the parent lists since this run wrote it last
        self.drift_stays: Held | None = None  #: why, where the parent has said so since the plan was made

    def _stays(self, _key: ObjectId, live: Body) -> Held | None:
        """Has somebody asked on the live object itself, since the plan was made, that it is left alone?"""
        return self_heal.on_live(live, self.work.parts.runs.now())

    def write(self) -> Outcome:
        """Take the cluster's side of the lock, then write everything of the stage."""
        known_before = self.work.record.get("parent") != "absent"
        with self.pen.begin(self.where.cluster.name, self._places(), known_before=known_before):
            return self._write()

    def _places(self) -> Iterator[Place]:
        """Everything that may be written here, for the ledger: the stage's objects and the application's own record."""
        wanted = self._members
        if self.stage.part == "farewell":
            wanted += removal.kept(self.work)
        if self.number == 0 and self.plan.create_namespace:
            wanted.append(ObjectId("", "Namespace", "", self.plan.create_namespace))
            self.pen.explain(wanted[-1], "CreateNamespace=true")
        for key in wanted:
            resource = self.apis.find(key.group, key.kind)
            yield Place(key, resource.plural if resource else "")
        yield from applyset.places(self.work.parts.settings.namespace, self.work.turn.app)

    @property
    def _members(self) -> list[ObjectId]:
        return [key for tier in self.stage.tiers for key in tier]

    def _write(self) -> Outcome:
        work, where = self.work, self.where
        if self.stage.part == "farewell" and removal.is_over(work, where):
            return self._next({})  # an execution before this one was killed just then
        if waits := self._take():
            return waits
        if is_removal(work.record):
            removal.passed(work, self.plan, self.number)
        if self.stage.part == "unhook":
            if there := removal.unhook(work, where):
                return self._wait(f"{memory.joined(there)} to go", {}, int(work.record.get("looks") or 0) + 1)
            return self._next({})
        if self.number == 0:
            self._check_claims()
        if self.number == 0 and self.plan.create_namespace:
            ensure_namespace(where.cluster, self.plan.create_namespace)
        for change in self.plan.changes:
            if change.seen is not None:
                self.pen.know(change.id, change.seen.resource_version, change.before)
        done = self._earlier()
        finished = {one.result.id for one in done}
        if why := self.drift_stays:
            mine = (change for change in self.plan.changes if change.id in self.stage.ids - finished)
            self._keep(left := leave(mine, why, self.weigher, self.manifests))
            done, finished = done + left, finished | {one.result.id for one in left}
        if self.stage.part == "prune":
            done += self._prune(finished)
        elif self.stage.part == "release":
            done += removal.let_go(work, where, set(self._members), self._keep)
        elif self.stage.part == "farewell":
            done += removal.farewell(work, where, self._keep)
        else:
            turns: dict[ObjectId, Change | HookRun] = {change.id: change for change in self.plan.changes} | self.hooks
            tiers = group_tiers(self.stage.tiers, {key: turns[key] for key in turns if key not in finished})
            done += write_stage(
                where.cluster,
                self.apis,
                tiers,
                self.manifests,
                work.parts.requests.of(where.cluster.name),
                weigher=self.weigher,
                judge=self.judge,
                record=self._keep,
                run_hook=self.runner.start,
                repeated=self._repeated,
                exact=bool(work.record.get("promise")),
            )
        if any(one.result.outcome == "failed" for one in done):
            return Next("report", {"error": "ObjectsFailed"})
        if held := [one for one in done if one.not_yet]:
            at_work = {
                one.result.id for one in done if not (one.health is None or self._settled(one.result.id, one.health))
            }
            return self._wait(held[0].not_yet, {}, int(work.record.get("looks") or 0) + 1, at_work)
        pending = {one.result.id for one in done if one.health is None or not self._settled(one.result.id, one.health)}
        pending |= set(self.stage.unsettled)
        if self.stage.part == "prune":
            # Of what an execution before this one has deleted nobody knows any more whether it was gone at once.
            deleted = [one for one in done if one.result.outcome == "pruned" and one.result.audit_id]
            pending = {one.result.id for one in deleted if not one.gone}
        written: dict[str, str | int | float] = {"written": self.number}
        if not pending:
            return self._next(written)
        # A bad status in the answer to a write is from before that write: only the first look judges.
        waits_for = "go" if self.stage.part == "prune" else "become healthy"
        message = f"{memory.joined(sorted(pending))} to {waits_for}"
        return self._wait(message, {**written, "pending": waiting.keys(pending)}, 0, pending)

    def look(self, pending: set[ObjectId]) -> Outcome:
        """Has what was written become healthy, or what was deleted gone?"""
        where = self.where
        hooks = {key: one for key, one in self.hooks.items() if key in pending}
        live = read(where.cluster, self.apis, where.applyset, pending.difference(hooks))
        looks = int(self.work.record.get("looks") or 0) + 1
        if self.stage.part == "prune":
            there = still_there({removal.id: removal for removal in self.plan.removals}, live)
            if not there:
                return self._next({})
            seen = self._progress({key: (live.get(key), "") for key in there})
            return self._wait(waiting.going(there), {"pending": waiting.keys(there)}, looks, seen=seen)
        judged = judge(live, self.judge)
        tally.settle(self.work.parts, self.work.turn.run, judged, self.plan.known)
        states = {key: state if live[key] is not None else waiting.DELETED for key, (state, _) in judged.items()}
        made = read(where.cluster, self.apis, where.applyset, hooks, label=HOOK_OF)
        ran = {key: self.runner.health(one, made[key]) for key, one in hooks.items()}
        if ran:
            tally.settle_hooks(self.work.parts, self.work.turn.run, self.stage.phase, ran)
            states |= ran
        bad = {key: state for key, state in states.items() if state.status in ("Degraded", "Missing")}
        if bad:
            return self._unhealthy(bad)
        restless = {key: state for key, state in states.items() if not self._settled(key, state)}
        if not restless:
            return self._next({})
        seen = self._progress({key: ({**live, **made}.get(key), state.status) for key, state in restless.items()})
        return self._wait(waiting.told(restless), {"pending": waiting.keys(restless)}, looks, restless, seen)

    def _progress(self, live: Mapping[ObjectId, tuple[Body | None, str]]) -> Progress | None:
        limit = self.where.application.sync.no_progress_timeout
        return waiting.look(self.work.record, limit, live, self.work.turn.now())

    def clean_up(self) -> Outcome:
        """A phase is over: delete those of its hooks that ask for it."""
        failed_in = self.work.record.get("failed_in", "")
        phase = self.stage.phase or failed_in
        run, late = self.work.turn.run, self.work.turn.now() - self.begun >= self.where.application.sync.timeout
        with self.pen.begin(self.where.cluster.name, self._places(), known_before=True):
            try:
                if waits := self._take():
                    return waits
                made = tally.hooks(self.work.parts, run)
                mine = [one for key, one in self.hooks.items() if key in self.stage.ids and (phase, key) in made]
                for one in mine:
                    self.pen.explain(one.id, f"{phase} is over")
                said = clean_up(self.runner, reversed(mine), succeeded=failed_in != phase, last_try=late)
            except StoreUnavailable:
                raise
            except Transient as error:
                if late:
                    raise
                return self._wait(str(error), {}, int(self.work.record.get("looks") or 0) + 1)
        self.work.lease.check()
        tally.note_hooks(self.work.parts, run, phase, said)
        return self._next({})

    def after_failure(self, outcome: Next) -> Next:
        made = tally.hooks(self.work.parts, self.work.turn.run) if self.plan.failing else {}
        return after_failure(self.plan, self.stage, self.number, outcome, made, self._afresh)

    @property
    def _afresh(self) -> dict[str, str | int | float]:
        """What the next stage begins with."""
        return {**waiting.NOTHING_YET, "owned": self.owned, "home": self.home}

    def _settled(self, key: ObjectId, state: Health) -> bool:
        """A hook that is suspended has not done its work."""
        return state.status == "Healthy" or (state.status in WELL and key not in self.hooks)

    def _meet(self, parent: applyset.Parent) -> None:
        """What has been said on the parent since the plan was made; within a stage only what may still be kept."""
        if self.work.record.get("stage") != str(self.number):
            asked = self.work, self.where.application, self.plan, self.number
            meeting.before_stage(*asked, parent, repeated=self._repeated)
        self.drift_stays = meeting.drift_stays(self.work, parent)

    def _take(self) -> Next | Wait | None:
        """Grow the parent to everything this plan may touch, with our fence: from here on older writers get a 409."""
        turn, shared = self.work.turn, self.work.parts
        wanted = [m.id for m in self.manifests if not is_hook(m.annotations)] + [r.id for r in self.plan.removals]
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
                hook_kinds=group_kinds(hook.id for hook in self.plan.hooks),
                hook_namespaces=namespaces(hook.id for hook in self.plan.hooks),
                digest=self.work.record["digest"],
                pinned=self.work.record.get("pin", ""),
                claims=self.plan.claims,
                is_over=self._is_over,
                absent=self.work.record.get("parent") == "absent" and not self.owned,
                meet=self._meet,
            )
        except meeting.Instead as found:
            return found.outcome
        except (applyset.HigherFence, applyset.UnknownWriter) as error:
            # Redis was flushed or fell back: it does not remember who wrote last, so its lock kept nobody out. Whoever
            # that was lets go within the time of a lock. Then go on, above every fence the cluster has seen.
            # If instead a successor is at work, our lock is gone, and so is the right to write this wait down.
            shared.runs.raise_fence(error.fence)
            message = "Redis has forgotten the run that wrote last; it has certainly stopped when this wait is over"
            return Wait(turn.step, shared.settings.lock.ttl, message, {"outwaited": error.fence})
        self.owned, self.home = parent.listing, parent.uid
        return None

    def _check_claims(self) -> None:
        """Objects claimed for the first time: had their owner looked for claims before, and deleted one since?

        Raises NotYet then; the next try creates it. An owner that looks from now on finds the claim.
        """
        for key in sorted(ObjectId.from_key(key) for key in orjson.loads(self.work.record.get("claim") or "[]")):
            resource = self.apis.find(key.group, key.kind)
            live = self.where.cluster.get(resource, key.namespace, key.name) if resource else None
            if live is None or live["metadata"].get("deletionTimestamp"):
                raise NotYet(f"{key} belonged to another application, which has just deleted it; it is created next")

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
        entries = [entry for key, entry in kept.items() if key in mine and key not in self.hooks]
        if self.hooks:
            made = tally.hooks(self.work.parts, self.work.turn.run)
            entries += [(made[self.stage.phase, key], None) for key in mine if (self.stage.phase, key) in made]
        return tally.done(entries)

    def _keep(self, batch: Sequence[Done]) -> None:
        tally.tell(batch, self.pen)
        self.work.lease.check()  # a successor tells these objects by its own results; the ledger is told all the same
        tally.keep(self.work.parts, self.work.turn.run, batch, self.pen)

    def _prune(self, finished: set[ObjectId]) -> list[Done]:
        removals = {removal.id: removal for removal in self.plan.removals}
        ours = {entry.fingerprint.uid for entry in self.plan.known.values()} - {""}
        ours |= {removal.seen.uid for removal in removals.values()}
        heirs = applyset.claims(self.where.cluster, self.work.parts.settings.namespace, self.work.turn.app)
        sync = self.where.application.sync
        done: list[Done] = []
        for tier in self.stage.tiers:
            batch = [removals[key] for key in tier if key not in finished]
            where, pool = self.where, self.work.parts.requests.of(self.where.cluster.name)
            done += remove_tier(
                where.cluster,
                self.apis,
                where.applyset,
                batch,
                pool,
                ours=ours,
                hooks_in={m.id.namespace for m in self.manifests if is_hook(m.annotations)},
                heirs=heirs,
                propagation=sync.prune_propagation,
                record=self._keep,
                keep=partial(stays_because, usual=sync.delete_objects)
                if is_removal(self.work.record)
                else partial(keep_reason, usual=sync.prune_objects),
                exact=bool(self.work.record.get("promise")),
            )
        return done

    def _next(self, fields: dict[str, str | int | float]) -> Next:
        count = len(self.plan.stages)
        following = after(self.work.turn.step, count if self.number < count else count + len(self.plan.failing))
        return Next(following, {**fields, **self._afresh, "hooking": ""})

    def _wait(
        self,
        message: str,
        fields: dict[str, str | int | float],
        looks: int,
        at_work: Iterable[ObjectId] = (),
        seen: Progress | None = None,
    ) -> Outcome:
        """``seen``: what has got on so far, where objects were looked at and their progress is limited."""
        steps, timeout = self.work.parts.settings.steps, self.where.application.sync.timeout
        now, applied = self.work.turn.now(), self.stage.part in ("prerequisites", "objects")
        left = self.begun + timeout - now
        if left <= 0 and looks:  # one look there is, however long the writing took: it knows what is not well, and why
            told = f"{self.stage.title} is not ready after {timeout:.0f} s: {message}"
            return failed(waiting.Timeout(waiting.advised(told) if applied else told))
        if seen:
            if seen.left(now) <= 0:
                told = f"{self.stage.title} has made no progress for {seen.limit:g} s: {message}"
                return failed(waiting.NoProgress(waiting.advised(told, "noProgressTimeout") if applied else told))
            left = min(left, seen.left(now))
        pause = min(health_pause(looks, steps.health_poll, steps.health_poll_max), max(left, 0.05))
        kept: dict[str, str | int | float] = {"stage": self.number, "stage_began": self.begun, "looks": looks}
        # A newer bundle takes over while a wave is waited for, never while a hook is at work.
        running = any(key in self.hooks for key in at_work)
        kept |= {"owned": self.owned, "home": self.home, "hooking": "1" if running else ""}
        kept["progress"] = seen.to_json() if seen else ""
        return Wait(self.work.turn.step, pause, f"{self.stage.title}: {message}", {**kept, **fields})

    def _unhealthy(self, bad: dict[ObjectId, Health]) -> Next:
        return failed(waiting.Unhealthy(waiting.advised(f"{self.stage.title}: {waiting.told(bad)}")))
