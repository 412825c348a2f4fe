"""The contract of a monitor, as a check that any generating model and any monitor can be put through."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from transect.capture.hooks import first_tensor
from transect.errors import TransectError
from transect.intervene import monitor
from transect.linear import Origin, Readout
from transect.models import Model
from transect.models.speaking import check_speaks
from transect.sites import resolve_sites
from transect.testing.capture_checks import _equal, _state

MonitorFunction = Callable[..., Any]


def check_monitor(
    model: Model,
    prompts: Sequence[str],
    *,
    monitor: MonitorFunction = monitor,
    sites: Sequence[str] | None = None,
    max_new_tokens: int = 6,
    padded: bool = True,
    atol: float = 1e-5,
) -> None:
    """Check that a monitor's scores are those of the finished texts, and that it leaves no trace.

    1. The monitor changes no bit of the logits, and no token.
    2. Scores are aligned with ``sequences`` and equal to those of each finished row, read alone by a bare hook; padding
       and the token that was never read have none.
    3. A row in a padded batch scores as it does alone; without a KV cache as with one; token by token as in one plain pass.
    4. An alarm comes at the first generated token above the threshold, in every row that has one.
    5. Hooks, weights, modes, settings and random state are as before, also after a callback that raises and after Ctrl-C.
    6. A block in which nothing was scored is an error.

    Args:
        model: one that generates.
        prompts: a few texts of different lengths.
        monitor: the function to check, called as `transect.monitor`.
        sites: where the probes read; a block, its input and the final norm when None.
        max_new_tokens: how many tokens to generate.
        padded: False leaves out batches, for models that cannot generate from a padded batch.
        atol: the largest absolute difference, on top of the same relative one.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> check_monitor(tiny("llama"), ["The city of Paris", "Yes"])
    """
    last = len(model.structure.blocks) - 1
    sites = tuple(sites or [f"layers[{last // 2}]", f"layers[{last}].in", *(["final_norm"] if model.structure.final_norm else [])])
    check = _Check(model=model, prompts=tuple(prompts), watching=monitor, sites=sites, n_new=max_new_tokens, padded=padded, atol=atol)
    with check.no_trace("a monitored generation"):
        check.same_bits()
    check.offline()
    check.single()
    check.uncached()
    check.plain_pass()
    check.alarms()
    check.interrupted()
    check.nothing_scored()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Check:
    """One model and one monitor under examination."""

    model: Model
    prompts: tuple[str, ...]
    watching: MonitorFunction
    sites: tuple[str, ...]
    n_new: int
    padded: bool
    atol: float

    @functools.cached_property
    def probes(self) -> dict[str, Readout]:
        """A random probe per site, and a second one at the first."""
        draw = torch.Generator().manual_seed(0)
        width = self.model.width or 0
        named = {"again": self.sites[0], **{f"at {site}": site for site in self.sites}}
        return {
            name: Readout(
                weight=torch.randn(1, width, generator=draw),
                bias=torch.randn(1, generator=draw),
                origin=Origin(site=site, tokens="last", model=self.model.fingerprint),
            )
            for name, site in named.items()
        }

    @property
    def batches(self) -> list[tuple[str, ...]]:
        """The prompts together, or one by one where padding is not for this model."""
        return [self.prompts] if self.padded else [(prompt,) for prompt in self.prompts]

    def encode(self, prompts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Ids and mask, padded on the left."""
        tokenizer: Any = self.model.tokenizer
        rows = [tokenizer(prompt)["input_ids"] for prompt in prompts]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        return {"input_ids": ids.to(self.model.device), "attention_mask": mask.to(self.model.device)}

    def generate(self, prompts: Sequence[str], **settings: Any) -> Any:
        """Greedy decoding of so many tokens."""
        plain = {"max_new_tokens": self.n_new, "min_new_tokens": self.n_new, "do_sample": False, "pad_token_id": 0}
        module: Any = check_speaks(self.model)
        return module.generate(**self.encode(prompts), **{**plain, **settings})

    def watch(self, prompts: Sequence[str], *, options: dict[str, Any] | None = None, **settings: Any) -> tuple[Any, Any]:
        """The monitor and the output of one generation."""
        with self.watching(self.model, self.probes, **(options or {})) as watch:
            out = self.generate(prompts, **settings)
        return watch, out

    def same_bits(self) -> None:
        """Clause 1."""
        for prompts in self.batches:
            bare = self.generate(prompts, return_dict_in_generate=True, output_logits=True)
            _, out = self.watch(prompts, return_dict_in_generate=True, output_logits=True)
            if not torch.equal(bare.sequences, out.sequences):
                raise AssertionError("the monitor changed which tokens are generated.")
            if not all(torch.equal(left, right) for left, right in zip(bare.logits, out.logits, strict=True)):
                raise AssertionError("the monitor changed bits of the logits.")

    def offline(self) -> None:
        """Clause 2."""
        for prompts in self.batches:
            watch, out = self.watch(prompts)
            real = torch.nn.functional.pad(self.encode(prompts)["attention_mask"], (0, self.n_new), value=1) > 0
            if watch.mask.shape != out.shape or not torch.equal(watch.mask, real):
                raise AssertionError(
                    f"the mask {list(watch.mask.shape)} is not that of sequences {list(out.shape)}: text True, padding False."
                )
            for name, readout in self.probes.items():
                scores = watch.scores[name]
                if scores.shape != out.shape:
                    raise AssertionError(f"scores of {name!r} are {list(scores.shape)}, sequences are {list(out.shape)}.")
                expected = torch.full_like(scores, torch.nan)
                for row in range(len(out)):
                    expected[row, real[row]] = self._alone(out[row][real[row]], readout).to(scores)
                expected[:, -1] = torch.nan  # never run through the model
                self._same(f"scores of {name!r} against those of the finished rows", scores, expected)

    @torch.no_grad()
    def _alone(self, ids: torch.Tensor, readout: Readout) -> torch.Tensor:
        """Scores ``[t]`` of one unpadded text, read by a bare hook in one pass."""
        place = resolve_sites(self.model.structure, readout.origin.site or "")[0]
        module, kept = self.model.module.get_submodule(place.module), []

        def before(_module: Any, args: Any, kwargs: dict[str, Any]) -> None:
            kept.append(first_tensor((*args, *kwargs.values()), place))

        def after(_module: Any, _args: Any, output: Any) -> None:
            kept.append(first_tensor(output, place))

        handle = module.register_forward_pre_hook(before, with_kwargs=True) if place.end == "input" else module.register_forward_hook(after)
        with handle:
            self.model.backbone(ids[None])
        return readout.scores(kept[0].reshape(len(ids), -1))

    def single(self) -> None:
        """Clause 3, batches."""
        if not self.padded:
            return
        together, out = self.watch(self.prompts)
        for row, prompt in enumerate(self.prompts):
            alone, own = self.watch([prompt])
            if not torch.equal(own[0], out[row, -own.shape[1] :]):
                continue  # rounding led to another token
            for name in self.probes:
                left = together.scores[name][row, -own.shape[1] :]
                self._same(f"{name!r}: row {row} in a padded batch against alone", left, alone.scores[name][0])

    def uncached(self) -> None:
        """Clause 3, the KV cache."""
        for prompts in self.batches:
            (cached, _), (plain, _) = self.watch(prompts), self.watch(prompts, use_cache=False)
            for name in self.probes:
                self._same(f"{name!r}: without a cache against with one", plain.scores[name], cached.scores[name])

    def plain_pass(self) -> None:
        """Clause 3, one pass over the finished text."""
        prompt = self.prompts[:1]
        stepwise, out = self.watch(prompt)
        with self.watching(self.model, self.probes) as watch, torch.no_grad():
            self.model.module(input_ids=out)
        for name in self.probes:
            self._same(f"{name!r}: token by token against one pass", stepwise.scores[name][:, :-1], watch.scores[name][:, :-1])

    def alarms(self) -> None:
        """Clause 4."""
        for prompts in self.batches:
            watch, _ = self.watch(prompts)
            scores = watch.scores["again"][:, -self.n_new : -1]
            level = float(scores.max(dim=1).values.min() + scores.min()) / 2
            watch, out = self.watch(prompts, options={"thresholds": {"again": level}})
            start = out.shape[1] - self.n_new
            expected = [
                (row, start + int((values > level).nonzero()[0])) for row, values in enumerate(scores) if bool((values > level).any())
            ]
            got = sorted((alarm.row, alarm.position) for alarm in watch.alarms)
            if got != expected:
                raise AssertionError(f"alarms (row, position) at {got}, the scores cross {level:.4g} first at {expected}.")

    def interrupted(self) -> None:
        """Clause 5."""

        def interrupt(_: Any) -> None:
            raise KeyboardInterrupt

        options = ({"on_token": interrupt}, {"thresholds": -1e30, "on_alarm": interrupt})
        for what, option in zip(("Ctrl-C while tokens come", "a callback that raises"), options, strict=True):
            with self.no_trace(what):
                try:
                    self.watch(self.prompts[:1], options=option)
                except KeyboardInterrupt:
                    continue
                raise AssertionError(f"{what}: the error did not reach the caller.")

    def nothing_scored(self) -> None:
        """Clause 6."""
        try:
            with self.watching(self.model, self.probes):
                pass
        except TransectError:
            return
        raise AssertionError("a with block in which nothing was scored raised no error.")

    def _same(self, what: str, got: torch.Tensor, expected: torch.Tensor) -> None:
        if not torch.equal(torch.isnan(got), torch.isnan(expected)):
            raise AssertionError(f"{what}: scores are missing, or there are too many: {int((~torch.isnan(got)).sum())} are numbers, expected "
                                 f"{int((~torch.isnan(expected)).sum())}, in these places.")  # fmt: skip
        if not torch.allclose(got, expected, rtol=self.atol, atol=self.atol, equal_nan=True):
            raise AssertionError(f"{what}: the largest difference is {float((got - expected).abs().nan_to_num().max()):.3g}.")

    @contextmanager
    def no_trace(self, what: str) -> Iterator[None]:
        """Whatever happens inside, the model, its generation settings and torch's global state are afterwards as before."""
        module: Any = check_speaks(self.model)
        self.generate(self.prompts[:1])  # what a model does to itself when it first generates is not the monitor's doing
        settings, before = module.generation_config.to_dict(), _state(self.model.module)
        yield
        after = _state(self.model.module)
        changed = [name for name in before.keys() | after.keys() if not _equal(before.get(name), after.get(name))]
        if settings != module.generation_config.to_dict():
            changed.append("generation_config")
        if changed:
            raise AssertionError(f"{what} left a trace: {', '.join(sorted(changed)[:8])} changed.")
