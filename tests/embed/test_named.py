import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hepm.embed import check_vectors, open_embedder
from hepm.errors import ImplausibleVectorError, InputError, MissingExtraError

NAMES = [
    ("hash-512", "hepm/hash-512"),
    ("BAAI/bge-small-en-v1.5", "sentence-transformers/BAAI/bge-small-en-v1.5"),
    ("openai/text-embedding-3-small", "openai/text-embedding-3-small"),
]


def test_an_embedder_is_opened_by_its_name_and_its_name_opens_it_again() -> None:
    for asked, name in NAMES:
        opened = open_embedder(asked, api_key="key")
        assert opened.name == name
        assert open_embedder(opened.name, api_key="key").name == name


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    for name in ["", "hash-0", "bert", "openai/", "./no-such"]:
        with pytest.raises(InputError, match="known are: 'hash-512'"):
            open_embedder(name)


def in_python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_and_naming_loads_neither_torch_nor_an_http_client():
    heavy = {"torch", "sentence_transformers", "transformers", "openai", "httpx", "httpx2", "urllib.request"}
    loaded = in_python(
        "import sys; from hepm.embed import open_embedder; open_embedder('hash-512').embed(['x']);"
        "e = open_embedder('all-MiniLM-L6-v2');"
        f"print(e.name, e.dimensions, sorted({heavy!r} & set(sys.modules)))"
    )
    assert loaded == "sentence-transformers/all-MiniLM-L6-v2 384 []"


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("all-MiniLM-L6-v2", "sentence_transformers", "hepm[embed]"), ("openai/m", "openai", "hepm[openai]")],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, module: str, extra: str):
    # An interpreter without the package: only what is on this path is found.
    packages = Path(np.__file__).parent.parent
    for needed in ("numpy", "numpy.libs"):
        if (packages / needed).exists():
            (tmp_path / needed).symlink_to(packages / needed)
    (tmp_path / "hepm").symlink_to(Path(sys.modules["hepm"].__file__ or "").parent)
    (tmp_path / "hepm-0.dist-info").mkdir()
    (tmp_path / "hepm-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: hepm\nVersion: 0\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from hepm.embed import open_embedder; from hepm.errors import MissingExtraError\n"
        f"try: open_embedder({name!r}, api_key='k')\n"
        "except MissingExtraError as error: print(error)"
    )
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert f"pip install '{extra}'" in bare.stdout
    assert issubclass(MissingExtraError, ImportError)


POISON = [
    (np.ones((2, 3)) / np.sqrt(3), "shape"),
    (np.ones((1, 4)), "length 2 "),
    (np.array([[0.5, 0.5, 0.5, 0.5], [np.nan, 0, 0, 0]]), "vector 1 of 2 .* NaN"),
    (np.array([[np.inf, 0, 0, 0]]), "infinity"),
]


def test_a_vector_that_would_poison_a_store_is_refused_with_its_row() -> None:
    for vectors, message in POISON:
        with pytest.raises(ImplausibleVectorError, match=message):
            check_vectors(vectors.astype(np.float32), dimensions=4, name="m")
