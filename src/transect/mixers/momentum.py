"""The delta rule with momentum (Momentum DeltaNet): what is written is a running mean of what the delta rule would write.

Paper: Momentum DeltaNet (MDN), 2026, and the code published with it (HuuYuLong/MomentumDeltaNet), which calls beta eta and gamma beta.

    e_t = beta_t (v_t - k_t^T exp(g_t) S_{t-1})
    M_t = mu_t M_{t-1} + k_t e_t^T
    S_t = exp(g_t) S_{t-1} + gamma_t M_t,   o_t = scale * q_t^T S_t

Two states side by side, so transitions can have pairs of complex eigenvalues. With mu = 0 and gamma = 1 this is the gated delta rule. The recurrence is not
stable for all gates: with mu well above 1/2, strong writes and hardly any decay states grow without bound. Gates that hang together keep it in hand; see
`transect.mixers.layers.momentum_delta_net`, which proves it for its own.

S_i holds the write of j with a weight c_ij and M_i with m_ij; neither is ever divided by, so a closed gate is exact. In a chunk they follow row by row,

    m_i = mu_i m_{i-1} (1 at i itself),   c_i = exp(g_i) c_{i-1} + gamma_i m_i

and in the parallel form they are products of decays between any two tokens, ``C = A Diag(gamma) M``. The writes solve a unit-triangular system, as those of
the delta rule do.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose


def momentum_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    mu: torch.Tensor,
    beta: torch.Tensor,
    *,
    gamma: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The delta rule with momentum (Momentum DeltaNet): what is written is a running mean of what the delta rule would write.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays of the memory ``[B, T, H]``, at most 0; -inf forgets everything.
        mu: how much of the momentum stays, ``[B, T, H]``, from 0 to below 1.
        beta: writing strengths ``[B, T, H]`` between 0 and 2.
        gamma: how much of the momentum enters the memory, ``[B, T, H]`` from 0 to 1; None for 1.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: ``[N, H, K, 2 V]``, memory and momentum side by side; None for zeros.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state ``[N, H, K, 2 V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, mu outside [0, 1), beta outside [0, 2], gamma outside [0, 1], shapes that do not belong together,
            bounds that do not add up, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> momentum_delta_rule(one, one, one, 0 * one[..., 0], 0.5 * one[..., 0], 0.5 * one[..., 0])[0].flatten()
        tensor([0.5000, 1.0000, 1.2500])
    """
    check_chunk_size(chunk_size)
    chosen = choose(form, q.shape[1])
    width = v.shape[3] if v.ndim == 4 else 0
    if initial_state is not None and (initial_state.ndim != 4 or initial_state.shape[3] != 2 * width):
        raise InputError(f"expected initial_state of shape [N, H, K, 2 V] with 2 V = {2 * width}, got {list(initial_state.shape)}.")
    memory = None if initial_state is None else initial_state[..., :width]
    problem = recurrence(q, k, v, g=g, beta=beta, scale=scale, initial_state=memory, cu_seqlens=cu_seqlens)
    shape, dtype = v.shape[:3], problem.v.dtype
    stay = _checked("mu", mu, shape).to(dtype)
    enter = torch.ones_like(stay) if gamma is None else _checked("gamma", gamma, shape).to(dtype)
    momentum = torch.zeros_like(problem.state) if initial_state is None else initial_state[..., width:].to(problem.state.dtype)
    bounds = (0, q.shape[1]) if problem.bounds is None else problem.bounds
    runs = {"naive": _naive, "recurrent": _recurrent, "parallel": _parallel, "chunk": _chunked}
    found = []
    for row, part in enumerate(problem.sequences()):
        own = slice(bounds[row], bounds[row + 1])
        held = momentum if problem.bounds is None else momentum[row : row + 1]
        found.append(runs[chosen](part, stay[:, own], enter[:, own], held, chunk_size))
    out = torch.cat([o for o, _, _ in found], 1).to(v.dtype)
    if not output_final_state:
        return out, None
    return out, torch.cat([torch.cat([state for _, state, _ in found]), torch.cat([held for _, _, held in found])], 3)


