"""Log-linear attention: a state for each power of two of the past, over additive writes and over the gated delta rule.

Paper: Log-Linear Attention, Guo, Yang, Goel, Xing, Dao and Kim, arXiv 2506.04761.

    S_t^(l) = A_t merged(S_{t-1})^(l) + [l = 0] B_t,   o_t = scale * sum_l lambda_t^(l) q_t^T S_t^(l)

A_t and B_t are those of `transect.mixers.algebra`. The levels count as a binary number does: before the token at position t, counted from 0,
the levels up to the number of trailing zeros of t move together into the next one. So token s is at level ``bits(t xor s)`` of token t: level
0 is the token itself, level l the past's block of 2 ** (l - 1) tokens. With M the matrix of the base (Mamba-2, or Gated DeltaNet with its
inverse), that is

    o = (M * H) v,   H_ts = lambda_t^(bits(t xor s))

In "chunk", a chunk is one such matrix, and between chunks go the states of the levels that are longer than one: O(T log T) for texts of T
tokens. Autograd keeps those states for each chunk.
"""

from collections.abc import Sequence

import torch

from transect.mixers.algebra import Form
from transect.mixers.levels import LevelProblem


def log_linear_simple_gla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    level_weights: torch.Tensor,
    *,
    positions: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-linear attention with one data-dependent decay per head (log-linear Mamba-2).

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0; -inf forgets everything.
        level_weights: ``[B, T, H, L]``, what each level's answer is multiplied by; L levels hold ``2 ** (L - 1)`` tokens.
        positions: ``[B, T]``, integers: where each token stands in its sequence; None where all sequences begin here.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: the levels before the first token, ``[N, H, L, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the levels after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "chunk" (matrix products, O(T log T)), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final levels ``[N, H, L, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, positions that do not count up or
            that L levels cannot hold, a state without positions, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> log_linear_simple_gla(one, one, one, 0 * one[..., 0], torch.tensor([1.0, 10.0, 100.0]).expand(1, 3, 1, 3))[0].flatten()
        tensor([  1.,  11., 201.])
    """
    given = LevelProblem.of(q, k, v, g, None, level_weights, positions, scale, initial_state, cu_seqlens)
    return given.evaluate(form, chunk_size, output_final_state, v.dtype)


def log_linear_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    level_weights: torch.Tensor,
    *,
    positions: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-linear attention over the gated delta rule (log-linear Gated DeltaNet): each level erases what it holds along the key.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0; -inf forgets everything.
        beta: writing strengths ``[B, T, H]`` between 0 and 2.
        level_weights: ``[B, T, H, L]``, what each level's answer is multiplied by; L levels hold ``2 ** (L - 1)`` tokens.
        positions: ``[B, T]``, integers: where each token stands in its sequence; None where all sequences begin here.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: the levels before the first token, ``[N, H, L, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the levels after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "chunk" (matrix products, O(T log T)), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final levels ``[N, H, L, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, beta outside [0, 2], shapes that do not belong together, bounds that do not add up, positions that
            do not count up or that L levels cannot hold, a state without positions, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> levels = torch.tensor([1.0, 10.0, 100.0]).expand(1, 3, 1, 3)
        >>> log_linear_gated_delta_rule(one, one, one, 0 * one[..., 0], 0.5 * one[..., 0], levels)[0].flatten()
        tensor([ 0.5000,  3.0000, 38.0000])
    """
    given = LevelProblem.of(q, k, v, g, beta, level_weights, positions, scale, initial_state, cu_seqlens)
    return given.evaluate(form, chunk_size, output_final_state, v.dtype)
