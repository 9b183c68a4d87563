"""``config.kubernetes.io/depends-on`` (cli-utils): an object waits until others of its bundle are healthy.

A comma list of ``group/Kind/name`` and ``group/namespaces/namespace/Kind/name``; the core group is an empty first
part: ``/namespaces/shop/ConfigMap/web``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fleetbeat.decisions.problems import nearest, shown
from fleetbeat.model import ObjectId

DEPENDS_ON = "config.kubernetes.io/depends-on"

#: Objects of a ring that are named.
_SHOWN = 8

#: object → those it depends on, all of them keys too
Edges = Mapping[ObjectId, Collection[ObjectId]]


def read(value: object) -> tuple[tuple[ObjectId, ...], list[str]]:
    """The objects named, without repetitions, and what cannot be read in words."""
    found: dict[ObjectId, None] = {}
    problems: list[str] = []
    for item in (part.strip() for part in str(value).split(",")):
        match item.split("/"):
            case [group, kind, name] if kind and name:
                found[ObjectId(group, kind, "", name)] = None
            case [group, "namespaces", namespace, kind, name] if namespace and kind and name:
                found[ObjectId(group, kind, namespace, name)] = None
            case _:
                problems.append(
                    f"annotation {DEPENDS_ON}: {shown(item)} is neither group/Kind/name nor "
                    "group/namespaces/namespace/Kind/name (the core group is empty: /namespaces/shop/ConfigMap/web)"
                )
    return tuple(found), problems


def written(obj: ObjectId) -> str:
    """The object as the annotation names it."""
    place = f"namespaces/{obj.namespace}/" if obj.namespace else ""
    return f"{obj.group}/{place}{obj.kind}/{obj.name}"


def find(reference: ObjectId, bundle: Collection[ObjectId]) -> ObjectId | None:
    """The object of the bundle that is meant. A namespace given for one that has none does not matter."""
    if reference in bundle:
        return reference
    plain = reference._replace(namespace="")
    return plain if plain in bundle else None


def absent(reference: ObjectId, bundle: Iterable[ObjectId]) -> str:
    """What to say when the bundle does not hold it: nothing outside of the bundle is waited for, as in cli-utils."""
    near = nearest(written(reference), map(written, bundle))
    hint = f" Did you mean {near}?" if near else ""
    return f"annotation {DEPENDS_ON}: {written(reference)} is not in the bundle.{hint}"


def cycles(edges: Edges, *, most: int = 20) -> tuple[tuple[ObjectId, ...], ...]:
    """Rings of objects that wait for one another, each beginning with its smallest id; no object is in two of them.

    At most ``most``: each is looked for in all of ``knotted``, and one is enough to refuse a bundle.
    """
    rings: list[tuple[ObjectId, ...]] = []
    rest = knotted(edges)
    while rest and len(rings) < most:
        walk = {min(rest): None}  # in order
        while (following := min(rest[next(reversed(walk))])) not in walk:
            walk[following] = None
        steps = list(walk)
        ring = steps[steps.index(following) :]
        first = ring.index(min(ring))
        rings.append((*ring[first:], *ring[:first]))
        rest = knotted({obj: needs for obj, needs in rest.items() if obj not in ring})
    return tuple(sorted(rings))


def told(ring: Sequence[ObjectId]) -> str:
    """``A → B → A``; of a long one the beginning."""
    names = [str(obj) for obj in ring[:_SHOWN]]
    if len(ring) > _SHOWN:
        return f"{' → '.join(names)} → … → {names[0]} ({len(ring)} objects)"
    return " → ".join((*names, names[0]))


def levels(members: Iterable[ObjectId], edges: Edges) -> dict[ObjectId, int]:
    """How many steps of dependencies inside ``members`` each one has below it. None of them may be ``knotted``."""
    inside = set(members)
    found: dict[ObjectId, int] = {}
    for obj in _from_the_ground({obj: [n for n in edges.get(obj, ()) if n in inside] for obj in inside}):
        found[obj] = max((found[need] + 1 for need in edges.get(obj, ()) if need in inside), default=0)
    return found


def knotted(edges: Edges) -> dict[ObjectId, set[ObjectId]]:
    """What waits for a ring, directly or not, and for which of its like: nobody's turn ever comes."""
    free = set(_from_the_ground(edges))
    return {obj: {n for n in needs if n in edges and n not in free} for obj, needs in edges.items() if obj not in free}


def _from_the_ground(edges: Edges) -> Iterator[ObjectId]:
    """Everything whose turn comes, each after all it needs. Needs that are no keys of ``edges`` are met."""
    waits = {obj: sum(need in edges for need in set(needs)) for obj, needs in edges.items()}
    needed_by: dict[ObjectId, list[ObjectId]] = defaultdict(list)
    for obj, needs in edges.items():
        for need in set(needs):
            needed_by[need].append(obj)
    ready = [obj for obj, count in waits.items() if not count]
    for obj in ready:  # grows while it is read
        yield obj
        for dependant in needed_by[obj]:
            waits[dependant] -= 1
            if not waits[dependant]:
                ready.append(dependant)
