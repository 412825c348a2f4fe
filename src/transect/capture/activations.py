"""`Activations`: what a capture gives back."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from transect.errors import InputError, SiteError, near_matches

if TYPE_CHECKING:
    import pyarrow as pa


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Activations:
    """Activations of ``n`` rows at some sites, with what is known about the rows and how they came about.

    ``acts["layers[10]"]`` is a tensor ``[n, d]``; its row ``i`` belongs to row ``i`` of `rows`, in the order of the data that
    was captured. With the token rule ``all`` there is a row per token, and `rows` says which.

    Args:
        tensors: site name -> ``[n, d]``. Those of a store are read from disk when asked for, mapped into memory.
        rows: a pyarrow table with ``n`` rows: ``row`` (the example, from 0), ``n_tokens``, ``start`` and ``stop`` (the token
            range that was read), ``token_ids``, ``text_hash``, and the label, group, split and dataset where there are any.
        provenance: model, data, settings, versions, timing; plain JSON values.

    Raises:
        InputError: a tensor has another number of rows than `rows`.

    Examples:
        >>> import pyarrow as pa
        >>> acts = Activations(tensors={"layers[0]": torch.eye(3)}, rows=pa.table({"row": [0, 1, 2]}), provenance={"tokens": "last"})
        >>> len(acts), acts.sites, acts.take([2, 0])["layers[0]"]
        (3, ('layers[0]',), tensor([[0., 0., 1.], [1., 0., 0.]]))
    """

    tensors: Mapping[str, torch.Tensor]
    rows: "pa.Table"
    provenance: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.tensors, dict):  # a lazy mapping has checked its shapes without loading
            return
        for name, tensor in self.tensors.items():
            if tensor.ndim != 2 or len(tensor) != len(self):
                raise InputError(f"{name} must be [n, d] with {len(self)} rows like the table of rows, got {list(tensor.shape)}.")

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites, in the order in which they were asked for."""
        return tuple(self.tensors)

    @property
    def tokens(self) -> str:
        """The token rule, in its canonical form."""
        return str(self.provenance.get("tokens", "last"))

    def __len__(self) -> int:
        return self.rows.num_rows

    def __getitem__(self, site: str) -> torch.Tensor:
        """The activations at one site, ``[n, d]``.

        Raises:
            SiteError: the site was not captured; near matches are named.
            StoreError: the site's file in the store is damaged.
        """
        if site not in self.tensors:
            raise SiteError(f"there are no activations of {site!r}: {near_matches(site, self.sites)}. Capture that site to have them.")
        return self.tensors[site]

    def __repr__(self) -> str:
        sites = self.sites if len(self.sites) < 4 else (self.sites[0], "...", self.sites[-1])
        return f"Activations({len(self)} rows, tokens={self.tokens!r}, {len(self.sites)} sites: {', '.join(sites)})"

    def take(self, rows: Sequence[int] | np.ndarray | torch.Tensor) -> "Activations":
        """The same sites with these rows, by index ``[m]`` or by mask ``[n]`` of bools; copied site by site when asked for.

        Raises:
            InputError: an index is out of range, or a mask has another length.
        """
        index = np.asarray(rows)
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise InputError(f"a mask needs {len(self)} values, got shape {list(index.shape)}.")
            index = np.flatnonzero(index)
        index = index.astype(np.int64)
        if index.ndim != 1 or (len(index) and (index.min() < -len(self) or index.max() >= len(self))):
            raise InputError(f"row indices [m] go from 0 to {len(self) - 1}, got shape {list(index.shape)} with {index.tolist()[:5]}, ....")
        index = np.where(index < 0, index + len(self), index)
        return dataclasses.replace(self, tensors=_Taken(self.tensors, torch.from_numpy(index)), rows=self.rows.take(index))

    @classmethod
    def open(cls, store: str | os.PathLike[str], *, check: bool = True) -> "Activations":
        """Open what `capture` stored; tensors are mapped into memory when asked for.

        Args:
            store: the folder.
            check: compare each site's checksum when it is first read, which reads its file once.

        Raises:
            StoreError: there is no store, it is unfinished, damaged (the file is named) or of a newer format.
        """
        from transect.capture.reader import open_store

        tensors, rows, provenance = open_store(store, check=check)
        return cls(tensors=tensors, rows=rows, provenance=provenance)


class _Taken(Mapping[str, torch.Tensor]):
    """Some rows of each tensor, gathered when asked for."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], index: torch.Tensor) -> None:
        self._tensors = tensors
        self._index = index

    def __getitem__(self, site: str) -> torch.Tensor:
        return self._tensors[site][self._index]

    def __contains__(self, site: object) -> bool:
        return site in self._tensors  # without gathering

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
