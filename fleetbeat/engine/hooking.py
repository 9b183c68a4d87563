"""Running hooks: trying them out before the first write, making their objects, judging them, deleting them.

Everything here is safe to repeat: an object says which run and phase made it, so an execution that follows one that was
killed finds what that one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from fleetbeat.decisions import hook_runs, hooks
from fleetbeat.decisions.hooks import Hook
from fleetbeat.decisions.inventory import HOOK_OF
from fleetbeat.decisions.options import read as options
from fleetbeat.decisions.ownership import Foreign
from fleetbeat.decisions.treatment import PRECIOUS
from fleetbeat.decisions.waves import Stage
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.plan import HookRun
from fleetbeat.engine.weigh import Weigher, try_creating
from fleetbeat.engine.write import TRIES, Done
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Shared, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, Body, Manifest, ObjectId, Propagation
from fleetbeat.model_results import Health, ObjectResult, Outcome
from fleetbeat.ports import Absent, ClusterPort, Expect, Seen, Written

GONE = "deleted externally: nobody can tell any more whether it has done its work"


def planned(stages: Iterable[Stage], manifests: Sequence[Manifest], run: str) -> Iterator[HookRun]:
    """The hooks of these stages, in their order. ``run`` "" = only looking: names to be generated stay ``prefix*``."""
    positions = {manifest.id: index for index, manifest in enumerate(manifests)}
    for stage in stages:
        for key in stage.ids:
            index = positions[key]
            manifest = manifests[index]
            if not hooks.is_hook(manifest.annotations):
                continue
            if run and hook_runs.is_generated(manifest):
                prefix = manifest.body["metadata"]["generateName"]
                key = key._replace(name=hook_runs.generated(prefix, run, stage.phase, index))
            yield HookRun(key, index, stage.phase, stage.wave)


def cleaned_up(runs: Iterable[HookRun], manifests: Sequence[Manifest], *, succeeded: bool) -> list[ObjectId]:
    """Those whose objects go when their phase is over and has, or has not, gone well."""
    found = []
    for one in runs:
        manifest = manifests[one.index]
        hook = _hook(manifest)
        if hook_runs.goes_because(hook, succeeded=succeeded, short_lived=hook_runs.is_short_lived(manifest)):
            found.append(one.id)
    return found


class Hooks:
    """The hooks of one run of one application on one cluster. Thread-safe."""

    def __init__(
        self,
        cluster: ClusterPort,
        apis: ApiSet,
        *,
        run: str,
        manifests: Sequence[Manifest],
        weigher: Weigher,
        judge: Judge,
    ) -> None:
        self._cluster = cluster
        self._apis = apis
        self._run = run
        self._manifests = manifests
        self._weigher = weigher
        self._judge = judge

    def try_out(self, one: HookRun, exempt: Callable[[Manifest], bool]) -> ObjectResult | None:
        """Would the API server accept it? A failed result if not. Nothing is written."""
        manifest = self._manifests[one.index]
        if exempt(manifest):
            return None
        body = self._sent(one, manifest)
        name = body["metadata"]["name"]  # as it would be generated
        try:
            try_creating(self._cluster, self._resource(one.id, manifest), one.id._replace(name=name), body)
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            refused = ObjectResult.failure(one.id, error, one.wave)
            return replace(refused, reason=refused.reason.replace(name, one.id.name), phase=one.phase)
        return None

    def start(self, one: HookRun) -> Done:
        """Make the object. ``not_yet`` while one that was there before is still going away."""
        try:
            return self._start(one, self._manifests[one.index])
        except NotYet as error:
            return Done(self._result(one, "skipped", str(error)), not_yet=str(error))
        except (Rejected, Refused, Unauthorized) as error:
            return Done(replace(ObjectResult.failure(one.id, error, one.wave), phase=one.phase))

    def health(self, one: HookRun, live: Body | None) -> Health:
        """Healthy once it has done its work, Missing when it vanished before that was seen."""
        if live is None or self._standing(one, live) != "started":
            return Health("Missing", GONE)
        metadata = live["metadata"]
        deleting = metadata.get("deletionTimestamp")
        # That Pods run on is no end of a hook, whatever they say; one that is finished may be on its way out.
        marks = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != _RUNS_ON}
        kept = {k: v for k, v in metadata.items() if k != "deletionTimestamp"}
        state = self._judge.health({**live, "metadata": {**kept, "annotations": marks}})
        if deleting and state.status not in ("Healthy", "Degraded"):
            return Health("Progressing", "being deleted")
        return state

    def clean_up(self, one: HookRun, *, succeeded: bool) -> str:
        """Delete the object as its manifest asks for at the end of its phase; in words what was done, "" = nothing.

        Raises the cluster's errors.
        """
        manifest = self._manifests[one.index]
        short = hook_runs.is_short_lived(manifest)
        why = hook_runs.goes_because(_hook(manifest), succeeded=succeeded, short_lived=short)
        resource = self._apis.find(one.id.group, one.id.kind, manifest.version)
        if not why or resource is None:
            return ""
        for _ in range(TRIES):
            live = self._cluster.get(resource, one.id.namespace, one.id.name)
            if live is None or self._standing(one, live) != "started":
                return f"deleted ({why})"
            if not succeeded and self.health(one, live).status in ("Progressing", "Suspended"):
                return f"still runs, so {why} does not delete it"
            try:
                self._cluster.delete(
                    resource, one.id.namespace, one.id.name, seen=Seen.of(live), propagation=_propagation(one.id)
                )
            except Conflict:
                continue
            return f"deleted ({why})"
        return f"not deleted ({why}): it was changed at each of {TRIES} tries"

    def _start(self, one: HookRun, manifest: Manifest) -> Done:
        key, resource, body = one.id, self._resource(one.id, manifest), self._sent(one, manifest)
        replaces = hook_runs.replaces(_hook(manifest), key)
        if replaces and hook_runs.is_generated(manifest):
            self._delete_copies(resource, one, manifest)
        expect: Expect = Absent()
        for _ in range(TRIES):
            try:
                written = self._apply(key, resource, body, expect, replaces)
            except Conflict:
                live = self._cluster.get(resource, key.namespace, key.name)
                if live is None:
                    expect = Absent()
                    continue
                found = self._standing(one, live)
                if found == "started":
                    return self._done(one, "created", live)
                expect = self._before(one, resource, live, found, replaces)
                continue
            outcome: Outcome = "created" if written.created else "configured"
            return self._done(one, outcome, written.body, written.audit_id, written.warnings)
        raise Refused(f"{key} was changed by somebody else at each of {TRIES} tries; it is tried again later")

    def _apply(self, key: ObjectId, resource: ApiResource, body: Body, expect: Expect, replaces: bool) -> Written:
        try:
            return self._cluster.apply(resource, body, expect=expect, force=True)
        except Rejected as error:
            if isinstance(expect, Absent) or replaces or key.group_kind in PRECIOUS:
                raise
            raise Rejected(
                f"{error}. The object of an earlier run is there; with the delete policy BeforeHookCreation it would "
                "be deleted first"
            ) from None

    def _before(
        self, one: HookRun, resource: ApiResource, live: Body, found: hook_runs.Standing, replaces: bool
    ) -> Expect:
        """Make way for the object where another one has its name. Returns what the write is to find."""
        key = one.id
        if isinstance(found, Foreign):
            try:
                self._weigher.adoptable(key, found)
            except Shared as error:  # hooks claim nothing, so nothing is handed over to them
                raise Refused(
                    f"{key} belongs to application {error.application}; it is not touched. Give the hook another name"
                ) from None
        elif found == "free":  # each of the policies deletes sooner or later
            raise Refused(
                f"{key} is there, and no hook of this application made it, so it is neither changed nor deleted to "
                "make way for one; delete it or give the hook another name"
            )
        if not replaces and not live["metadata"].get("deletionTimestamp"):
            return Seen.of(live)
        self._delete(resource, key, live)
        return Absent()

    def _delete(self, resource: ApiResource, key: ObjectId, live: Body) -> None:
        """Raises NotYet until the object has gone: what it runs has to end first."""
        if not live["metadata"].get("deletionTimestamp"):
            self._cluster.delete(resource, key.namespace, key.name, seen=Seen.of(live), propagation=_propagation(key))
        if self._cluster.get(resource, key.namespace, key.name) is not None:
            raise NotYet(f"{key} of an earlier run is being deleted; it is created anew when it is gone")

    def _delete_copies(self, resource: ApiResource, one: HookRun, manifest: Manifest) -> None:
        prefix, applyset = manifest.body["metadata"]["generateName"], self._weigher.applyset
        selector = f"{HOOK_OF}={applyset}"
        listed = self._cluster.list(resource, selector=selector, namespace=one.id.namespace, metadata_only=True)
        going: NotYet | None = None
        for live in listed:
            if hook_runs.is_earlier_copy(live, prefix, applyset=applyset, run=self._run):
                key = one.id._replace(name=live["metadata"]["name"])
                try:
                    self._delete(resource, key, live)
                except Conflict:
                    going = NotYet(f"{key} of an earlier run changed as it was to be deleted")
                except NotYet as error:
                    going = error
        if going is not None:
            raise going

    def _resource(self, key: ObjectId, manifest: Manifest) -> ApiResource:
        resource = self._apis.find(key.group, key.kind, manifest.version)
        if resource is None:
            raise NotYet(f"{key}: the cluster does not serve {manifest.api_version} {key.kind} yet")
        return resource

    def _sent(self, one: HookRun, manifest: Manifest) -> Body:
        name, applyset = one.id.name, self._weigher.applyset
        if hook_runs.is_generated(manifest) and not self._run:  # only looking
            name = hook_runs.generated(manifest.body["metadata"]["generateName"], self._run, one.phase, one.index)
        return hook_runs.sent(manifest, applyset=applyset, run=self._run, phase=one.phase, name=name)

    def _standing(self, one: HookRun, live: Body) -> hook_runs.Standing:
        return hook_runs.standing(live, applyset=self._weigher.applyset, run=self._run, phase=one.phase)

    def _done(
        self, one: HookRun, outcome: Outcome, live: Body, audit_id: str = "", warnings: Sequence[str] = ()
    ) -> Done:
        state = self.health(one, live)
        result = ObjectResult(
            one.id, outcome, "; ".join(warnings), one.wave, state.status, audit_id=audit_id, phase=one.phase
        )
        return Done(result, None, state)

    def _result(self, one: HookRun, outcome: Outcome, reason: str) -> ObjectResult:
        return ObjectResult(one.id, outcome, reason, one.wave, phase=one.phase)


#: Argo CD's key for Pods that run on; it does not count for hooks, there and here.
_RUNS_ON = "argocd.argoproj.io/ignore-restart-policy"


def _hook(manifest: Manifest) -> Hook:
    hook = options(manifest).order.hook
    if hook is None:
        raise ValueError(f"{manifest.id} is no hook")
    return hook


def _propagation(key: ObjectId) -> Propagation:
    """Core objects have nothing below them. A Job is gone when its Pods are: the next copy must not run beside them."""
    return "Foreground" if key.group else "Background"
