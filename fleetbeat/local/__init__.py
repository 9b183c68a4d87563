"""The parts one machine needs to try and test Fleetbeat: Redis, OCI registry, Kubernetes control plane, example."""
