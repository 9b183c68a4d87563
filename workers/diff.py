"""Step 3: compare everything with the cluster by dry-run, and write down the plan. Writes nothing to the cluster.

But for one thing: a hold of this application that was made or lifted is noted on its parent here, because a run that
is held gets no further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from fleetbeat.clients import applyset
from fleetbeat.clients.orders import Orders
from fleetbeat.clients.runs import Fields
from fleetbeat.decisions.confirmation import confirmed, may_empty
from fleetbeat.decisions.hook_runs import due
from fleetbeat.decisions.hooks import runs_at_deletion
from fleetbeat.decisions.inventory import format_claims, group_kinds, namespaces
from fleetbeat.decisions.lifecycle import after, origin
from fleetbeat.decisions.promise import broken
from fleetbeat.engine.kinds import api_set_with_owned
from fleetbeat.engine.owners import owner_name
from fleetbeat.engine.plan import Plan, StagePlan, manifests_from_json
from fleetbeat.engine.planning import make_plan
from fleetbeat.engine.promising import left as not_written
from fleetbeat.engine.promising import promise
from fleetbeat.errors import PlanRefused, Refused
from fleetbeat.model import Manifest
from workers import disputes, fleet_orders, holds, memory, removal, waiting
from workers.departing import is_removal
from workers.parts import Parts
from workers.target import target
from workers.task import Next, Outcome, Work, start_over


def diff(work: Work) -> Outcome:
    if is_removal(work.record):
        return removal.plan(work)
    shared, record, digest = work.parts, work.record, work.record["digest"]
    rendered = shared.blobs.get(record["rendered"])
    if rendered is None:
        return start_over()
    where = target(shared, work.turn.app, run=work.turn.run, digest=digest)
    parent = applyset.read(where.cluster, shared.settings.namespace, work.turn.app)
    look = shared.runs.look(work.turn.app, where.cluster.name)
    state = look.state
    if parent and parent.pinned and not state.get("digest") and not record.get("pin"):
        # Redis has lost its data, and with it that a person has gone back to an earlier bundle.
        Orders(shared.store).pin(work.turn.app, parent.pinned, by="the cluster", reason="pinned before Redis lost it")
        return Next("report", {"superseded": "the pin that the cluster remembers"})
    if look.fleet[1] is None:
        fleet_orders.recall(shared, where.cluster)
    if not state.get("digest") and Orders(shared.store).vetoed(digest):
        # Chosen while Redis did not know of the veto: it had lost its data, and the cluster did not answer.
        return Next("report", {"superseded": "a veto"})
    manifests = manifests_from_json(rendered)
    known = memory.load_known(shared, state.get("inventory", "")) or {}
    home = parent.uid if parent else ""
    noted = {parent.hooks} if parent else set()
    if home and state.get("home") == home:
        noted.add(state.get("hooks", ""))
    hooks_due = due(trigger=origin(record), digest=digest, completed=noted, owed=state.get("hooks_owed", ""))
    if state.get("home", "") != home:
        # Left in another cluster, or in one that has been rebuilt: what is missing here was not deleted by anybody.
        known = {key: entry._replace(hash="") for key, entry in known.items()}
    owned = parent.group_kinds if parent else frozenset()
    left, held = holds.bypasses(work, where, parent, look, known)
    plan, _ = make_plan(
        where.cluster,
        api_set_with_owned(where.cluster, {(m.id.group, m.id.kind) for m in manifests}, owned | group_kinds(known)),
        where.application,
        manifests,
        applyset=where.applyset,
        owned_kinds=owned,
        owned_namespaces=parent.spaces if parent else (),
        known=known,
        pool=shared.requests.of(where.cluster.name),
        owner_name=owner_name(where.cluster, shared.settings.namespace, where.application.destination.namespace),
        home=shared.settings.namespace,
        confirmed=confirmed(
            bool(record.get("confirm_prune")),
            record.get("by", ""),
            where.application.annotations,
            since=memory.first_tried(record, state),
            now=work.turn.now() * 1000,
        ),
        may_empty=may_empty(record.get("confirm_prune", ""), digest),
        truces=disputes.truces(work, state, home, where.application),
        bypasses=left,
        run=work.turn.run,
        hooks_due=hooks_due,
    )
    if record.get("promise") and (why := _broken(shared, record, plan, manifests, work.turn.app)):
        plan_id, app = record["promise"], work.turn.app
        raise PlanRefused(f"plan {plan_id} is not carried out: {why}. Make a new one: fleetbeat plan {app}")
    # To be noted in the cluster when all has gone well: also of a bundle without hooks, so that the way back runs them.
    hooks: Fields = {"hooks": "due" if hooks_due and (plan.hooks or noted - {"", digest}) else "", "hooking": ""}
    claimed = parent.claims if parent else frozenset()
    plan = _with_parent(plan, parent.listing if parent else "", shared.settings.namespace, bool(hooks["hooks"]))
    stages = len(plan.stages)
    # A run that had to begin again with the pull starts at the first stage of its new plan with nothing behind it.
    nothing_done: Fields = {**waiting.NOTHING_YET, "written": "", "owned": "", "failed_in": ""}
    found: Fields = {
        "plan": shared.blobs.put(plan.to_json()),
        "stages": stages,
        "parent": "" if parent else "absent",
        "claim": orjson.dumps(sorted(key.key for key in plan.claims if key not in claimed)).decode(),
    }
    at_deletion: Fields = {
        "deletion_hooks": digest if any(runs_at_deletion(m.annotations) for m in manifests) else "",
    }
    if not parent and plan.stages:
        # There will be one, and a run to note them on it.
        held = {name: value for name, value in held.items() if name != "holds_noted"}
    pinned: Fields = {"pin_noted": parent.pinned if parent else "", "home": home}
    return Next(after("diff", stages), {**nothing_done, **found, **hooks, **at_deletion, **pinned, **held})


def _broken(shared: Parts, record: Mapping[str, str], plan: Plan, manifests: Sequence[Manifest], app: str) -> str:
    """What is not as it was when the plan was saved that this run is to carry out, "" when all is."""
    saved = Orders(shared.store).promised(record["promise"])
    if saved is None:
        return "it has expired, or never was"
    now = promise(plan, manifests, app=app, digest=record["digest"], spec=record["spec"])
    return broken(saved, now, not_written(plan))


def _with_parent(plan: Plan, listing: str, own: str, hooks: bool) -> Plan:
    """A plan that writes nothing still gets a stage when the parent has to say something else afterwards.

    That is where the parent is taken: what others have to know of this application (claims), whose hooks have gone
    through (``hooks``), and what is not there any more, must not wait for the next change of an object.
    """
    wanted = applyset.listing(group_kinds(plan.known), namespaces(plan.known), own, plan.claims)
    if len(format_claims(plan.claims)) > _MOST_CLAIMS:
        raise Refused(
            f"{len(plan.claims)} objects of the bundle belong to other applications, too many to note that on the "
            "application's ConfigMap. Take them out of one of the bundles"
        )
    as_it_is = wanted == (listing or applyset.listing(_NONE, _NONE, own)) and not hooks
    if plan.stages or plan.failed or not plan.complete or as_it_is:
        return plan
    return replace(plan, stages=(StagePlan(0, "objects", ()),))


_NONE: frozenset[str] = frozenset()
#: characters; the API server takes 256 KiB of annotations
_MOST_CLAIMS = 200_000
