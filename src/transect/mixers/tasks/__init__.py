"""Small tasks that tell sequence layers apart, made on the spot from a `torch.Generator`; each knows its chance level and its harder tests."""

from transect.mixers.tasks.base import Axis, Batch, Task
from transect.mixers.tasks.needle import Needle
from transect.mixers.tasks.recall import Capacity, Recall
from transect.mixers.tasks.state_tracking import A5, S3, S5, ModularSum, Parity
from transect.mixers.tasks.text import Text

__all__ = ["A5", "S3", "S5", "Axis", "Batch", "Capacity", "ModularSum", "Needle", "Parity", "Recall", "Task", "Text"]
