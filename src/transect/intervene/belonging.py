"""Whether probes belong to the model in front of them, before anything runs."""

from collections.abc import Mapping

from transect.errors import InputError, MismatchError
from transect.linear import Readout
from transect.models import Model
from transect.models.template import template_hash
from transect.sites import Place, resolve_sites


def read_probes(probes: Readout | Mapping[str, Readout]) -> dict[str, Readout]:
    """Name -> probe; one alone is called ``probe``.

    Raises:
        InputError: there are none, or something else was given.
    """
    named = {"probe": probes} if isinstance(probes, Readout) else dict(probes) if isinstance(probes, Mapping) else None
    if not named or not all(isinstance(name, str) and isinstance(readout, Readout) for name, readout in named.items()):
        got = type(probes).__name__ if named is None else repr({name: type(value).__name__ for name, value in named.items()})
        raise InputError(f"expected a Readout, or a mapping from names to Readouts, got {got}; transect.probe(...).readout is one.")
    return named


def find_places(model: Model, readouts: Mapping[str, Readout], *, force: bool) -> dict[str, Place]:
    """Where each probe reads.

    Raises:
        InputError: a probe does not know its site.
        SiteError: the site does not exist here.
        MismatchError: the probe was fitted on another model, or with another chat template.
    """
    places = {}
    for name, readout in readouts.items():
        origin = readout.origin
        if origin.site is None:
            raise InputError(f"the probe {name!r} does not know its site; fit it with transect.probe, or set its origin.")
        _check_template(name, readout, model, force=force)
        try:
            origin.check_model(model.fingerprint, force=force)
        except MismatchError as error:
            raise MismatchError(f"the probe {name!r}: {error}") from None
        found = resolve_sites(model.structure, origin.site)
        if len(found) != 1:
            raise InputError(f"the probe {name!r} reads one site, got {origin.site!r}, which names {len(found)}; name one of them.")
        places[name] = found[0]
    return places


def _check_template(name: str, readout: Readout, model: Model, *, force: bool) -> None:
    """A template that writes other words around a message moves the tokens that a probe was fitted at."""
    then = readout.origin.settings.get("chat_template")
    now = template_hash(model.tokenizer)
    if then is None or force or then == now:
        return
    raise MismatchError(
        f"the probe {name!r} was fitted with the chat template {then}, the tokenizer now has {now or 'none'}, so its tokens stand in other "
        f"places and its scores would mean nothing. Set the template it was fitted with, or force=True if you know better."
    )
