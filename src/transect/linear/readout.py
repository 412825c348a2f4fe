"""`Readout`: an affine map from activations to scores, whatever method fitted it."""

import dataclasses
import os
from typing import Literal, get_args

import torch

from transect.errors import InputError, MismatchError
from transect.linear.files import load_object, save_object
from transect.linear.origin import Origin

Link = Literal["identity", "logistic", "softmax"]
Label = str | int | float | bool


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Readout:
    """Scores ``x @ weight.T + bias`` of activations ``x [n, d]``, in the activations' own space (no scaling to remember).

    Args:
        weight: ``[k, d]``. Two classes have one row (k = 1), more have a row each, a number has one.
        bias: ``[k]``.
        link: what turns a score into a prediction: ``logistic`` (two classes), ``softmax`` (more), ``identity`` (a number,
            or classes whose scores are not log-odds).
        classes: the labels, in the order of the scores; two classes are (negative, positive). None for a number.
        origin: where it reads and how it was made.

    Raises:
        InputError: the shapes, the link and the classes do not fit together, or a number is not finite.

    Examples:
        >>> import torch
        >>> readout = Readout(weight=torch.tensor([[2.0, 0.0]]), bias=torch.tensor([1.0]), link="logistic", classes=(0, 1))
        >>> readout.scores(torch.tensor([[1.0, 5.0], [-1.0, 5.0]]))
        tensor([ 3., -1.])
        >>> readout.predict(torch.tensor([[1.0, 5.0], [-1.0, 5.0]]))
        [1, 0]
    """

    weight: torch.Tensor
    bias: torch.Tensor
    link: Link = "identity"
    classes: tuple[Label, ...] | None = None
    origin: Origin = dataclasses.field(default_factory=Origin)

    def __post_init__(self) -> None:
        if self.link not in get_args(Link):
            raise InputError(f"link must be one of {get_args(Link)}, got {self.link!r}.")
        if self.weight.ndim != 2 or self.bias.ndim != 1 or len(self.bias) != len(self.weight):
            raise InputError(f"expected weight [k, d] and bias [k], got {list(self.weight.shape)} and {list(self.bias.shape)}.")
        expected = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        if len(self.bias) != expected:
            raise InputError(f"{self.classes} wants {expected} rows of weight, got {len(self.bias)}.")
        if self.classes is None and self.link != "identity":
            raise InputError(f"the link {self.link!r} needs classes; a number has the link 'identity'.")
        if not (torch.isfinite(self.weight).all() and torch.isfinite(self.bias).all()):
            raise InputError("weight and bias must be finite; the fit that made them diverged or saw NaN.")

    @property
    def width(self) -> int:
        """The width d of the activations it reads."""
        return self.weight.shape[1]

    def scores(self, activations: torch.Tensor) -> torch.Tensor:
        """Scores ``[..., k]`` of activations ``[..., d]``, or ``[...]`` where there is one score; on the activations' device.

        Computed in the wider of the two dtypes, and at least in float32.

        Raises:
            MismatchError: the activations have another width.
        """
        if activations.shape[-1] != self.width:
            raise MismatchError(
                f"this readout reads width {self.width}, got activations of width {activations.shape[-1]}; another site or model?"
            )
        dtype = torch.promote_types(torch.promote_types(activations.dtype, self.weight.dtype), torch.float32)
        weight = self.weight.to(activations.device, dtype)
        scores = activations.to(dtype) @ weight.T + self.bias.to(activations.device, dtype)
        return scores.squeeze(-1) if len(self.bias) == 1 else scores

    def probabilities(self, activations: torch.Tensor) -> torch.Tensor:
        """Probabilities ``[..., classes]``.

        Raises:
            InputError: the scores of this readout are not log-odds, so no probability is claimed.
        """
        if self.link == "identity":
            raise InputError("this readout's scores are not log-odds, so it has no probabilities; calibrate it first, or use its scores.")
        scores = self.scores(activations)
        if self.link == "softmax":
            return torch.softmax(scores, dim=-1)
        return torch.stack([torch.sigmoid(-scores), torch.sigmoid(scores)], dim=-1)

    def predict(self, activations: torch.Tensor) -> list[Label]:
        """The class of the best score for each row of ``[n, d]``, or the number itself."""
        scores = self.scores(activations)
        if self.classes is None:
            return scores.tolist()
        best = (scores > 0).long() if len(self.classes) == 2 else scores.argmax(dim=-1)
        return [self.classes[index] for index in best.tolist()]

    def with_origin(self, origin: Origin) -> "Readout":
        """The same map with another origin."""
        return dataclasses.replace(self, origin=origin)

    def equals(self, other: object) -> bool:
        """True where every number and every word of the two is the same."""
        return (
            isinstance(other, Readout)
            and (self.link, self.classes, self.origin) == (other.link, other.classes, other.origin)
            and torch.equal(self.weight, other.weight)
            and torch.equal(self.bias, other.bias)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with a JSON header, atomically."""
        header = {"link": self.link, "classes": None if self.classes is None else list(self.classes), "origin": self.origin.to_json()}
        save_object(path, kind="Readout", tensors={"weight": self.weight, "bias": self.bias}, header=header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Readout":
        """Read back what `save` wrote.

        Raises:
            StoreError: the file is missing, damaged or holds something else.
        """
        tensors, header = load_object(path, kind="Readout")
        classes = None if header["classes"] is None else tuple(header["classes"])
        origin = Origin.from_json(header["origin"])
        return cls(weight=tensors["weight"], bias=tensors["bias"], link=header["link"], classes=classes, origin=origin)
