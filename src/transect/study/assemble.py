"""From what was gathered to the report: every number of the report is put in its place here, and the verdict is drawn."""

import datetime
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from transect.linear import Origin, Readout
from transect.measure import Comparison, Estimate, Meaning, Verdict, verdict
from transect.measure import Evidence as VerdictEvidence
from transect.measure import Transfer as MeasuredTransfer
from transect.models.template import template_hash
from transect.report import Report, records
from transect.study.controls import Control
from transect.study.examples import histograms, most_wrong
from transect.study.gathered import Gathered
from transect.study.prepare import Part
from transect.study.search import Search
from transect.study.transfers import Pair


def assemble(gathered: Gathered, *, total: Callable[[], float]) -> tuple[Report, Readout]:
    """The report, and the chosen probe with its origin.

    Args:
        gathered: everything that was measured.
        total: seconds since the study began.
    """
    test = _test(gathered)
    drawn = _verdict(gathered, test)
    report = Report(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        transect=version("transect"),
        command=gathered.command,
        seed=gathered.settings.seed,
        settings=gathered.settings.to_json(),
        environment=_environment(gathered),
        model=_model(gathered),
        data=_data(gathered),
        capture=_capture(gathered),
        metric=records.MetricInfo(name=_field(gathered), title=gathered.judge.metric.title, chance=gathered.judge.metric.chance),
        selected=_selected(gathered),
        test=test,
        by_site=_by_site(gathered),
        baselines={name: _baseline(control, gathered) for name, control in gathered.controls.items()},
        verdict=drawn,
        leakage=gathered.leakage.to_json(),
        timing=records.Timing(total=total(), stages=dict(gathered.seconds)),
        probes_compared=tuple(_compared(other, gathered) for other in gathered.others),
        transfer=tuple(_transfer(pair, gathered) for pair in gathered.pairs),
        score_histograms=histograms(gathered),
        most_wrong=most_wrong(gathered),
        notes=_notes(gathered),
    )
    return report, gathered.found.readout.with_origin(_origin(gathered, report))


def _field(gathered: Gathered) -> records.MetricName:
    return "spearman" if gathered.judge.kind == "number" else "auroc"


def _leading(gathered: Gathered, estimate: Estimate) -> dict[str, Any]:
    return {_field(gathered): estimate}


def _environment(gathered: Gathered) -> records.Environment:
    device = gathered.model.device
    name = f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
    return records.Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        torch=torch.__version__,
        transformers=version("transformers"),
        device=name,
        threads=torch.get_num_threads(),
    )


def _model(gathered: Gathered) -> records.ModelInfo:
    model = gathered.model
    return records.ModelInfo(
        name=model.name,
        fingerprint=model.fingerprint,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        width=model.width,
        n_layers=len(model.structure.blocks) or None,
        parameters=sum(parameter.numel() for parameter in model.module.parameters()),
        source=model.source,
    )


def _table(part: Part) -> records.TableInfo:
    table = part.table
    counts = None if table.classes is None else tuple(np.bincount(part.targets, minlength=len(table.classes)).tolist())
    return records.TableInfo(
        name=table.name,
        source=table.source,
        digest=table.digest,
        n=len(table),
        n_groups=len(np.unique(part.groups)),
        kind=table.kind or "binary",
        classes=None if table.classes is None else tuple(table.classes),
        counts=counts,
        notes=(*table.notes, *part.notes),
    )


def _data(gathered: Gathered) -> records.DataInfo:
    part = gathered.parts.train
    split = records.SplitInfo(
        n_development=len(part.development),
        n_test=len(part.test),
        n_development_groups=len(np.unique(part.groups[part.development])),
        n_test_groups=len(np.unique(part.groups[part.test])),
        folds=gathered.settings.folds,
        rule=gathered.parts.rule,
    )
    return records.DataInfo(train=_table(part), split=split, tests=tuple(_table(test) for test in gathered.parts.tests))


