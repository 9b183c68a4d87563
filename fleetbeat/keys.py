"""Every Redis key of Fleetbeat: type, who writes it, when it goes. All of it is rebuildable (docs/architecture.md).

Celery's own keys (queues, ``unacked*``, ``_kombu*``, events) get the same prefix by kombu's ``global_keyprefix``.
"""

from __future__ import annotations

PREFIX = "fleetbeat:"

#: zset app → ms since epoch (server clock) when beat shall ring it. Writers: beat, workers, ringers. Kept: members
#: leave with the application.
DUE = PREFIX + "due"
#: hash app → "period:offset" in ms: a slot is every t with t ≡ offset (mod period). Writer: beat. Kept like DUE.
PERIODS = PREFIX + "periods"
#: list, at most one element: pushed when a member of DUE became due earlier than beat knows; wakes its BLPOP. TTL 60 s.
BELL = PREFIX + "bell"
#: hash "Application/<name>" | "Cluster/<name>" → sealed JSON of the catalog document. Writer: the catalog publisher.
CATALOG = PREFIX + "catalog"
#: hash of applications with deletionPolicy Delete that have left the catalog: app → sealed JSON of its document and its
#: cluster's, "<app>/since" → ms, "<app>/held" → why nothing is deleted yet, "<app>/go", "<app>/confirmed",
#: "<app>/skip-hooks" → "1" when a person has said so, "<app>/PreDelete", "<app>/PostDelete" → "1" when its hooks have
#: run. Writer: beat, workers, the command line. A member leaves with its objects, or when it is back in the catalog.
DEPARTING = PREFIX + "departing"
#: hash: at (ms, when the catalog was last published or found broken), error (what was wrong with it), digest (keyed, of
#: what is in force), entries and published (how many, since when), periods (digest of PERIODS). Writer: beat. Kept.
CATALOG_STATUS = PREFIX + "catalog:status"
#: integer, source of every fence. Kept; after a flush it is raised above the cluster's own record (workers/apply.py).
FENCE = PREFIX + "fence"
#: hash digest → JSON {by, reason, at}: bundles that people keep out of the fleet. Writer: ringers. Kept until lifted.
VETOES = PREFIX + "vetoes"
#: hash id → JSON of decisions/holds.Hold: what people keep Fleetbeat from writing, for a time. Writer: ringers, and a
#: worker that finds an application's holds in the cluster after Redis lost them. Kept until a day after their end.
HOLDS = PREFIX + "holds"
#: hash: mark (another one with each change of VETOES, or of HOLDS of more than one application), "cluster/<name>" → the
#: mark that the note in that cluster is of. Writer: ringers, workers. Kept; a cluster without a field is asked first.
FLEET_ORDERS = PREFIX + "fleet-orders"
#: zset digest or id of a hold → ms when it was lifted: a note that lags does not bring it back. Writer: ringers. Kept
#: for 30 days, as long as a hold may last.
LIFTED = PREFIX + "lifted"
#: zset beat id → ms of its last loop; `status` and `doctor` show the age. Members older than a day are dropped by beat.
BEATS = PREFIX + "beats"
#: stream of what happened, oldest first: fields app, event (JSON, decisions/events.py). Writer: workers, in the same
#: step as the fact. Cut to about ``settings.events.kept``.
EVENTS = PREFIX + "events"


def run(app: str) -> str:
    """hash: the application's active run (clients/runs.py lists the fields). Writer: workers. TTL 7 days."""
    return f"{PREFIX}run:{app}"


def lock(app: str) -> str:
    """string = token of the execution that may write for this application. TTL ``settings.lock.ttl``."""
    return f"{PREFIX}lock:{app}"


def state(app: str) -> str:
    """hash: what is known of the application between runs (clients/runs.py). Writer: workers. Goes a week after the
    application left the catalog."""
    return f"{PREFIX}state:{app}"


