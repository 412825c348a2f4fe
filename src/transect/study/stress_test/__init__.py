"""The stress test: every way in which a finished probe might fool its user, tried."""

from transect.study.stress_test.run import stress
from transect.study.stress_test.settings import StressSettings

__all__ = ["StressSettings", "stress"]
