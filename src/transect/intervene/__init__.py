"""What acts on a running model: monitors that score tokens while it generates."""

__all__: list[str] = []
