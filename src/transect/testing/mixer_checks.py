"""The contract of sequence ops: every form is the definition, causal to the bit, and sequences stay apart."""

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import torch
from torch.autograd.gradcheck import GradcheckError

from transect.mixers.algebra import Form
from transect.testing._assertions import must
from transect.testing.mixer_inputs import Mixer, mixer_inputs

_FAST = tuple(form for form in get_args(Form) if form not in {"auto", "naive"})
_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
_PER_TOKEN = (
    "q",
    "k",
    "v",
    "g",
    "beta",
    "mu",
    "transitions",
    "additions",
    "r",
    "w",
    "a",
    "b",
    "x",
    "dt",
    "B",
    "C",
    "level_weights",
    "shares",
    "read_q",
    "read_k",
    "score",
    "gate",
    "gamma",
    "factors",
    "mixing",
    "log_weights",
)
_GATES = frozenset({"g", "w", "dt", "beta", "mu", "gamma"})  # of a range that is checked
_PLACES = ("positions", "memories")  # integers, one or more for each token


def check_mixer(op: Mixer) -> None:
    """Check that a sequence op keeps the contract.

    1. Twin: in every form, with every chunk size, outputs, states and gradients are those of ``form="naive"``, to 1e-5 in float32 (of the
       largest, against the definition in float64) and 1e-12 in float64; also with closed gates (g = -1e4, g = -inf) and one token.
    2. Causal: what comes later changes no bit of earlier outputs, nor of their gradients. What is later and not finite, or overflows in a
       product, changes none before its chunk (in "parallel", its sequence; in "recurrent", itself), of other heads or of other sequences.
    3. Split: cut anywhere, with the state passed on, it gives the same; also with an empty part.
    4. Packed: sequences packed with `cu_seqlens` (an empty one among them) give what each gives alone; NaN in one stays in it.
    5. Precision: 16-bit inputs are computed in 32 bits, float64 in float64; `gradcheck` passes.
    6. Purity: inputs are left alone, and gradients being wanted changes no bit.

    Args:
        op: a function of `transect.mixers`, or one with their arguments.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect import mixers
        >>> check_mixer(mixers.linear_attention)
    """
    check = _Check(op)
    check.purity()
    check.twin()
    check.closed_gates()
    for form in (*_FAST, "auto"):
        check.causal(form)
        check.split(form)
        check.packed(form)
        check.contained(form)
        check.reach(form)
    check.precision()
    check.gradients()


