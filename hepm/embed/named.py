"""From the name of an embedder, as the user or the store gives it, to the embedder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hepm.embed import endpoint, sentence
from hepm.embed.hashing import HashingEmbedder
from hepm.embed.protocol import Embedder
from hepm.errors import InputError

MOST_DIMENSIONS: Final = 4096
"""Of hashed words: more tell hardly more of them apart, and every remembered state takes 4 bytes for each."""

_HASHING = re.compile(r"(?:hepm/)?hash-([1-9]\d*)")
_ON_THE_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_KNOWN = (
    f"known are: 'hash-512' (1 to {MOST_DIMENSIONS:,} dimensions), 'all-MiniLM-L6-v2', 'sentence-transformers/MODEL', "
    "'OWNER/MODEL' of the Hugging Face hub, "
    "'openai/MODEL', and the path of a folder that holds a sentence-transformers model"
)


def open_embedder(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    dimensions: int | None = None,
    device: str | None = None,
) -> Embedder:
    """The embedder of that name; loads no model yet.

    Args:
        name: "hash-512", "all-MiniLM-L6-v2", "sentence-transformers/MODEL", "owner/model" of the hub,
            "openai/MODEL", a folder's path, or the `name` of any such embedder.
        base_url: Of an OpenAI-compatible endpoint; OpenAI's own where None.
        api_key: For that endpoint.
        dimensions: What the endpoint's vectors must have; learned from its first answer where None.
        device: For sentence-transformers.

    Raises:
        InputError: no embedder has this name; the text lists what is known.
        MissingExtraError: it needs an extra that is not installed.
    """
    if match := _HASHING.fullmatch(name):
        if len(match[1]) > len(str(MOST_DIMENSIONS)) or int(match[1]) > MOST_DIMENSIONS:
            raise InputError(
                f"{name[:40]!r} has too many dimensions: hashed words take {MOST_DIMENSIONS:,} at most. "
                "A store that was made with more is embedded anew by `hepm reembed --embedder hash-512`."
            )
        return HashingEmbedder(int(match[1]))
    if name.startswith(endpoint.PREFIX) and len(name) > len(endpoint.PREFIX):
        return endpoint.EndpointEmbedder(name, base_url=base_url, api_key=api_key, dimensions=dimensions)
    if name == sentence.DEFAULT_MODEL or (name.startswith(sentence.PREFIX) and len(name) > len(sentence.PREFIX)):
        return sentence.SentenceEmbedder(name, device=device)
    if name and Path(name).expanduser().is_dir():
        return sentence.SentenceEmbedder(Path(name), device=device)
    if name.startswith(sentence.FOLDER_PREFIX):
        raise InputError(f"the embedder {name!r} was opened from a folder: give the path of that folder instead.")
    if _ON_THE_HUB.fullmatch(name) and not name.startswith((endpoint.PREFIX, "hepm/")):
        return sentence.SentenceEmbedder(name, device=device)
    raise InputError(f"no embedder is called {name!r}; {_KNOWN}.")
