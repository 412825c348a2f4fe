"""The main job and scoring: what the command line runs, as calls."""

from transect.study.certified import Certified
from transect.study.certify import certify
from transect.study.prepare import combine
from transect.study.run import Found, default_fitter, fitter_named, probe
from transect.study.score import Scored, score_texts
from transect.study.settings import Settings
from transect.study.stress_test import StressSettings, stress

__all__ = [
    "Certified",
    "Found",
    "Scored",
    "Settings",
    "StressSettings",
    "certify",
    "combine",
    "default_fitter",
    "fitter_named",
    "probe",
    "score_texts",
    "stress",
]
