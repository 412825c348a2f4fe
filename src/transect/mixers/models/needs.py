"""Which transformers a whole model needs; ops and layers need none."""

from transect.errors import ModelError

OLDEST = (5, 24)
"""The first whose beam search reorders every cache; before it beams went on from each other's memory without a word."""


def check_transformers(version: str) -> None:
    """Refuse a transformers that would generate wrongly.

    Raises:
        ModelError: it is older than the oldest that a stack was tested with.

    Examples:
        >>> check_transformers("5.24.0")
    """
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ModelError(
            f"expected transformers {wanted} or later for a stack of layers, got {version}: older ones lose its cache in beam search."
            f" Run pip install -U 'transformers>={wanted}'. Ops and layers of transect.mixers work without it."
        )