def _checked(name: str, value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.shape != shape or not value.is_floating_point():
        got = list(value.shape) if isinstance(value, torch.Tensor) else value
        raise InputError(f"expected {name} as floating-point numbers {list(shape)}, got {got}.")
    if not torch.compiler.is_compiling() and value.numel():
        low, high = (float(end) for end in value.detach().aminmax())
        if low < 0 or high > 1 or (name == "mu" and high == 1):
            most = "below 1 (momentum must not last for ever)" if name == "mu" else "1"
            raise InputError(f"expected {name} from 0 to {most}, got {low if low < 0 else high:.3g}.")
    return value


Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _gates(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    if problem.g is None or problem.beta is None:
        raise TypeError("decays and strengths are always there")
    return problem.g[..., 0].exp(), problem.beta


def _naive(problem: Recurrence, mu: torch.Tensor, gamma: torch.Tensor, momentum: torch.Tensor, size: int) -> Found:
    del size
    a, beta = _gates(problem)
    state, outputs = problem.state, []
    for t in range(problem.q.shape[1]):
        faded = a[:, t, :, None, None] * state
        error = beta[:, t, :, None] * (problem.v[:, t] - torch.einsum("bhk,bhkv->bhv", problem.k[:, t], faded))
        momentum = mu[:, t, :, None, None] * momentum + torch.einsum("bhk,bhv->bhkv", problem.k[:, t], error)
        state = faded + gamma[:, t, :, None, None] * momentum
        outputs.append(problem.scale * torch.einsum("bhk,bhkv->bhv", problem.q[:, t], state))
    return torch.stack(outputs, 1) if outputs else problem.v, state, momentum


def _recurrent(problem: Recurrence, mu: torch.Tensor, gamma: torch.Tensor, momentum: torch.Tensor, size: int) -> Found:
    del size
    a, beta = _gates(problem)
    state, outputs, queries = problem.state, [], problem.q * problem.scale
    for t in range(problem.q.shape[1]):
        state = a[:, t, :, None, None] * state
        error = beta[:, t, :, None, None] * (problem.v[:, t, :, None] - problem.k[:, t, :, None] @ state)
        momentum = torch.addcmul(mu[:, t, :, None, None] * momentum, problem.k[:, t, ..., None], error)
        state = torch.addcmul(state, gamma[:, t, :, None, None], momentum)
        outputs.append((queries[:, t, :, None] @ state)[:, :, 0])
    return torch.stack(outputs, 1) if outputs else problem.v, state, momentum


def _parallel(problem: Recurrence, mu: torch.Tensor, gamma: torch.Tensor, momentum: torch.Tensor, size: int) -> Found:
    del size
    tokens = problem.q.shape[1]
    if tokens == 0 or problem.g is None or problem.beta is None:
        return problem.v, problem.state, momentum
    q, k, v = (part.transpose(1, 2) for part in (problem.q * problem.scale, problem.k, problem.v))
    g, mu, gamma, beta = (part.transpose(1, 2) for part in (problem.g[..., 0], mu, gamma, problem.beta))
    after = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril(-1)
    # Between tokens: decays as sums of logarithms, momenta (which may be 0) as products; both start anew at every token, so nothing is divided.
    stay = torch.where(after, g[..., None], 0).cumsum(2).exp().tril()
    last = torch.where(after, mu[..., None], 1).cumprod(2).tril()
    weights = stay @ (gamma[..., None] * last)
    kept, faded = g.cumsum(2).exp(), mu.cumprod(2)
    gained = (stay @ (gamma * faded)[..., None])[..., 0]
    before = functional.pad(kept[:, :, :-1], (1, 0), value=1.0)[..., None], functional.pad(gained[:, :, :-1], (1, 0))[..., None]
    strength = beta * g.exp()
    system = strength[..., None] * functional.pad(weights[:, :, :-1], (0, 0, 1, 0)) * (k @ k.mT)
    known = beta[..., None] * v - strength[..., None] * ((k * before[0]) @ problem.state + (k * before[1]) @ momentum)
    writes = torch.linalg.solve_triangular(system.tril(-1), known, upper=False, unitriangular=True)
    out = (weights * (q @ k.mT)) @ writes + (q * kept[..., None]) @ problem.state + (q * gained[..., None]) @ momentum
    ends = [part[:, :, -1, None, None] for part in (kept, gained, faded)]
    state = ends[0] * problem.state + ends[1] * momentum + (weights[:, :, -1, :, None] * k).mT @ writes
    return out.transpose(1, 2), state, ends[2] * momentum + (last[:, :, -1, :, None] * k).mT @ writes


def _chunked(problem: Recurrence, mu: torch.Tensor, gamma: torch.Tensor, momentum: torch.Tensor, size: int) -> Found:
    batch, tokens, heads, _ = problem.q.shape
    if tokens == 0:
        return problem.v, problem.state, momentum
    size = min(size, 1 << max(tokens - 1, 0).bit_length())
    steps = -(-tokens // size)

    def split(x: torch.Tensor, fill: float = 0.0) -> torch.Tensor:  # [B, T, H, D] as [steps, B * H, size, D]
        x = functional.pad(x, (0, 0, 0, 0, 0, steps * size - tokens), value=fill)
        return x.unflatten(1, (steps, size)).permute(1, 0, 3, 2, 4).flatten(1, 2).contiguous()

    a, beta = _gates(problem)
    q, k, v = split(problem.q * problem.scale), split(problem.k), split(problem.v)
    # Filling leaves both states as they are: an open gate, momentum that neither adds, fades nor enters.
    a, mu, gamma = split(a[..., None], 1.0), split(mu[..., None], 1.0), split(gamma[..., None])
    beta, real = split(beta[..., None]), split(torch.ones_like(beta[..., None]))
    states, (c, m) = _weights(a[..., 0], mu[..., 0], gamma[..., 0], real[..., 0])
    before = (
        functional.pad(c[:, :, :-1], (0, 0, 1, 0)),
        *(functional.pad(x[:, :, :-1], (1, 0), value=one) for x, one in zip(states[:2], (1.0, 0.0), strict=True)),
    )
    weight = beta * a
    system = weight * before[0] * (k @ k.mT)
    known = torch.cat([beta * v, -weight * before[1][..., None] * k, -weight * before[2][..., None] * k], 3)
    solved = torch.linalg.solve_triangular(system.tril(-1), known, upper=False, unitriangular=True)
    own, of_state, of_momentum = solved.split([v.shape[3], k.shape[3], k.shape[3]], 3)
    scores = c * (q @ k.mT)
    state, held, outputs = problem.state.flatten(0, 1), momentum.flatten(0, 1), []
    kept, gained, faded = states
    for i in range(steps):
        writes = own[i] + of_state[i] @ state + of_momentum[i] @ held
        outputs.append(scores[i] @ writes + kept[i][..., None] * (q[i] @ state) + gained[i][..., None] * (q[i] @ held))
        ends = [x[i][:, -1, None, None] for x in (kept, gained, faded)]
        moved = ends[0] * state + ends[1] * held + (c[i][:, -1, :, None] * k[i]).mT @ writes
        state, held = moved, ends[2] * held + (m[i][:, -1, :, None] * k[i]).mT @ writes
    out = torch.stack(outputs).unflatten(1, (batch, heads)).permute(1, 0, 3, 2, 4).flatten(1, 2)
    return out[:, :tokens], state.unflatten(0, (batch, heads)), held.unflatten(0, (batch, heads))


def _weights(
    a: torch.Tensor, mu: torch.Tensor, gamma: torch.Tensor, real: torch.Tensor
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, torch.Tensor]]:
    """Of chunks ``[steps, B * H, C]``: how much of the state before is in S_i, of the momentum in S_i, and of it in M_i; and c and m ``[..., C, C]``."""
    eye = torch.eye(a.shape[2], dtype=a.dtype, device=a.device)
    kept, gained, faded = torch.ones_like(a[..., 0]), torch.zeros_like(a[..., 0]), torch.ones_like(a[..., 0])
    c = m = torch.zeros_like(a)
    rows: list[tuple[torch.Tensor, ...]] = []
    for i in range(a.shape[2]):
        gate, stay, enter = a[..., i], mu[..., i], gamma[..., i]
        faded = stay * faded
        m = stay[..., None] * m + eye[i] * real[..., i, None]
        kept, gained = gate * kept, gate * gained + enter * faded
        c = gate[..., None] * c + enter[..., None] * m
        rows.append((kept, gained, faded, c, m))
    stacked = [torch.stack(parts, 2) for parts in zip(*rows, strict=True)]
    return (stacked[0], stacked[1], stacked[2]), (stacked[3], stacked[4])