@dataclasses.dataclass(frozen=True, eq=False)
class _Check:
    """One op under examination."""

    op: Mixer

    def run(self, given: dict[str, Any], **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
        out, state = self.op(**given, **{"output_final_state": True, **settings})
        if state is None:
            raise AssertionError("the final state was asked for and is None")
        return out, state

    def everything(self, given: dict[str, Any], *, until: int | None = None, **settings: Any) -> dict[str, torch.Tensor]:
        """Outputs, states, and gradients of a fixed random function of them (of the outputs before `until`, where it is given)."""
        leaves = {name: value.detach().clone().requires_grad_() for name, value in given.items() if _real(value)}
        state = settings.pop("initial_state", None)
        if state is not None:
            leaves["initial_state"] = state.detach().clone().requires_grad_()
        out, final = self.run({**given, **leaves}, **settings)
        draw = torch.Generator().manual_seed(7)
        weights = [torch.randn(part.shape, generator=draw, dtype=torch.float64) for part in (out, final)]
        if until is None:
            loss = (out * weights[0]).sum() + (final * weights[1]).sum()
        else:
            loss = (out[:, :until] * weights[0][:, :until]).sum()
        grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        named = {f"the gradient of {name}": grad for name, grad in zip(leaves, grads, strict=True) if grad is not None}
        return {"o": out.detach(), "the final state": final.detach(), **named}

    def state(self, given: dict[str, Any], count: int | None = None) -> torch.Tensor:
        shape = list(self.run(given)[1].shape)
        shape[0] = shape[0] if count is None else count
        return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def near(self, one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], bound: float, clause: str) -> None:
        must(one.keys() == other.keys(), f"{clause}: there are {sorted(one)} and {sorted(other)}")
        for name, value in one.items():
            must(value.shape == other[name].shape, f"{clause}: {name} has shape {list(value.shape)}, not {list(other[name].shape)}")
            if value.numel():
                off = float((value.double() - other[name]).abs().max() / other[name].abs().max().clamp_min(1e-30))
                must(off <= bound, f"{clause}: {name} is off by {off:.1e} of the largest, allowed {bound:.0e}")

    def twin(self) -> None:
        for tokens in (1, 2, 21):
            given = mixer_inputs(self.op, tokens=tokens)
            self.against_the_definition(given, self.state(given), f"twin, {tokens} tokens")
        same = mixer_inputs(self.op, tokens=21)  # where sums of a Neumann series would overflow
        for name in ("k", "B"):
            if name in same:
                same[name] = same[name][:, :1].expand_as(same[name]).contiguous()
        for name, value in (("g", 0.01), ("beta", 1.0)):
            if name in same:
                same[name] = same[name] * value if name == "g" else torch.full_like(same[name], 2 * value)
        self.against_the_definition(same, self.state(same), "twin, keys all equal")
        for name in ("k", "B"):
            if name in same:
                same[name] = torch.zeros_like(same[name])
        self.against_the_definition(same, self.state(same), "twin, keys all zero")

    def closed_gates(self) -> None:
        for closed in (-1e4, -torch.inf):
            given = mixer_inputs(self.op, tokens=21)
            for name in given.keys() & {"g", "w"}:
                given[name][:, 5], given[name][:, 13, 0] = closed, closed
            if "A" in given:
                given["dt"][:, 5], given["dt"][:, 13, 0] = 1e4, 1e4
                given["x"] = torch.where(given["dt"][..., None] > 1e3, 1e-4 * given["x"], given["x"])
            self.against_the_definition(given, self.state(given), f"closed gates (g = {closed:g})")

    def against_the_definition(self, given: dict[str, Any], state: torch.Tensor, clause: str) -> None:
        for dtype, bound in _TOLERANCE.items():
            rounded = {name: value.to(dtype) if _real(value) else value for name, value in given.items()}
            exact = {name: value.double() if _real(value) else value for name, value in rounded.items()}
            truth = self.everything(exact, initial_state=state.to(dtype).double(), form="naive")
            for value in truth.values():
                must(value.isfinite().all(), f"{clause}: the definition itself is not finite")
            for form in _FAST:
                for size in (4, 64) if form == "chunk" else (64,):
                    found = self.everything(rounded, initial_state=state.to(dtype), form=form, chunk_size=size)
                    self.near(found, truth, bound, f"{clause}, {form}, chunks of {size}, {dtype}")

    def causal(self, form: str) -> None:
        given = mixer_inputs(self.op, tokens=13)
        for dtype in _TOLERANCE:
            plain = {name: value.to(dtype) if _real(value) else value for name, value in given.items()}
            for cut in (1, 6):
                rank = plain.get("num_householder", 1)
                changed = dict(plain)
                for name, other in mixer_inputs(self.op, tokens=13, seed=1).items():
                    if name in _PER_TOKEN:
                        places = cut * (rank if name in {"k", "v", "beta"} else 1)
                        changed[name] = torch.cat([plain[name][:, :places], 3 * other[:, places:].to(dtype)], 1)
                        if name in {"beta", "mu", "gamma"}:
                            changed[name] = changed[name].clamp(max={"beta": 2, "mu": 0.9, "gamma": 1}[name])
                one = self.everything(plain, until=cut, form=form, chunk_size=8)
                two = self.everything(changed, until=cut, form=form, chunk_size=8)
                for name in one.keys() - {"the final state"}:
                    whole = name.rsplit(maxsplit=1)[-1] not in (*_PER_TOKEN, "o")
                    places = cut * (rank if name.rsplit(maxsplit=1)[-1] in {"k", "v", "beta"} else 1)
                    same = torch.equal(one[name], two[name]) if whole else torch.equal(one[name][:, :places], two[name][:, :places])
                    must(same, f"causal, {form}, {dtype}: {name} before token {cut} depends on later tokens")
                    if not whole and name != "o":
                        must(not one[name][:, places:].any(), f"causal, {form}: {name} after token {cut} is not zero")

    def split(self, form: str) -> None:
        given = mixer_inputs(self.op, tokens=13)
        state = self.state(given)
        out, final = self.run(given, initial_state=state, form=form, chunk_size=4)
        whole = {"o": out, "the final state": final}
        for cut in (0, 1, 5, 8, 13):
            first, middle = self.run(_tokens(given, 0, cut), initial_state=state, form=form, chunk_size=4)
            second, last = self.run(_tokens(given, cut, 13), initial_state=middle, form=form, chunk_size=4)
            self.near({"o": torch.cat([first, second], 1), "the final state": last}, whole, 1e-12, f"split after {cut} tokens, {form}")

    def packed(self, form: str) -> None:
        given, bounds = mixer_inputs(self.op, batch=1, tokens=17), [0, 1, 1, 10, 17]
        states = self.state(given, len(bounds) - 1)
        found = self.everything(given, initial_state=states, cu_seqlens=torch.tensor(bounds), form=form, chunk_size=4)
        must(self.run(given, cu_seqlens=bounds)[1].shape == states.shape, "packed: not one final state per sequence")
        apart = [
            self.run(_tokens(given, start, end), initial_state=states[i : i + 1], form=form, chunk_size=4)
            for i, (start, end) in enumerate(pairwise(bounds))
        ]
        alone = {"o": torch.cat([out for out, _ in apart], 1), "the final state": torch.cat([state for _, state in apart])}
        self.near({name: found[name] for name in alone}, alone, 1e-12, f"packed, {form}")
        truth = self.everything(given, initial_state=states, cu_seqlens=bounds, form="naive")
        self.near(found, truth, 1e-12, f"packed, {form}")

    def contained(self, form: str) -> None:
        given, bounds = mixer_inputs(self.op, batch=1, tokens=17), [0, 6, 13, 17]
        clean = self.everything(given, cu_seqlens=bounds, form=form, chunk_size=4)
        rank = given.get("num_householder", 1)
        for name in given.keys() & set(_PER_TOKEN):
            spoilt = {**given, name: given[name].clone()}
            spoilt[name][:, 8 * (rank if name in {"k", "v", "beta"} else 1)] = torch.nan
            found = self.everything(spoilt, cu_seqlens=bounds, form=form, chunk_size=4)
            for part in found.keys() - {"the final state"}:
                last = part.rsplit(maxsplit=1)[-1]
                if last not in (*_PER_TOKEN, "o"):
                    continue
                each = rank if last in {"k", "v", "beta"} else 1
                for start, end in ((0, 6), (13, 17)):
                    same = torch.equal(found[part][:, start * each : end * each], clean[part][:, start * each : end * each])
                    must(same, f"packed, {form}: NaN in {name} of one sequence changes {part} of another")
            must(found["o"][:, 8:13].isnan().any(), f"packed, {form}: NaN in {name} is not seen in its own sequence")

    def reach(self, form: str) -> None:
        given = mixer_inputs(self.op, tokens=13)
        size = 1 if "memories" in given else 4  # a memory's chunk holds tokens from further back
        first = {"chunk": 9 // size * size, "auto": 9 // size * size, "parallel": 0, "recurrent": 9}[form]
        clean, _ = self.run(given, form=form, chunk_size=size)
        for name in sorted(given.keys() & set(_PER_TOKEN)):
            place = 9 * (given.get("num_householder", 1) if name in {"k", "v", "beta"} else 1)
            by_head = given[name].ndim > 2 and given[name].shape[2] == clean.shape[2] and name != "shares"
            for value in (torch.nan,) if name in _GATES else (torch.nan, torch.inf, 1e200):
                spoilt = {**given, name: given[name].clone()}
                spoilt[name][0, place, 0 if by_head else slice(None)] = value
                out, _ = self.run(spoilt, form=form, chunk_size=size)
                where = f"causal, {form}: {value} in {name} changes outputs"
                must(torch.equal(out[1], clean[1]), f"{where} of another sequence")
                must(torch.equal(out[0, :first], clean[0, :first]), f"{where} before its chunk")
                must(not by_head or torch.equal(out[0, :, 1:], clean[0, :, 1:]), f"{where} of another head")

    def precision(self) -> None:
        given = mixer_inputs(self.op, tokens=13)
        for form in (*_FAST, "auto", "naive"):
            for dtype in (torch.bfloat16, torch.float16):
                low = {name: value.to(dtype) if _real(value) else value for name, value in given.items()}
                wide = {name: value.float() if _real(value) else value for name, value in low.items()}
                out, state = self.run(low, form=form)
                truth, true_state = self.run(wide, form=form)
                must(out.dtype == dtype, f"precision, {form}: {dtype} in, {out.dtype} out")
                must(state.dtype == torch.float32, f"precision, {form}: the state of {dtype} inputs is {state.dtype}, not float32")
                same = torch.equal(out, truth.to(dtype)) and torch.equal(state, true_state)
                must(same, f"precision, {form}: {dtype} inputs are not computed in float32")
            out, state = self.run(given, form=form)
            must(out.dtype == state.dtype == torch.float64, f"precision, {form}: float64 in, {out.dtype} and {state.dtype} out")

    def gradients(self) -> None:
        given = mixer_inputs(self.op, batch=1, tokens=5)
        names = [name for name, value in given.items() if _real(value)]
        leaves = [given[name].clone().requires_grad_() for name in names] + [self.state(given).requires_grad_()]
        for name, leaf in zip(names, leaves, strict=False):
            if name == "beta":  # away from the ends of its range, which differences would leave
                leaf.data.clamp_(0.1, 1.9)
            if name in {"g", "w", "g_gamma", "A"}:
                leaf.data.sub_(0.1)

        def function(*parts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.run({**given, **dict(zip(names, parts[:-1], strict=True))}, initial_state=parts[-1], form="chunk", chunk_size=4)

        try:
            torch.autograd.gradcheck(function, leaves)
        except GradcheckError as error:
            raise AssertionError(f"gradcheck: {error}") from error

    def purity(self) -> None:
        given = mixer_inputs(self.op, tokens=13)
        state = self.state(given)
        for form in (*_FAST, "auto", "naive"):
            copies = {name: value.clone() for name, value in given.items() if _real(value)}
            kept, random = state.clone(), torch.get_rng_state()
            out, final = self.run(given, initial_state=state, form=form, chunk_size=4)
            self.everything(given, initial_state=state, form=form, chunk_size=4)
            must(torch.equal(kept, state), f"purity, {form}: the initial state was changed")
            must(torch.equal(random, torch.get_rng_state()), f"purity, {form}: torch's random state was touched")
            for name, value in copies.items():
                must(torch.equal(value, given[name]), f"purity, {form}: {name} was changed")
            wanted = self.everything(given, initial_state=state, form=form, chunk_size=4)
            same = torch.equal(wanted["o"], out) and torch.equal(wanted["the final state"], final)
            must(same, f"purity, {form}: other bits when gradients are wanted")
            must(self.op(**given, form=form)[1] is None, f"purity, {form}: a final state that nobody asked for")
        empty, final = self.run(_tokens(given, 0, 0), initial_state=state)
        must(empty.shape[1] == 0 and torch.equal(final, state), "edges: without tokens, the final state is not the initial one")


def _real(value: Any) -> bool:
    """Whether it is a tensor that can be rounded and differentiated; places and choices are tensors of integers."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _tokens(given: dict[str, Any], start: int, end: int) -> dict[str, Any]:
    rank = given.get("num_householder", 1)
    return {
        name: value[:, slice(*_places(name, start, end, rank))] if name in (*_PER_TOKEN, *_PLACES) else value
        for name, value in given.items()
    }


def _places(name: str, start: int, end: int, rank: int) -> Iterator[int]:
    each = rank if name in {"k", "v", "beta"} else 1
    return iter((start * each, end * each))
