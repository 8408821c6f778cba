"""Vectors from an OpenAI-compatible endpoint: POST {base_url}/embeddings. Extra: hepm[openai]."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Self, cast

import numpy as np

from hepm.embed.protocol import FloatArray, check_vectors, diagonal, unit_rows
from hepm.errors import ImplausibleVectorError, InputError, MissingExtraError

PREFIX: Final = "openai/"


class EndpointEmbedder:
    """A model behind an OpenAI-compatible embeddings endpoint.

    The client waits and tries again on 408, 409, 429, 5xx and broken connections, as long as the server asks or with
    exponential back-off.

    Args:
        model: The model's name as the endpoint knows it.
        base_url: Up to and with `/v1`; OpenAI's own where None.
        api_key: Kept out of every repr and error; a local server may need none.
        dimensions: What the vectors must have, where known; else learned from the first answer.
        batch_size: Texts per request.
        timeout_s: Per request.
        retries: Further attempts per request.

    Raises:
        MissingExtraError: the openai package is not installed.
        InputError: OpenAI's own endpoint without a key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 128,
        timeout_s: float = 60.0,
        retries: int = 5,
    ) -> None:
        self._model = model.removeprefix(PREFIX)
        if find_spec("openai") is None:
            raise MissingExtraError(
                f"the embedder {self.name!r} needs the openai package: pip install 'hepm[openai]'. "
                "The lexical embedder 'hash-512' needs nothing."
            )
        if base_url is None and not api_key:
            raise InputError(
                f"the embedder {self.name!r} needs a key: set OPENAI_API_KEY, "
                "or OPENAI_BASE_URL to a server that wants none."
            )
        from hepm.llm.endpoint import OPENAI_URL, Endpoint  # a memory with another embedder loads no client

        self._endpoint = Endpoint(self._model, base_url or OPENAI_URL, api_key or "")
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._library = import_module("openai")
        self._client: Any = self._endpoint.open(timeout_s=timeout_s, retries=retries)

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self._model!r}, at={self._endpoint.where!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    @property
    def name(self) -> str:
        return PREFIX + self._model

    @property
    def dimensions(self) -> int:
        """Length of every vector; asks the endpoint once where nothing was embedded yet."""
        if self._dimensions is None:
            self._request(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector per text. A blank text gets the diagonal and is never sent: OpenAI refuses it.

        Raises:
            InputError: no answer, or a refusal, after all retries.
            ImplausibleVectorError: the answer is not one vector per text, all of one size, finite and not zero.
        """
        told = [row for row, text in enumerate(texts) if text.strip()]
        batches = [told[start : start + self._batch_size] for start in range(0, len(told), self._batch_size)]
        found = [self._request([texts[row] for row in batch]) for batch in batches]
        vectors_ND = np.tile(diagonal(self.dimensions), (len(texts), 1))
        for rows, vectors in zip(batches, found, strict=True):
            vectors_ND[rows] = vectors
        return vectors_ND

    def _request(self, texts: Sequence[str]) -> FloatArray:
        # A lone surrogate cannot be sent: it has no UTF-8.
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        try:
            answer = self._client.embeddings.with_raw_response.create(
                model=self._model, input=clean, encoding_format="float"
            )
        except self._library.OpenAIError as error:
            # Not `from error`: servers echo keys, and a traceback prints the cause.
            raise InputError(
                f"the embeddings endpoint at {self._endpoint.where} gave no vectors for model {self._model!r}: "
                f"{self._endpoint.without_key(str(error))}"
            ) from None
        vectors_ND = self._read(answer.text, len(texts))
        if self._dimensions is None:
            self._dimensions = vectors_ND.shape[1]
        check_vectors(vectors_ND, dimensions=self._dimensions, name=self.name)
        return vectors_ND

    def _read(self, body: str, expected: int) -> FloatArray:
        """The vectors of an answer, in the order of the texts: entries may come in any, each with its index."""
        try:
            entries = cast("list[Mapping[str, Any]]", json.loads(body)["data"])
            if len(entries) != expected:
                raise self._implausible(f"{len(entries)} vectors for {expected} texts")
            indices = [int(entry.get("index", place)) for place, entry in enumerate(entries)]
            rows = [cast("list[float]", entry["embedding"]) for entry in entries]
            vectors_ND = np.array(rows, dtype=np.float64)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, ImplausibleVectorError):
                raise
            raise self._implausible(f"an answer that is not in the OpenAI format: {body[:200]!r}") from None
        if sorted(indices) != list(range(expected)):
            raise self._implausible(f"vectors numbered {indices[:5]}… for {expected} texts")
        if vectors_ND.ndim != 2 or not vectors_ND.shape[1]:
            raise self._implausible(f"vectors of shape {vectors_ND.shape}")
        ordered_ND = np.empty_like(vectors_ND)
        ordered_ND[indices] = vectors_ND
        return unit_rows(ordered_ND, name=self.name)

    def _implausible(self, what: str) -> ImplausibleVectorError:
        where = self._endpoint.where
        return ImplausibleVectorError(
            self._endpoint.without_key(f"the embeddings endpoint at {where}, model {self._model!r}, gave {what}. ")
            + "Nothing was kept; check that it speaks POST /v1/embeddings."
        )
