"""Carrying decisions out on a cluster: ports and decisions in, results out. Knows no queue and no Redis.

Workers call it for syncs, the CLI for ``fleetbeat diff``: both see the same comparison.
"""