def _capture(gathered: Gathered) -> records.CaptureInfo:
    notes = [acts.provenance for acts in gathered.activations.values()]
    seconds = sum(float(note["seconds"]) for note in notes)
    n_tokens = sum(int(note["n_tokens"]) for note in notes)
    checked = [note["verify"] for note in notes if note.get("verify")]
    verified = None
    if checked:
        verified = records.VerifyInfo(
            n=sum(int(check["n"]) for check in checked),
            largest_difference=max(float(check["largest_difference"]) for check in checked),
            relative_difference=max(float(check["relative_difference"]) for check in checked),
        )
    return records.CaptureInfo(
        sites=gathered.found.fits.sites,
        tokens=next(iter(gathered.activations.values())).tokens,
        n_texts=sum(len(part.table) for part in (gathered.parts.train, *gathered.parts.tests)),
        n_tokens=n_tokens,
        n_truncated=sum(int(note["n_truncated"]) for note in notes),
        seconds=seconds,
        tokens_per_second=n_tokens / seconds if seconds > 0 else 0.0,
        verify=verified,
    )


def _selected(gathered: Gathered) -> records.Selected:
    found, correction = gathered.found, gathered.correction
    validation = Estimate.bare(found.choice.validation, method="mean over folds")
    return records.Selected(
        site=found.site,
        probe=found.name,
        regularization=found.regularizations[found.site],
        validation=validation,
        corrected=correction.corrected,
        optimism=correction.optimism,
        n_candidates=found.choice.table.size,
        rule=found.choice.rule,
        stability=gathered.stability,
    )


def _test(gathered: Gathered) -> records.Scores:
    part, found = gathered.parts.train, gathered.found
    x = gathered.activations[part.name][found.site][part.test]
    groups = part.groups[part.test]
    metrics = gathered.judge.all(found.readout, x, part.targets[part.test], groups)
    return records.Scores(n=len(part.test), n_groups=len(np.unique(groups)), **metrics)


def _site_scores(found: Search, activations: Mapping[str, torch.Tensor] | Any, part: Part) -> dict[str, torch.Tensor]:
    return {site: found.readouts[site].scores(activations[site][part.test]) for site in found.fits.sites}


def _by_site(gathered: Gathered) -> tuple[records.SiteScore, ...]:
    part, judge, found = gathered.parts.train, gathered.judge, gathered.found
    targets, groups = part.targets[part.test], part.groups[part.test]
    scores = _site_scores(found, gathered.activations[part.name], part)
    statistics = [judge.statistic(values, targets) for values in scores.values()]
    alone, together = judge.each_and_all(statistics, groups)
    bare: dict[str, float] = {}
    if gathered.bare is not None:
        values = _site_scores(gathered.bare.search, gathered.bare.activations, part)
        bare = {site: judge.metric.measure(value, targets) for site, value in values.items()}
    return tuple(
        records.SiteScore(
            site=site,
            regularization=found.regularizations[site],
            validation=found.validation(site),
            test=one,
            band_low=band.low if band.has_interval else None,
            band_high=band.high if band.has_interval else None,
            untrained=bare.get(site),
        )
        for site, one, band in zip(scores, alone, together, strict=True)
    )


def _baseline(control: Control, gathered: Gathered) -> records.Baseline:
    return records.Baseline(
        detail=control.detail,
        difference=control.difference,
        p=control.p,
        site=control.site,
        distribution=control.distribution,
        **_leading(gathered, control.estimate),
    )


def _compared(other: Search, gathered: Gathered) -> records.ProbeScore:
    part = gathered.parts.train
    x = gathered.activations[part.name][other.site][part.test]
    return records.ProbeScore(
        probe=other.name,
        site=other.site,
        regularization=other.regularizations[other.site],
        validation=other.choice.validation,
        test=gathered.judge.leading(other.readout.scores(x), part.targets[part.test], part.groups[part.test]),
    )


def _transfer(pair: Pair, gathered: Gathered) -> records.TransferScore:
    return records.TransferScore(
        train=pair.train,
        test=pair.test,
        site=pair.site,
        selected=pair.site == gathered.found.site,
        n=pair.n,
        n_excluded=pair.n_excluded,
        cosine=pair.cosine,
        mcs=pair.mcs,
        status=pair.status,
        **_leading(gathered, pair.estimate),
    )


def _main_transfers(gathered: Gathered) -> list[Pair]:
    train, site = gathered.parts.train.name, gathered.found.site
    return [pair for pair in gathered.pairs if pair.train == train and pair.site == site and pair.test != train]


