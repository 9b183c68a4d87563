"""``spec.sync`` of an application: how often, how long, what is put back and pruned, Argo CD's options."""

from __future__ import annotations

from fleetbeat.catalog_fields import Fields, in_words, kind_of, shown
from fleetbeat.decisions.problems import did_you_mean
from fleetbeat.model import Permission, Propagation, Retry, SyncPolicy

SECOND, HOUR = 1.0, 3600.0

_ARGO_CD_SYNC = {
    "automated": "spec.sync.selfHeal and spec.sync.prune",
    "syncOptions": "spec.sync.options",
    "conflicts": "spec.conflicts",
    "ignoreDifferences": "spec.ignoreDifferences",
    "managedNamespaceMetadata": "no field: a Namespace with labels and annotations is an object of the bundle",
}
_PROPAGATION: dict[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
_PERMISSION: dict[str, Permission] = {"true": "true", "false": "false", "confirm": "confirm"}
#: Argo CD's options of an application and the values they may have here. From the sixth last on they only say what is
#: so anyway; why another value cannot be is in ``_CANNOT_BE``.
_OPTIONS = {
    "CreateNamespace": ("true", "false"),
    "Prune": tuple(_PERMISSION),
    "Delete": tuple(_PERMISSION),
    "Replace": ("true", "false"),
    "Force": ("true", "false"),
    "PrunePropagationPolicy": tuple(_PROPAGATION),
    "FailOnSharedResource": ("true", "false"),
    "ClientSideApplyMigration": ("true", "false"),
    "SkipDryRunOnMissingResource": ("true", "false"),
    "ApplyOutOfSyncOnly": ("true",),
    "PruneLast": ("true",),
    "ServerSideApply": ("true",),
    "Validate": ("true",),
    "RespectIgnoreDifferences": ("true",),
}
_CANNOT_BE = {
    "ApplyOutOfSyncOnly=false": "what does not differ is never written",
    "PruneLast=false": "pruning is the last stage of every sync",
    "ServerSideApply=false": "everything is applied server-side",
    "Validate=false": "with server-side apply the API server checks every field. Mend the manifest it refuses",
    "RespectIgnoreDifferences=false": "ignored differences stay as they are when writing too",
}


def sync_policy(fields: Fields) -> SyncPolicy:
    """Every mistake becomes a problem of ``fields``; sync windows are read elsewhere (catalog_windows.py)."""
    usual = SyncPolicy()
    options = _options(fields)
    policy = SyncPolicy(
        interval=fields.seconds("interval", usual.interval, SECOND, 24 * HOUR),
        self_heal=fields.flag("selfHeal", usual.self_heal),
        prune=fields.flag("prune", usual.prune),
        allow_empty=fields.flag("allowEmpty", usual.allow_empty),
        timeout=fields.seconds("timeout", usual.timeout, SECOND, 24 * HOUR),
        no_progress_timeout=fields.seconds("noProgressTimeout", usual.no_progress_timeout, SECOND, 24 * HOUR),
        create_namespace=options.get("CreateNamespace") == "true",
        replace=options.get("Replace") == "true",
        force=options.get("Force") == "true",
        prune_objects=_PERMISSION[options.get("Prune", "true")],
        delete_objects=_PERMISSION[options.get("Delete", "true")],
        migrate=options.get("ClientSideApplyMigration") != "false",
        fail_on_shared=options.get("FailOnSharedResource") == "true",
        prune_propagation=_PROPAGATION.get(options.get("PrunePropagationPolicy", ""), usual.prune_propagation),
        retry=_retry(fields.section("retry")),
    )
    if policy.no_progress_timeout > policy.timeout:
        fields.problem(
            "noProgressTimeout",
            f"must not be longer than timeout ({in_words(policy.timeout)}), which ends the wave before it",
        )
    fields.close(elsewhere=_ARGO_CD_SYNC)
    return policy


def _retry(fields: Fields) -> Retry:
    # The bounds keep duration × factor^limit far below the largest float.
    usual = Retry()
    limit = int(fields.number("limit", usual.limit, 0, 100, whole=True))
    backoff = fields.section("backoff")
    longest = backoff.seconds("maxDuration", usual.max_duration, 0.1, 24 * HOUR)
    retry = Retry(
        limit=limit,
        duration=backoff.seconds("duration", min(usual.duration, longest), 0.1, 24 * HOUR),
        factor=float(backoff.number("factor", usual.factor, 1, 100)),
        max_duration=longest,
    )
    if retry.duration > longest:
        backoff.problem("duration", "must not be longer than maxDuration")
    backoff.close()
    fields.close()
    return retry


def _options(fields: Fields) -> dict[str, str]:
    """Argo CD's sync options by name; matched exactly and with case, as there."""
    found: dict[str, str] = {}
    for number, option in enumerate(fields.items("options")):
        at = f"options[{number}]"
        if not isinstance(option, str):
            fields.problem(at, f"must be text such as CreateNamespace=true, not {kind_of(option)}")
            continue
        name, _, value = option.partition("=")
        if option in _CANNOT_BE:
            fields.problem(at, f"{option} cannot be: {_CANNOT_BE[option]}. Remove the line")
        elif name not in _OPTIONS:
            near = did_you_mean(name, _OPTIONS) or f" Known here: {', '.join(_OPTIONS)}"
            fields.problem(at, f"unknown option {shown(name)}.{near}")
        elif value not in _OPTIONS[name]:
            fields.problem(at, f"must be {' or '.join(f'{name}={v}' for v in _OPTIONS[name])}, not {shown(option)}")
        elif found.setdefault(name, value) != value:
            fields.problem(at, "says the opposite of an option before it")
    return found
