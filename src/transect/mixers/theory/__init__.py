"""Measures of what a sequence layer can do, beside what theory says of it: ranks, norms, spectra, and what a state still holds."""

from transect.mixers.theory.expressiveness import Expressed, expressiveness
from transect.mixers.theory.interaction import Interaction, interaction_rank
from transect.mixers.theory.jacobian import Spectrum, jacobian_spectrum, step_spectrum
from transect.mixers.theory.reconstruct import Reconstruction, reconstruct_input
from transect.mixers.theory.recovery import Recovery, recover_input
from transect.mixers.theory.states import state_growth

__all__ = [
    "Expressed",
    "Interaction",
    "Reconstruction",
    "Recovery",
    "Spectrum",
    "expressiveness",
    "interaction_rank",
    "jacobian_spectrum",
    "reconstruct_input",
    "recover_input",
    "state_growth",
    "step_spectrum",
]