def _verdict(gathered: Gathered, test: records.Scores) -> Verdict:
    """The verdict on the chosen probe; tables that were joined for training are judged one by one as well."""
    home = getattr(test, _field(gathered))
    surface = tuple(
        Comparison(title=title, estimate=control.estimate, difference=control.difference)
        for name, title in (("bag_of_words", "bag of words"), ("length", "text length"))
        if (control := gathered.controls[name]).difference is not None
    )
    bare = gathered.controls.get("untrained")
    compared = None
    if bare is not None and bare.difference is not None:
        compared = Comparison(title="the untrained model", estimate=bare.estimate, difference=bare.difference)
    transfers = tuple(
        MeasuredTransfer(
            train=pair.train, test=pair.test, site=pair.site, estimate=pair.estimate, metric=gathered.judge.metric,
            cosine=pair.cosine, mcs=pair.mcs, n=pair.n, status=pair.status or "unclear",
        )
        for pair in _main_transfers(gathered)
    )  # fmt: skip
    meaning = gathered.parts.train.table.meaning
    evidence = VerdictEvidence(
        train=gathered.parts.train.name,
        site=gathered.found.site,
        test=home,
        metric=gathered.judge.metric,
        permutation_p=gathered.controls["shuffled_labels"].p,
        surface=surface,
        untrained=compared,
        transfers=transfers,
        meaning=None if meaning is None else Meaning(claim=meaning[0], shortcut=meaning[1]),
        leaks=tuple(finding.sentence for finding in gathered.leakage.findings if finding.severity == "fail"),
        cautions=gathered.found.choice.at_edge,
        calibration_error=None if test.ece is None else test.ece.value,
    )
    return verdict(evidence)


def _notes(gathered: Gathered) -> tuple[str, ...]:
    notes = [
        f"{gathered.found.choice.left_out} of {gathered.settings.folds} folds lack a class and took no part in choosing."
        for _ in range(bool(gathered.found.choice.left_out))
    ]
    slow = [found for found in (gathered.found, *gathered.others) if found.fits.unconverged]
    notes += [
        f"{found.fits.unconverged} fits of {found.name} did not meet their tolerance; their scores count all the same." for found in slow
    ]
    missing = {part.name for part in gathered.parts.tests} - {pair.test for pair in _main_transfers(gathered)}
    notes += [
        f"{name} could not be scored: after leaving out rows the probe was fitted on, fewer than two classes remain."
        for name in sorted(missing)
    ]
    return (*notes, *_what_joining_changed(gathered))


def _what_joining_changed(gathered: Gathered) -> list[str]:
    """For tables trained on together: what a probe of each table alone scores on the others, and what the joint probe scores."""
    names = [str(part.table.dataset[part.development[0]]) for part in gathered.parts.components]
    at = {(pair.train, pair.test): pair.estimate for pair in gathered.pairs if pair.site == gathered.found.site}
    whole = gathered.parts.train.name
    title = gathered.judge.metric.title
    together = ", ".join(f"{at[whole, name].value:.3f} on {name}" for name in names if (whole, name) in at)
    sentences = []
    for name in names:
        alone = ", ".join(f"{at[name, other].value:.3f} on {other}" for other in names if (name, other) in at)
        if alone and together:
            sentences.append(
                f"Trained on {name} alone, the probe's {title} is {alone}; trained on {' and '.join(names)} together, {together}."
            )
    return sentences


def _template(gathered: Gathered) -> dict[str, str | None]:
    """The chat template's hash, where one was in force: other words around a message move the tokens that the probe reads."""
    in_force = gathered.settings.chat or gathered.parts.train.table.messages is not None
    return {"chat_template": template_hash(gathered.model.tokenizer)} if in_force else {}


def _origin(gathered: Gathered, report: Report) -> Origin:
    fitter = gathered.found.fitter
    settings = {name: value for name, value in fitter.get_params().items() if isinstance(value, str | int | float | bool | None)}
    scores = report.test.to_json()
    return Origin(
        site=gathered.found.site,
        tokens=report.capture.tokens,
        model=report.model.fingerprint,
        model_name=report.model.name,
        fitter=gathered.found.name,
        settings={
            **settings,
            "regularization": report.selected.regularization,
            "chat": gathered.settings.chat,
            **_template(gathered),
        },
        data={"name": report.data.train.name, "digest": report.data.train.digest, "n": report.data.split.n_development},
        scores={
            "test": {name: scores[name] for name in ("auroc", "accuracy", "spearman", "r2") if name in scores},
            "transfers": dict(report.verdict.transfers),
        },
    )
