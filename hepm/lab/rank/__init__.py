"""Training of the ranker of next tools (`hepm.rank`): optional, `pip install 'hepm[gnn]'`."""

from hepm.errors import MissingExtraError

__all__ = ["require"]


def require() -> None:
    """Raise MissingExtraError unless a ranker can be trained here."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "torch_geometric", "safetensors") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"training a ranker needs {', '.join(missing)}: pip install 'hepm[gnn]'")
