"""Is the probe a proxy for something simpler: the length of the text, or how unsure the model is of the next token?"""

import numpy as np

from transect.capture import next_token
from transect.errors import InputError, ModelError
from transect.measure import residualised_auroc
from transect.report import NotTried, StressFinding, StressPoint
from transect.study.stress_test.judging import LOST
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Reading, Subject

NAME = "simpler_proxy"


def residual_finding(subject: Subject, reading: Reading, how: StressSettings) -> StressFinding | NotTried:
    """AUROC after taking the length and the entropy out of the scores, each alone and both."""
    part = subject.train
    covariates = {"text length": np.array([float(len(text)) for text in part.table.texts])}
    noted = ""
    try:
        with reading.clock():
            said = next_token(
                subject.model, part.table, chat=subject.settings.chat, truncate=subject.settings.truncate, progress=reading.shown
            )
        covariates["output entropy"] = said.entropy
    except (InputError, ModelError) as error:
        noted = f" The output entropy could not be read: {error}"
    if len(covariates) == 2:
        covariates["both"] = np.column_stack(list(covariates.values()))
    scores = subject.readout.scores(subject.x).double().cpu().numpy()
    fit, held = part.development, part.test
    points, worst_change = [], 0.0
    for name, values in covariates.items():
        try:
            found = residualised_auroc(
                scores[held], part.targets[held] == 1, values[held], train_scores=scores[fit], train_covariates=values[fit],
                groups=part.groups[held], level=how.level, resamples=how.resamples, seed=how.seed,
            )  # fmt: skip
        except InputError as error:
            return NotTried(name=NAME, reason=str(error))
        rhos = ", ".join("constant" if np.isnan(one.value) else f"{one.value:.2f}" for one in found.correlations)
        points.append(
            StressPoint(
                name=f"without {name}", estimate=found.after, difference=found.change, n=len(held), note=f"|Spearman rho| with it: {rhos}"
            )
        )
        worst_change = min(worst_change, found.change.high)
    lost = worst_change < -LOST
    tail = "so part of the score goes with it." if lost else "so it is no proxy for these."
    return StressFinding(
        name=NAME, question="Is it a proxy for something simpler?", measure="AUROC", points=tuple(points), status="weakens" if lost else "holds",
        sentence=f"Taking them out of the scores leaves AUROC {points[-1].estimate} of {subject.home}, {tail}{noted}",
        rule=f"It weakens where the whole interval of a change lies below -{LOST}. Where label and covariate go together, a loss is no proof of a "
        f"proxy; where nothing is lost, a proxy is ruled out.",
        source="Pressure-testing deception probes (entropy residualisation)", reference=subject.home, reference_name="the probe", chance=0.5,
    )  # fmt: skip
