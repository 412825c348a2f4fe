"""Decisions with guarantees: from scores to thresholds, alarms, routes and refusals. Nothing here touches a model."""

__all__: list[str] = []
