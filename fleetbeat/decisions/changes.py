"""What differs between two states of one object, and whether an object moved since it was last looked at.

The two states come from the same API server at the same version: the live object, and the answer to a dry-run apply.
Defaults, canonical quantities and dropped nulls are therefore the same on both sides, and everything that still
differs is a change (field cases a1, a2, a9). Nothing here knows a schema.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from fleetbeat.decisions.masking import masked
from fleetbeat.decisions.spoken import place
from fleetbeat.model import Body

#: Where in an object: map keys as they are, list elements as "[name=web]" or "[0]".
Path = tuple[str, ...]

#: Written by the API server at every write, or the identity of one incarnation: never the difference looked for.
_SERVER_METADATA = frozenset({"managedFields", "resourceVersion", "generation", "uid", "selfLink", "creationTimestamp"})
_ABSENT = object()


def normalise(body: Body) -> Body:
    """A copy without what the server owns: some metadata, ``status``, and the rules of an aggregated ClusterRole.

    ``status`` goes whether or not it is a subresource: where it is not, an operator writes it (field case b9). The
    controller manager fills the rules of a ClusterRole that has an ``aggregationRule`` (field case a6).
    """
    plain = {key: value for key, value in body.items() if key != "status"}
    if isinstance(meta := body.get("metadata"), dict):
        plain["metadata"] = {key: value for key, value in meta.items() if key not in _SERVER_METADATA}
    group = str(body.get("apiVersion", "")).rpartition("/")[0]
    if (group, body.get("kind")) == ("rbac.authorization.k8s.io", "ClusterRole") and body.get("aggregationRule"):
        plain.pop("rules", None)
    return plain


def changed_paths(before: Body, after: Body) -> tuple[Path, ...]:
    """The outermost places where the normalised objects differ, in the order of their keys."""
    return tuple(_walk(normalise(before), normalise(after), ()))


def same(before: Body, after: Body) -> bool:
    """Whether the normalised objects are equal."""
    return next(_walk(normalise(before), normalise(after), ()), None) is None


def format_path(path: Path) -> str:
    """``spec.containers[name=web].image``; keys with dots in quotes: ``metadata.labels["a.example/b"]``."""
    text = ""
    for part in path:
        if part.startswith("["):
            text += part
        elif part.replace("-", "").replace("_", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return place(text)


def _walk(before: Any, after: Any, path: Path) -> Iterator[Path]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys(), key=str):
            yield from _walk(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _walk_lists(before, after, path)
    # True == 1 in Python, but not in JSON.
    elif type(before) is not type(after) or before != after:
        yield path


def _walk_lists(before: list[Any], after: list[Any], path: Path) -> Iterator[Path]:
    old, new = _by_name(before), _by_name(after)
    if old is not None and new is not None:
        common = [name for name in old if name in new]
        if common != [name for name in new if name in old]:
            yield path  # the same elements in another order: order can matter (environment, init containers)
            return
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _walk(old.get(name, _ABSENT), new.get(name, _ABSENT), (*path, f"[name={name}]"))
        return
    for index in range(max(len(before), len(after))):
        left = before[index] if index < len(before) else _ABSENT
        right = after[index] if index < len(after) else _ABSENT
        yield from _walk(left, right, (*path, f"[{index}]"))


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """The elements by their ``name``, None when they are not all maps with a name of their own."""
    named = {item["name"]: item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return named if len(named) == len(items) else None


def unified(before: Body | None, after: Body | None, *, mask: bool = True) -> str:
    """Unified diff of the normalised objects as YAML with sorted keys; "" when they are equal.

    Args:
        before: the live object, None when there is none.
        after: what it will be, None when it goes.
        mask: hide the values of Secrets. Whether an object is a Secret is read off the object itself, never told by a
            caller (field case l3). Masking is the last step before printing; dry-runs get the real bytes (l4).
    """
    left, right = (None if body is None else normalise(body) for body in (before, after))
    if mask:
        left, right = masked(left, right)
    name = _title(after if after is not None else before)
    lines = difflib.unified_diff(_yaml(left), _yaml(right), f"{name} (live)", f"{name} (wanted)", lineterm="", n=3)
    return "\n".join(lines)


def _title(body: Body | None) -> str:
    body = body or {}
    meta = body.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{body.get('kind', 'object')} {where}{meta.get('name', '')}".strip()


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: texts of several lines as blocks, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(body: Body | None) -> list[str]:
    if body is None:
        return []
    text = yaml.dump(body, Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=1_000_000)
    return text.splitlines()


# ── has it moved? ────────────────────────────────────────────────────────────────────────────────────────────────

#: Kinds whose generation stays 1 whatever is changed.
_GENERATION_STANDS_STILL = frozenset({"PriorityClass.scheduling.k8s.io"})

Movement = Literal["same", "status", "moved", "gone", "new"]


@dataclass(frozen=True)
class Fingerprint:
    """One object at one moment, as a metadata-only list shows it. Small enough to keep one per managed object."""

    uid: str
    resource_version: str
    generation: int | None  #: None for kinds that have none, or one that does not count changes
    meta_hash: str  #: of labels, annotations, finalizers and owner references
    deleting: bool


#: Of an object that is not there, and is known not to be.
GONE = Fingerprint("", "", None, "", deleting=False)
#: Of one that has moved whatever is there now.
NEVER_SEEN = Fingerprint("?", "", None, "", deleting=False)


def fingerprint(meta_object: Body, group_kind: str = "") -> Fingerprint:
    """The fingerprint of an object or of an item of a metadata-only list.

    ``group_kind`` (``Kind.group``) is that of the list: items of a metadata-only list do not name theirs.
    """
    meta: dict[str, Any] = meta_object.get("metadata") or {}
    generation = meta.get("generation")
    counts = isinstance(generation, int) and generation > 0 and group_kind not in _GENERATION_STANDS_STILL
    people = [meta.get(key) or None for key in ("labels", "annotations", "finalizers", "ownerReferences")]
    text = json.dumps(people, sort_keys=True, separators=(",", ":"))
    return Fingerprint(
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
        generation=generation if counts else None,
        meta_hash=hashlib.sha256(text.encode()).hexdigest()[:32],
        deleting=bool(meta.get("deletionTimestamp")),
    )


def moved(old: Fingerprint | None, new: Fingerprint | None) -> Movement:
    """What happened to an object between two looks.

    "status": written, but neither its specification nor its metadata, as every controller does all day; no reason to
    compare it. Only kinds with a generation can tell; for the others every write is "moved".
    """
    if old is None or old == GONE:
        return "same" if new is None else "new"
    if new is None:
        return "gone"
    if (old.uid, old.resource_version) == (new.uid, new.resource_version):
        return "same"
    told_apart = old.generation is not None and new.generation is not None
    unchanged = (old.uid, old.generation, old.meta_hash, old.deleting) == (
        new.uid,
        new.generation,
        new.meta_hash,
        new.deleting,
    )
    return "status" if told_apart and unchanged else "moved"
