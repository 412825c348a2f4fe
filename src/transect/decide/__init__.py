"""Decisions with guarantees: from scores to thresholds, alarms, routes and refusals. Nothing here touches a model."""

from transect.decide.abstain import Abstention, fit_abstention
from transect.decide.calibration import Calibration, fit_isotonic, fit_platt, fit_temperature
from transect.decide.calibration_measured import BeforeAfter, MeasuredCalibration, measure_calibration
from transect.decide.certificate import Certificate
from transect.decide.delay import Delay, detection_delay, first_alarms
from transect.decide.distance import Distance, fit_distance
from transect.decide.drift import ActivationDriftAlarm, DriftAlarm, DriftReading, needed_reference
from transect.decide.sequence_thresholds import LengthBin, SequenceAlarm, SequenceCertificate, certify_sequences
from transect.decide.sequences import RunningStatistic, SequenceStatistic
from transect.decide.thresholds import (
    certify_threshold,
    clopper_pearson,
    needed_examples,
    order_statistic,
    threshold_for_fpr,
    threshold_for_recall,
)

__all__ = [
    "Abstention",
    "ActivationDriftAlarm",
    "BeforeAfter",
    "Calibration",
    "Certificate",
    "Delay",
    "Distance",
    "DriftAlarm",
    "DriftReading",
    "LengthBin",
    "MeasuredCalibration",
    "RunningStatistic",
    "SequenceAlarm",
    "SequenceCertificate",
    "SequenceStatistic",
    "certify_sequences",
    "certify_threshold",
    "clopper_pearson",
    "detection_delay",
    "first_alarms",
    "fit_abstention",
    "fit_distance",
    "fit_isotonic",
    "fit_platt",
    "fit_temperature",
    "measure_calibration",
    "needed_examples",
    "needed_reference",
    "order_statistic",
    "threshold_for_fpr",
    "threshold_for_recall",
]
