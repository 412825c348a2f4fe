"""Shipped checks of the contracts, and tiny random models to run them on; for our methods and for other people's."""

from transect.testing.capture_checks import check_capture
from transect.testing.decision_checks import check_calibration, check_threshold
from transect.testing.fitter_checks import all_fitters, check_fitter, check_readout
from transect.testing.guarantee_checks import check_abstention, check_drift_alarm, check_early_stopping
from transect.testing.mixer_checks import check_mixer
from transect.testing.mixer_inputs import all_mixers, mixer_inputs
from transect.testing.mixer_layer_checks import all_mixer_layers, check_mixer_layer
from transect.testing.monitor_checks import check_monitor
from transect.testing.row_checks import check_rows
from transect.testing.subspace_checks import check_subspace
from transect.testing.tiny import FAMILIES, tiny, tiny_chat_tokenizer, tiny_tokenizer

__all__ = [
    "FAMILIES",
    "all_fitters",
    "all_mixer_layers",
    "all_mixers",
    "check_abstention",
    "check_calibration",
    "check_capture",
    "check_drift_alarm",
    "check_early_stopping",
    "check_fitter",
    "check_mixer",
    "check_mixer_layer",
    "check_monitor",
    "check_readout",
    "check_rows",
    "check_subspace",
    "check_threshold",
    "mixer_inputs",
    "tiny",
    "tiny_chat_tokenizer",
    "tiny_tokenizer",
]
