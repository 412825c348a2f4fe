"""Decisions with guarantees: from scores to thresholds, alarms, routes and refusals. Nothing here touches a model."""

from transect.decide.abstain import Abstention, fit_abstention
from transect.decide.agents import (
    AgentScores,
    Suspect,
    activation_alignment,
    agent_scores,
    asymmetry_features,
    deception_split,
    evaluate_agents,
    fit_asymmetry,
    fit_sorted_concatenation,
    peak_suspicion,
    sorted_concatenation,
    suspects,
)
from transect.decide.calibration import Calibration, fit_isotonic, fit_platt, fit_temperature
from transect.decide.calibration_measured import BeforeAfter, MeasuredCalibration, measure_calibration
from transect.decide.cascade import (
    Cascade,
    CascadeCertificate,
    EarlyStopping,
    certify_cascade,
    episodes_to_certify,
    select_cascade,
    stop_early,
)
from transect.decide.certificate import Certificate
from transect.decide.delay import Delay, detection_delay, first_alarms
from transect.decide.distance import Distance, fit_distance
from transect.decide.drift import ActivationDriftAlarm, DriftAlarm, DriftReading, needed_reference
from transect.decide.ensemble import EnsembleScore, confidence_features, ensemble, evaluate_ensemble, fit_confidence
from transect.decide.familiarity import Familiarity, evaluate_familiarity, familiarity_scores, inverse_participation_ratio, spectral_entropy
from transect.decide.first_token import FirstToken, compare_tokens, decide_first_token, fit_first_token, logit_features
from transect.decide.membership import Attack, Membership, audit_membership, tpr_at_fpr
from transect.decide.routing import RoutePoint, Routing, evaluate_routing, route
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
    "AgentScores",
    "Attack",
    "BeforeAfter",
    "Calibration",
    "Cascade",
    "CascadeCertificate",
    "Certificate",
    "Delay",
    "Distance",
    "DriftAlarm",
    "DriftReading",
    "EarlyStopping",
    "EnsembleScore",
    "Familiarity",
    "FirstToken",
    "LengthBin",
    "MeasuredCalibration",
    "Membership",
    "RoutePoint",
    "Routing",
    "RunningStatistic",
    "SequenceAlarm",
    "SequenceCertificate",
    "SequenceStatistic",
    "Suspect",
    "activation_alignment",
    "agent_scores",
    "asymmetry_features",
    "audit_membership",
    "certify_cascade",
    "certify_sequences",
    "certify_threshold",
    "clopper_pearson",
    "compare_tokens",
    "confidence_features",
    "deception_split",
    "decide_first_token",
    "detection_delay",
    "ensemble",
    "episodes_to_certify",
    "evaluate_agents",
    "evaluate_ensemble",
    "evaluate_familiarity",
    "evaluate_routing",
    "familiarity_scores",
    "first_alarms",
    "fit_abstention",
    "fit_asymmetry",
    "fit_confidence",
    "fit_distance",
    "fit_first_token",
    "fit_isotonic",
    "fit_platt",
    "fit_sorted_concatenation",
    "fit_temperature",
    "inverse_participation_ratio",
    "logit_features",
    "measure_calibration",
    "needed_examples",
    "needed_reference",
    "order_statistic",
    "peak_suspicion",
    "route",
    "select_cascade",
    "sorted_concatenation",
    "spectral_entropy",
    "stop_early",
    "suspects",
    "threshold_for_fpr",
    "threshold_for_recall",
    "tpr_at_fpr",
]
