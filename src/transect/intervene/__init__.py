"""What acts on a running model: monitors that score tokens while it generates."""

from transect.intervene.monitor import monitor
from transect.intervene.records import Alarm, Run, Step
from transect.intervene.watch import Watch

__all__ = ["Alarm", "Run", "Step", "Watch", "monitor"]
