"""Names as Kubernetes takes them: the rules of apimachinery's ``pkg/util/validation``. Pure.

A subdomain's parts between dots have no limit of their own there, only the whole name has (field case d12).
"""

from __future__ import annotations

import re

MOST = 253  #: characters of a subdomain

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
#: as part of a longer expression: its length is not looked at
_SUBDOMAIN = rf"{_PART}(?:\.{_PART})*"

_IS_LABEL = re.compile(_LABEL)
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN)
_IS_LABELLED = re.compile(rf"(?:(?=[^/]{{1,{MOST}}}/){_SUBDOMAIN}/)?{_QUALIFIED}=(?:{_QUALIFIED})?")


def is_label(text: str) -> bool:
    """RFC 1123 label, at most 63 characters: namespaces."""
    return _IS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """RFC 1123 subdomain, at most 253 characters: most objects, API groups, and what stands in the catalog."""
    return len(text) <= MOST and _IS_SUBDOMAIN.fullmatch(text) is not None


def is_labelled(text: str) -> bool:
    """``key=value`` as a label has them; the value may be empty."""
    return _IS_LABELLED.fullmatch(text) is not None