def request(app: str) -> str:
    """hash {id, by, reason, at, confirm_prune, override_windows, promise}: a sync asked for and not yet begun.

    ``confirm_prune``: "1", or the digest of the bundle that may take every object away.
    ``override_windows``: "1", or until when it is good and a MAC (decisions/overrides.py). Writer: ringers. TTL 7 days.
    """
    return f"{PREFIX}request:{app}"


def orders(app: str) -> str:
    """hash: what people have ordered for the application: pin (digest), pin_by, pin_reason, pin_at (ms); holds
    (a mark of those of this application alone). Writer: ringers, and a worker that finds them in the cluster after
    Redis lost them. Kept until they are lifted."""
    return f"{PREFIX}orders:{app}"


def noting(cluster: str) -> str:
    """string: token of who notes the orders for the fleet in this cluster, or has failed to. TTL a minute."""
    return f"{PREFIX}noting:{cluster}"


def promise(plan_id: str) -> str:
    """string: JSON of a saved plan: objects, what is to be done to them, their state. Writer: ringers. TTL a day."""
    return f"{PREFIX}promise:{plan_id}"


def waiters(app: str) -> str:
    """set of applications that wait for this one (spec.dependsOn) and are rung when its run ends. Writer: workers. TTL
    7 days."""
    return f"{PREFIX}waiters:{app}"


def results(run_id: str) -> str:
    """hash ObjectId.key → JSON: ObjectResult, and sealed what is known of the object. Writer: workers. TTL 7 days."""
    return f"{PREFIX}results:{run_id}"


def history(app: str) -> str:
    """list, newest first, of JSON run summaries, cut to ``settings.history``. Writer: workers. Goes like the state."""
    return f"{PREFIX}history:{app}"


def drift(app: str) -> str:
    """string: JSON of decisions/drift.DriftLedger: which fields were found otherwise, by whom, how often healed.

    Writer: workers, in the step that ends a run. TTL ``settings.drift.days`` since then, none while something stands;
    a week when the application has been deleted.
    """
    return f"{PREFIX}drift:{app}"


def ledger(app: str) -> str:
    """list, oldest first, of what was written to clusters: entries chained by a keyed MAC (decisions/ledger.py).
    Cut to ``settings.ledger.writes``. Writer: workers. TTL ``settings.ledger.days`` since the last write."""
    return f"{PREFIX}ledger:{app}"


def ledger_head(app: str) -> str:
    """hash: number and mac of the newest entry, trimmed and trimmed_mac of the newest one that was cut, writes (how
    many are kept), open:<fence> → what an execution under way may write. Writer: workers. TTL as of the ledger."""
    return f"{PREFIX}ledger:{app}:head"


def blob(digest: str) -> str:
    """string: sealed, compressed content whose keyed digest this is. TTL ``settings.blobs.ttl`` since its use."""
    return f"{PREFIX}blob:{digest}"


def watching(cluster: str) -> str:
    """string = "host:pid token" of the process that watches this cluster. Writer: `fleetbeat watch`. TTL
    ``settings.watch.lease``."""
    return f"{PREFIX}watching:{cluster}"


def resolved(source_key: str) -> str:
    """string: what a tag or range meant moments ago, shared by all applications of the source: "digest tag ms" (asked
    then by the server's clock), or "throttled message" while the registry wants to be left alone. TTL seconds.
    """
    return f"{PREFIX}resolved:{source_key}"


def pulled(source_key: str) -> str:
    """string: JSON [blob digest of the layer, source, revision, created] of a bundle once pulled. TTL as of blobs."""
    return f"{PREFIX}pulled:{source_key}"


def asking(source_key: str) -> str:
    """string: token of who asks a registry for one of the two above; the others wait for its answer. TTL seconds."""
    return f"{PREFIX}asking:{source_key}"


def observed(cluster: str, group_kind: str, namespace: str) -> str:
    """hash: the last sweep of one kind (clients/observe.py): "@" → ms it began, ApplySet id → JSON of fingerprints.

    Writer: whoever sweeps. TTL 1 h. ``…:sweeping`` beside it: string, token of who sweeps now, TTL 10 s.
    """
    return f"{PREFIX}observed:{cluster}:{group_kind}:{namespace}"
