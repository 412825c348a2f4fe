"""The recurrence from chunk to chunk, forwards and backwards: the only part of the chunk form that is a loop.

    E <- U - W S,   S <- fade S + K^T E         with erasing keys; U and W are solved beforehand
    S <- fade S + K^T V                         without

Chunks come step after step, ``sizes[i]`` of them at step i; a step's chunks go on from the first so many states of the step before.
"""

import torch


def scan(
    state: torch.Tensor,
    writes: torch.Tensor,
    added: torch.Tensor,
    *,
    solved: torch.Tensor | None,
    fade: torch.Tensor | None,
    sizes: list[int],
) -> torch.Tensor:
    """States at the chunks' starts ``[m, K, V]``. `state` becomes that at the end and, with erasing keys, `added` becomes E, in place.

    Args:
        state: ``[n, K, V]``.
        writes: ``[m, C, K]``, writing keys decayed to the chunk's end.
        added: ``[m, C, V]``, U; or the values.
        solved: ``[m, C, K]``, W; or None.
        fade: ``[m, K or 1, 1]``, the decay of the whole chunk, or None.
        sizes: chunks at each step, never more than at the step before.
    """
    starts = state.new_empty(added.shape[0], *state.shape[1:])
    slots, fades = starts.split(sizes), None if fade is None else fade.split(sizes)
    slots[0].copy_(state[: sizes[0]])
    if solved is None:
        keys, erasing, values = None, None, torch.bmm(writes.mT, added).split(sizes)
    else:
        keys, erasing, values = writes.mT.split(sizes), solved.split(sizes), added.split(sizes)
    for i, count in enumerate(sizes):
        follows = i + 1 < len(sizes) and sizes[i + 1] == count
        target = slots[i + 1] if follows else state[:count]
        if keys is None or erasing is None:
            if fades is None:
                torch.add(slots[i], values[i], out=target)
            else:
                torch.addcmul(values[i], slots[i], fades[i], out=target)
        else:
            values[i].baddbmm_(erasing[i], slots[i], alpha=-1)
            if fades is None:
                torch.baddbmm(slots[i], keys[i], values[i], out=target)
            else:
                torch.mul(slots[i], fades[i], out=target).baddbmm_(keys[i], values[i])
        if not follows and i + 1 < len(sizes):
            slots[i + 1].copy_(state[: sizes[i + 1]])
    return starts


def scan_backward(
    dstate: torch.Tensor,
    dstarts: torch.Tensor,
    dadded: torch.Tensor,
    *,
    writes: torch.Tensor,
    solved: torch.Tensor | None,
    fade: torch.Tensor | None,
    sizes: list[int],
) -> torch.Tensor:
    """Gradients of the states at the chunks' ends ``[m, K, V]``. `dstate` goes from the end to the start, and `dadded` is completed, in place.

    Args:
        dstate: ``[n, K, V]``.
        dstarts: ``[m, K, V]``, what the outputs' gradients say of the states at the starts.
        dadded: ``[m, C, V]``, what they say of E or of the values.
        writes, solved, fade, sizes: as in `scan`.
    """
    ends = torch.empty_like(dstarts)
    slots, fades, fresh = ends.split(sizes), None if fade is None else fade.split(sizes), dstarts.split(sizes)
    keys, values = writes.split(sizes), dadded.split(sizes)
    erasing = None if solved is None else solved.mT.split(sizes)
    last = len(sizes) - 1
    slots[last].copy_(dstate[: sizes[last]])
    for i in range(last, -1, -1):
        follows = i > 0 and sizes[i - 1] == sizes[i]
        target = slots[i - 1] if follows else dstate[: sizes[i]]
        if fades is None:
            torch.add(fresh[i], slots[i], out=target)
        else:
            torch.addcmul(fresh[i], slots[i], fades[i], out=target)
        if erasing is not None:
            values[i].baddbmm_(keys[i], slots[i])
            target.baddbmm_(erasing[i], values[i], alpha=-1)
        if not follows and i > 0:
            slots[i - 1].copy_(dstate[: sizes[i - 1]])
    if solved is None:
        dadded.baddbmm_(writes, ends)
    return ends
