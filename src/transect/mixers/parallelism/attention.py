"""LASP-2H: softmax attention over a divided sequence, for hybrid stacks; keys and values of all ranks are gathered.

Paper: LASP-2: Rethinking Sequence Parallelism for Linear Attention and Its Hybrid, Sun et al., arXiv 2502.07563. Here the messages do grow with the
length, which is why stacks have few such layers.
"""

import torch
import torch.distributed as dist

from transect.errors import InputError
from transect.mixers.parallelism.traffic import AllGather, Traffic, agree, place
from transect.mixers.softmax_attention import KeysAndValues, softmax_attention


def gathered_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    group: dist.ProcessGroup | None = None,
    traffic: Traffic | None = None,
) -> torch.Tensor:
    """Causal softmax attention on a sequence whose shards, all of one length, lie on the ranks of a group in order.

    All ranks must agree in B, T, G, K, V and precision, which is compared.

    Args:
        q: queries of this shard, ``[B, T, H, K]``, already turned to their places in the whole sequence.
        k: keys of this shard, ``[B, T, G, K]``.
        v: values of this shard, ``[B, T, G, V]``.
        scale: as in `transect.mixers.softmax_attention`.
        window: as there.
        group: whose ranks; None for all.
        traffic: counts what is sent.

    Raises:
        InputError: no process group, or ranks that disagree in their sizes; or as in `softmax_attention`.
    """
    rank, _ = place(group)
    if k.shape[:3] != v.shape[:3]:
        raise InputError(f"expected k and v alike but for their last axis, got {list(k.shape)} and {list(v.shape)}.")
    traffic, given = Traffic() if traffic is None else traffic, torch.cat([k, v], 3)
    agree(dict(zip("BTGKV", [*k.shape, v.shape[3]], strict=True)), like=given, group=group, traffic=traffic)
    both = AllGather.apply(given, group, traffic)
    past = None
    if rank:
        before = both[:rank].transpose(0, 1).flatten(1, 2)
        seen = torch.full((len(q),), before.shape[1], dtype=torch.long, device=q.device)
        past = KeysAndValues(k=before[..., : k.shape[3]], v=before[..., k.shape[3] :], seen=seen)
    return softmax_attention(q, k, v, scale=scale, window=window, past=past) + both[..., :0].sum()
