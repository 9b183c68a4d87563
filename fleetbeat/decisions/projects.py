"""What a project says for its applications. Pure."""

from __future__ import annotations

from dataclasses import replace

from fleetbeat.model import Application, Project

#: The project of an application that names none. It needs no document; one of this name is for all of those.
DEFAULT = "default"


def effective(application: Application, project: Project) -> Application:
    """The application under the rules of its project.

    Where the first rule that fits decides, the application's own come before its project's. A kind has one health
    rule: the application's, where it has one. ``project.windows`` are those that match it.
    """
    own = {(rule.group, rule.kind) for rule in application.health_rules}
    return replace(
        application,
        health_rules=(
            *application.health_rules,
            *(rule for rule in project.health_rules if (rule.group, rule.kind) not in own),
        ),
        ignore_differences=(*application.ignore_differences, *project.ignore_differences),
        conflicts=(*application.conflicts, *project.conflicts),
        windows=(*application.windows, *project.windows),
    )
