"""The words of a request that say what is wanted. English function words alone are known."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W_]{2,}(?:['’]\w+)?|\w{2,}")
_FUNCTION_WORDS: Final = """
a about all also am an and any are as at be been but by can could did do does for from get give go good had has have he
hello help hey hi how if in is it its just know let like make many me more morning much my need no not now of off ok
okay on one or our out please right she should so some sure tell thank thanks that the their them then there they this
to too up us use very want was we well were what when where which who why will with would yes you your
"""
_EMPTY: Final = frozenset(_FUNCTION_WORDS.split())


def content_words(text: str) -> str:
    """The words of a text in order, without greetings and function words: "" for "Hello, what can you do?"."""
    words = _WORD.findall(text.lower())
    return " ".join(word for word in words if re.split("['’]", word)[0] not in _EMPTY)
