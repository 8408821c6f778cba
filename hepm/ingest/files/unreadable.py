"""What reading damaged, truncated or refused files raises, and the sentence that a user gets."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from typing import Final

from hepm.errors import MissingExtraError

STREAM_ERRORS: Final = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
"""What reading a damaged or truncated file raises, Zstandard included."""
OPEN_ERRORS: Final = (*STREAM_ERRORS, MissingExtraError, RuntimeError)
"""What opening it raises besides: a package is missing, or `zipfile` cannot unpack it."""


class SpoolError(OSError):
    """A pipe has to be read at several places, and no temporary file can hold a copy of it."""


def why_unreadable(error: Exception) -> str:
    """Why a file cannot be read, as the reason of a Rejection."""
    if isinstance(error, MissingExtraError):
        return "it is compressed with Zstandard, which needs an extra: pip install 'hepm[zstd]'"
    if isinstance(error, PermissionError):
        return "it may not be read: check its permissions"
    if isinstance(error, SpoolError):
        return str(error)
    if isinstance(error, RuntimeError):  # an encrypted zip archive, or one compressed in a way unknown to Python
        return f"the archive cannot be unpacked: {error}"
    return f"it is damaged or not what its name says: {str(error) or type(error).__name__}"
