from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hepm.embed import HashingEmbedder, check_vectors
from hepm.embed.models import EndpointEmbedder
from hepm.errors import ImplausibleVectorError, InputError
from tests.loopback import Loopback, Reply, Request, Script, embeddings, error

KEY = "sk-secret-0123456789"


def changed(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Script:
    """Good vectors, but for what `change` does to them."""

    def answer(request: Request) -> Reply:
        good = embeddings(request)
        return replace(good, body=good.body | {"data": change(good.body["data"])})

    return answer


@pytest.fixture
def server(loopback: Loopback) -> Loopback:
    return loopback


@pytest.fixture
def embedder(server: Loopback) -> Iterator[EndpointEmbedder]:
    opened = EndpointEmbedder("small", base_url=server.url, api_key=KEY, batch_size=3, retries=2)
    yield opened
    opened.close()


TEXTS = ["cancel the order", "book a flight", "send money", "find a hotel"]


def test_vectors_come_back_in_the_order_of_the_texts_and_of_unit_length(server: Loopback, embedder: EndpointEmbedder):
    vectors = embedder.embed(TEXTS)
    check_vectors(vectors, dimensions=8, name=embedder.name)
    assert np.allclose(vectors, HashingEmbedder(8).embed(TEXTS), atol=1e-6)
    assert [request.body["input"] for request in server.requests] == [TEXTS[:3], TEXTS[3:]]
    assert {(request.path, request.body["model"]) for request in server.requests} == {("/v1/embeddings", "small")}
    assert server.keys == {KEY}


def test_entries_in_another_order_are_put_back_by_their_index(server: Loopback, embedder: EndpointEmbedder):
    server.replies = [changed(lambda data: data[::-1])]
    assert np.allclose(embedder.embed(TEXTS[:3]), HashingEmbedder(8).embed(TEXTS[:3]), atol=1e-6)


def test_a_busy_server_is_asked_again(server: Loopback, embedder: EndpointEmbedder):
    server.replies = [error(429, "slow down"), error(503, "slow down")]
    assert embedder.embed(["cancel the order"]).shape == (1, 8)
    assert len(server.requests) == 3


def test_a_refused_request_is_not_repeated_and_the_key_stays_out_of_the_error(
    server: Loopback, embedder: EndpointEmbedder
):
    server.replies = [error(401, f"Incorrect API key provided: {KEY}")]
    with pytest.raises(InputError, match="Incorrect API key provided") as caught:
        embedder.embed(["cancel the order"])
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("body", ["", '{"data": [{"index": "x", "embedding": [1]}]}'])
def test_an_answer_in_another_format_is_a_clear_error(server: Loopback, embedder: EndpointEmbedder, body: str):
    server.replies = [Reply(body)]
    with pytest.raises(ImplausibleVectorError, match="did not give 1 vectors in the OpenAI format"):
        embedder.embed(["cancel the order"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: [data[0], data[1], data[1]], "did not give 3 vectors"),
        (lambda data: [entry | {"embedding": [float("nan")] * 8} for entry in data], "NaN"),
    ],
)
def test_vectors_that_are_none_never_get_in(
    server: Loopback, embedder: EndpointEmbedder, change: Callable[[Any], Any], message: str
):
    server.replies = [changed(change)]
    with pytest.raises(ImplausibleVectorError, match=message):
        embedder.embed(TEXTS[:3])


def test_dimensions_are_learned_from_the_first_answer_and_held_against_the_next(
    server: Loopback, embedder: EndpointEmbedder
):
    assert embedder.dimensions == 8
    server.replies = [changed(lambda data: [entry | {"embedding": [1.0, 2.0]} for entry in data])]
    with pytest.raises(ImplausibleVectorError, match=r"\(1, 2\) where \(N, 8\)"):
        embedder.embed(["cancel the order"])


def test_a_blank_text_has_a_vector_and_is_never_sent(server: Loopback, embedder: EndpointEmbedder):
    vectors = embedder.embed(["", "cancel the order", " \n"])
    assert [request.body["input"] for request in server.requests] == [["cancel the order"]]
    assert np.array_equal(vectors[0], vectors[2])
    check_vectors(vectors, dimensions=8, name=embedder.name)


def test_openais_own_endpoint_needs_a_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # the environment is read at the edge, never here
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        EndpointEmbedder("text-embedding-3-small")
