"""The graph library of the page: vis-network, taken from the installed package `gravis`, never copied into ours."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hepm.errors import MissingExtraError

_FOLDER: Final = ("_internal", "plotting", "third_party", "vis-network")
_SCRIPT: Final = "vis-network.min.def.js"
_LICENSE: Final = "ORIGINAL_LICENSE-MIT"

_WITHOUT_REQUIRE_JS: Final = """\
const vis = (() => {{
const require = {{ defined: () => false }};
const library = {{}};
let regeneratorRuntime;
const define = (name, needs, build) => build(library);
{script}
return library;
}})();
"""
"""The file is an AMD module, and this is all that it wants of a loader. `regeneratorRuntime` is a global that it would
otherwise create by evaluating a string, which the page's policy forbids."""


def vis_network_script() -> str:
    """JavaScript that defines `vis`, its licence first.

    Raises:
        MissingExtraError: gravis is not installed, or holds another vis-network than we know.
    """
    # Found, not imported, as `importlib.resources` would: importing gravis 0.1.0 fails beside setuptools 82 and later.
    folder = _package_folder(find_spec("gravis")).joinpath(*_FOLDER)
    try:
        script = (folder / _SCRIPT).read_text(encoding="utf-8")
        license_text = (folder / _LICENSE).read_text(encoding="utf-8")
    except OSError as error:
        raise MissingExtraError(
            f"the graph page is drawn by vis-network, which the package gravis 0.1.0 carries, but {error.filename} "
            "cannot be read: pip install --force-reinstall 'hepm[view]'"
        ) from error
    notice = "/*\nvis-network, used under the MIT license:\n\n" + license_text.replace("*/", "* /").strip() + "\n*/\n"
    # Neither sequence may stand inside a script element; in JavaScript strings the backslash changes nothing.
    whole = notice + _WITHOUT_REQUIRE_JS.format(script=script)
    return whole.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _package_folder(spec: ModuleSpec | None) -> Path:
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "the graph page is drawn by vis-network, which the package gravis carries: pip install 'hepm[view]'"
        )
    return Path(spec.submodule_search_locations[0])
