"""Honest numbers: metrics with intervals, controls, baselines, transfer, and the verdict. Nothing here touches a model.

Every number is an `Estimate` with an interval that respects groups; `naive` holds the definitions that the fast paths equal.
"""

from transect.measure.agreement import Agreement, agreement
from transect.measure.baselines import TextBaseline, fit_bag_of_words, fit_length, fit_majority
from transect.measure.control_task import Selectivity, control_selectivity
from transect.measure.controls import (
    ShuffledLabels,
    null_estimate,
    permutation_p,
    permutation_p_best,
    permute_labels,
    random_directions,
)
from transect.measure.directions import DirectionCount, DirectionScore, count_directions
from transect.measure.estimate import Estimate
from transect.measure.evidence import Comparison, Evidence, Meaning
from transect.measure.intervals import (
    Bootstrap,
    auroc_bootstrap,
    auroc_interval,
    bootstrap,
    difference,
    estimates,
    interval,
    simultaneous_auroc,
)
from transect.measure.looks import LeftOut, adjust_p, leave_one_out, simultaneous_differences
from transect.measure.metric import AUROC, MACRO_AUROC, SPEARMAN, Metric, metric_for
from transect.measure.probabilities import brier, expected_calibration_error, log_loss
from transect.measure.ranks import RankComparison, RankScore, compare_ranks
from transect.measure.relabelling import RelabellingStability, Shift, relabelling_stability
from transect.measure.residual import ResidualisedAUROC, Residualiser, fit_residualiser, residualised_auroc
from transect.measure.scores import accuracy, auroc, auroc_columns, balanced_accuracy, multiclass_auroc, r2, spearman
from transect.measure.selection import Choice, Correction, choose, correct_for_choosing, correct_in_folds
from transect.measure.similarity import (
    auroc_from_mcs,
    cosine,
    label_correlation,
    mahalanobis_cosine,
    mahalanobis_cosine_matrix,
    score_correlation,
)
from transect.measure.statistic import (
    Statistic,
    accuracy_statistic,
    auroc_statistic,
    macro_auroc_statistic,
    mean_statistic,
    r2_statistic,
    spearman_statistic,
)
from transect.measure.transfer import TRANSFER_RULES, Transfer, is_above_chance, transfer_status
from transect.measure.variance import FactorShare, VarianceExplained, variance_explained
from transect.measure.verdicts import READABLE_RULE, SURFACE_RULE, Rule, Verdict, verdict

__all__ = [
    "AUROC",
    "MACRO_AUROC",
    "READABLE_RULE",
    "SPEARMAN",
    "SURFACE_RULE",
    "TRANSFER_RULES",
    "Agreement",
    "Bootstrap",
    "Choice",
    "Comparison",
    "Correction",
    "DirectionCount",
    "DirectionScore",
    "Estimate",
    "Evidence",
    "FactorShare",
    "LeftOut",
    "Meaning",
    "Metric",
    "RankComparison",
    "RankScore",
    "RelabellingStability",
    "ResidualisedAUROC",
    "Residualiser",
    "Rule",
    "Selectivity",
    "Shift",
    "ShuffledLabels",
    "Statistic",
    "TextBaseline",
    "Transfer",
    "VarianceExplained",
    "Verdict",
    "accuracy",
    "accuracy_statistic",
    "adjust_p",
    "agreement",
    "auroc",
    "auroc_bootstrap",
    "auroc_columns",
    "auroc_from_mcs",
    "auroc_interval",
    "auroc_statistic",
    "balanced_accuracy",
    "bootstrap",
    "brier",
    "choose",
    "compare_ranks",
    "control_selectivity",
    "correct_for_choosing",
    "correct_in_folds",
    "cosine",
    "count_directions",
    "difference",
    "estimates",
    "expected_calibration_error",
    "fit_bag_of_words",
    "fit_length",
    "fit_majority",
    "fit_residualiser",
    "interval",
    "is_above_chance",
    "label_correlation",
    "leave_one_out",
    "log_loss",
    "macro_auroc_statistic",
    "mahalanobis_cosine",
    "mahalanobis_cosine_matrix",
    "mean_statistic",
    "metric_for",
    "multiclass_auroc",
    "null_estimate",
    "permutation_p",
    "permutation_p_best",
    "permute_labels",
    "r2",
    "r2_statistic",
    "random_directions",
    "relabelling_stability",
    "residualised_auroc",
    "score_correlation",
    "simultaneous_auroc",
    "simultaneous_differences",
    "spearman",
    "spearman_statistic",
    "transfer_status",
    "variance_explained",
    "verdict",
]
