"""Where model, address and key come from, and what an import brings in."""

from __future__ import annotations

import pytest

from hepm.errors import InputError, MissingExtraError
from hepm.llm import Client, Endpoint
from hepm.llm.endpoint import OPENAI_URL


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HEPM_LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_what_is_not_given_comes_from_the_environment(environment: pytest.MonkeyPatch):
    environment.setenv("HEPM_LLM_MODEL", "small")
    environment.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    environment.setenv("OPENAI_API_KEY", "k")
    assert Endpoint.from_environment() == Endpoint("small", "http://localhost:8000/v1", "k")
    assert Endpoint.from_environment(model="large") == Endpoint("large", "http://localhost:8000/v1", "k")
    environment.delenv("OPENAI_BASE_URL")
    assert Endpoint.from_environment() == Endpoint("small", OPENAI_URL, "k")


@pytest.mark.parametrize(
    "address", ["", "secret:8000", "ftp://secret/v1", "http://", "http://secret:x/v1", "http://[secret/v1"]
)
def test_an_address_that_is_none_is_an_error_that_does_not_show_it(address: str):
    with pytest.raises(InputError, match="write it like") as caught:
        Endpoint("m", address)
    assert "secret" not in str(caught.value)


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hepm.llm.question.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"openai and pydantic: pip install 'hepm\[llm\]'"):
        Client(Endpoint("m", "http://localhost:1/v1"))
