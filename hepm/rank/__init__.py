"""A ranker of next tools that is trained on the memory's own graph: optional, `pip install 'hepm[gnn]'`.

Importing `hepm.rank` loads neither torch nor PyTorch Geometric: a trained ranker answers from numpy alone
(`hepm.rank.ranker`). `hepm.rank.train` and the models need them.
"""

from hepm.errors import MissingExtraError

__all__ = ["require"]


def require() -> None:
    """Raise MissingExtraError unless a ranker can be trained here."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "torch_geometric", "safetensors") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"training a ranker needs {', '.join(missing)}: pip install 'hepm[gnn]'")
