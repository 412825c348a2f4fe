"""RWKV-4's time mixing: a mean of the values so far, weighted by exp(key), older ones less, the newest with a bonus.

Paper: RWKV: Reinventing RNNs for the Transformer Era, Peng et al., arXiv 2305.13048.

    wkv_t = (sum_{s<t} exp((t-1-s) g + k_s) v_s + exp(u + k_t) v_t) / (sum_{s<t} exp((t-1-s) g + k_s) + exp(u + k_t)),   g <= 0

The state is that mean without the bonus, m, and the logarithm of its weights' sum, z; with ``sigma`` the sigmoid

    wkv_t = sigma(z - u - k_t) m + sigma(u + k_t - z) v_t
    z' = log(exp(z + g) + exp(k_t)),   m' = sigma(z + g - k_t) m + sigma(k_t - z - g) v_t

so that no exponential is ever taken of a key: shares are sigmoids that add up to 1. Numerator, denominator and a running maximum, which
RWKV keeps instead, say the same in three numbers. RWKV-4 has one weight per channel: its channels are heads of one value here.
Logarithms are added up in 64 bits, as large keys leave few digits in 32.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, checked_bounds
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose

_Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def wkv(
    log_weights: torch.Tensor,
    v: torch.Tensor,
    g_gamma: torch.Tensor,
    bonus: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """RWKV-4's weighted mean of the values so far.

    Args:
        log_weights: the keys, logarithms of weights, ``[B, T, H]``, finite and of any size; RWKV-4 has a head for each channel.
        v: values ``[B, T, H, V]``; V is 1 in RWKV-4.
        g_gamma: log decays ``[H]``, at most 0 (RWKV-4's ``-exp(time_decay)``); -inf remembers one token.
        bonus: what the newest token's logarithm has on top, ``[H]`` (RWKV-4's ``time_first``).
        initial_state: ``[N, H, V + 1]``, the mean so far and, last, the logarithm of the weights' sum; None for zeros and -inf.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (sums by doubling within chunks), "recurrent" (a loop, for decoding), "parallel" (a softmax over a T x T
            matrix), "naive" (the definition, token by token), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state ``[N, H, V + 1]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, or a form or chunk size that
            does not exist.

    Examples:
        >>> weights, values = torch.zeros(1, 3, 1), torch.tensor([3.0, 5.0, 10.0]).view(1, 3, 1, 1)
        >>> wkv(weights, values, torch.zeros(1), torch.zeros(1))[0].flatten()
        tensor([3., 4., 6.])
    """
    _check(log_weights, v, g_gamma, bonus)
    check_chunk_size(chunk_size)
    batch, tokens, heads, width = v.shape
    chosen = choose(form, tokens)
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    dtype = torch.float32
    for part in (log_weights, v, g_gamma, bonus):
        dtype = torch.promote_types(dtype, part.dtype)
    shape = (batch if bounds is None else len(bounds) - 1, heads, width + 1)
    if initial_state is None:
        mean, z = v.new_zeros(*shape[:2], width, dtype=dtype), v.new_full(shape[:2], -torch.inf, dtype=torch.float64)
    else:
        if initial_state.shape != shape or not initial_state.is_floating_point():
            raise InputError(
                f"expected initial_state of shape {list(shape)} ([sequences, H, V + 1]), got {initial_state.dtype}"
                f" {list(initial_state.shape)}. Pass the final state of the same op and batch, or None."
            )
        mean, z = initial_state[..., :-1].to(dtype), initial_state[..., -1].double()
    k, values, g, u = log_weights.double(), v.to(dtype), g_gamma.double(), bonus.double()
    outputs, means, sums = [], [], []
    pieces = [(0, tokens, slice(None))] if bounds is None else [(*ends, slice(i, i + 1)) for i, ends in enumerate(pairwise(bounds))]
    for start, end, rows in pieces:
        given = (k[:, start:end], values[:, start:end], g, u, mean[rows], z[rows])
        if start == end:
            out, last, log_sum = given[1], mean[rows], z[rows]
        elif chosen == "naive":
            out, last, log_sum = _naive(*given)
        elif chosen == "parallel":
            out, last, log_sum = _parallel(*given)
        else:
            out, last, log_sum = _recurrent(*given) if chosen == "recurrent" else _chunked(*given, size=chunk_size)
        outputs.append(out)
        means.append(last)
        sums.append(log_sum)
    o = torch.cat(outputs, 1).to(v.dtype)
    return o, torch.cat([torch.cat(means), torch.cat(sums)[..., None].to(dtype)], -1) if output_final_state else None


def _check(k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, u: torch.Tensor) -> None:
    for name, part in (("log_weights", k), ("v", v), ("g_gamma", g), ("bonus", u)):
        if not isinstance(part, torch.Tensor) or not part.is_floating_point():
            raise InputError(f"expected {name} as a tensor of floating-point numbers, got {getattr(part, 'dtype', type(part).__name__)}.")
    if v.ndim != 4 or 0 in v.shape[2:] or k.shape != v.shape[:3] or g.shape != v.shape[2:3] or u.shape != g.shape:
        raise InputError(
            "expected log_weights [B, T, H], v [B, T, H, V], g_gamma [H] and bonus [H], with H and V above 0, got"
            f" {list(k.shape)}, {list(v.shape)}, {list(g.shape)} and {list(u.shape)}."
        )
    if torch.compiler.is_compiling():  # to read a number would cut the graph in two
        torch._assert_async(~(g.detach() > 0).any(), "expected log decays of at most 0.")
    elif float(g.detach().amax()) > 0:
        raise InputError(f"expected log decays of at most 0, got {float(g.detach().amax()):.3g}. Pass -exp(time_decay).")


def _join(old: torch.Tensor, new: torch.Tensor, z_old: torch.Tensor, z_new: torch.Tensor) -> torch.Tensor:
    """The mean of two means ``[..., V]``, whose weights have sums of the logarithms ``[...]``."""
    above = z_old - z_new
    return above.sigmoid()[..., None].to(old.dtype) * old + (-above).sigmoid()[..., None].to(old.dtype) * new


def _recurrent(k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, u: torch.Tensor, mean: torch.Tensor, z: torch.Tensor) -> _Found:
    outputs = []
    for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append(_join(mean, value, z, u + key))
        mean = _join(mean, value, z + g, key)
        z = torch.logaddexp(z + g, key)
    return torch.stack(outputs, 1), mean, z


def _chunked(
    k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, u: torch.Tensor, mean: torch.Tensor, z: torch.Tensor, *, size: int
) -> _Found:
    """Within chunks, each token joins what ends 1, 2, 4, ... tokens before it; then chunks go on from each other in a loop."""
    tokens = k.shape[1]
    size = min(size, 1 << (tokens - 1).bit_length())
    over = -tokens % size  # what is added at the end is causal, too: nobody sees it
    z_in = functional.pad(k, (0, 0, 0, over)).unflatten(1, (-1, size))
    mean_in = functional.pad(v, (0, 0, 0, 0, 0, over)).unflatten(1, (-1, size))
    reach = 1
    while reach < size:
        z_old, mean_old = z_in[:, :, :-reach] + reach * g, mean_in[:, :, :-reach]
        z_new, mean_new = z_in[:, :, reach:], mean_in[:, :, reach:]
        mean_in = torch.cat([mean_in[:, :, :reach], _join(mean_old, mean_new, z_old, z_new)], 2)
        z_in = torch.cat([z_in[:, :, :reach], torch.logaddexp(z_old, z_new)], 2)
        reach *= 2
    befores, sums = [mean], [z]
    for mean_chunk, z_chunk in zip(mean_in[:, :-1, -1].unbind(1), z_in[:, :-1, -1].unbind(1), strict=True):
        carried = sums[-1] + size * g
        befores.append(_join(befores[-1], mean_chunk, carried, z_chunk))
        sums.append(torch.logaddexp(carried, z_chunk))
    old, z_old = torch.stack(befores, 1)[:, :, None], torch.stack(sums, 1)[:, :, None]
    since = torch.arange(1, size + 1, dtype=g.dtype, device=g.device)[:, None] * g  # [size, H]
    means = _join(old, mean_in, z_old + since, z_in).flatten(1, 2)[:, :tokens]
    logs = torch.logaddexp(z_old + since, z_in).flatten(1, 2)[:, :tokens]
    before, z_before = torch.cat([mean[:, None], means[:, :-1]], 1), torch.cat([z[:, None], logs[:, :-1]], 1)
    return _join(before, v, z_before, u + k), means[:, -1], logs[:, -1]


def _parallel(k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, u: torch.Tensor, mean: torch.Tensor, z: torch.Tensor) -> _Found:
    """A softmax over the state and all tokens, for each token and for one after the last, which reads the final state."""
    tokens = k.shape[1]
    places = torch.arange(tokens + 1, device=k.device)
    gap = (places[:, None] - 1 - places[None, :-1])[..., None]  # [T + 1, T, 1]: -1 for the token itself
    aged = torch.where(gap > 0, gap.clamp_min(1) * g, 0.0)  # no 0 * inf
    logs = (k[:, None] + aged + torch.where(gap == -1, u, 0.0)).masked_fill(gap < -1, -torch.inf)
    start = z[:, None] + torch.where(places[:, None] > 0, places[:, None].clamp_min(1) * g, 0.0)
    logs = torch.cat([start[:, :, None], logs], 2)  # [B, T + 1, 1 + T, H]
    shares = logs.softmax(2).to(v.dtype)
    first = shares[:, 0, :1, :, None] * mean[:, None] + shares[:, 0, 1:2, :, None] * v[:, :1]
    rest = shares[:, 1:, 0, :, None] * mean[:, None] + torch.einsum("btsh,bshv->bthv", shares[:, 1:, 1:], v)
    return torch.cat([first, rest[:, :-1]], 1), rest[:, -1], logs[:, -1].logsumexp(1)


def _naive(k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, u: torch.Tensor, mean: torch.Tensor, z: torch.Tensor) -> _Found:
    """The definition: for each token the two sums, over the largest of their weights; the state is what a token after the last would sum."""

    def before(t: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        aged = [k[:, s] + (t - 1 - s) * g if s < t - 1 else k[:, s] for s in range(t)]  # no 0 * inf
        return [z + t * g if t else z, *aged], [mean, *v[:, :t].unbind(1)]

    outputs = []
    for t in range(k.shape[1]):
        terms, values = before(t)
        outputs.append(_ratio([*terms, u + k[:, t]], [*values, v[:, t]])[0])
    return torch.stack(outputs, 1), *_ratio(*before(k.shape[1]))


def _ratio(terms: list[torch.Tensor], values: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    logs, stacked = torch.stack(terms), torch.stack(values)
    largest = logs.detach().amax(0)
    weights = (logs - largest).exp()
    below = weights.sum(0)
    above = (weights[..., None].to(stacked.dtype) * stacked).sum(0)
    return above / below[..., None].to(above.dtype), largest + below.log()
