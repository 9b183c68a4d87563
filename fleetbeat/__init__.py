"""Fleetbeat: GitOps for Kubernetes fleets on a task queue."""

__version__ = "0.1.0"
