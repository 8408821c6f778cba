"""Commands without what one user or run alone knows: values of assignments, keys, passwords, headers.

Others read what runs of one user did. So each value that may be secret becomes a name in angle brackets, and the rest
of the command stays as it ran: "SSHPASS=<value> sshpass -e ssh build@host", "wandb login <key>".
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_WORD: Final = r"""(?!<)(?:"(?:\\.|[^"\\])*"|'[^']*'|(?:\\.|[^\s'"|;&<>()\\])+(?:"[^"\s]*"|'[^'\s]*')*)"""
_SECRET: Final = (
    r"(?:pass\w*|pwd|pw|pin|otp|secret\w*|\w*token|(?:api|access|private|account|auth|sign\w*)[-_]?key|auth\w*|cred\w*|"
    r"bearer|cookie|dsn)"
)
# What is found, a value last, and what stands in its place. WORD is a word of a command line, SECRET names a secret.
_TABLE: Final = r"""
\b(echo|printf)\s+(?!<|(?:-\w\s+)?['"]?(?:y|yes|n|no)\b)[^|;&\n]+\| => \1 <value> |
(<<<\s*)WORD => \1<value>
(?<![\w@])[^\s/:@'"<>]*:[^\s/@'"<>]+@ => <user>:<password>@
(://[^\s?'"]*\?)[^\s'"<]+ => \1<query>
(\s(?:-H|--header)[\s=]*['"]?(?!accept|content-type|user-agent)[\w-]+\s*:)(?!\s*<)[^'"\n]+ => \1 <value>
(\b(?:curl|https?|xh|wget|Invoke-\w+|iwr|irm|kubectl|docker secret)\b[^|;&\n]*?\s(?:-d|-F|-b|--cookie|--form|--json|--data[\w-]*|--post-data|-Body|-Headers|--from-literal)[\s=]+)WORD => \1<value>
(\s(?:-u|--user)[\s=]*)[^\s:'"<]+:WORD => \1<value>
((?:^|[\s'"{,@])(?:-D|--[\w-]+=)?[\w.$:\[\]]*[\w\]]\+?=)(?![=~])WORD => \1<value>
((?<![\w.-])-{1,2}(?:(?:\w[\w-]*[-_])?SECRET|\w*pass)[\w-]*[\s=]+)(?!-)WORD => \1<value>
((?<![\w.-])(?:[\w./:-]*[_./:-]SECRET|passw\w+|(?:api|access|private|secret)[-_]?key)\s+)(?![-|&;])WORD => \1<value>
(\b(?:sshpass|mysql\w*|maria\w*|mongo\w*|twine|7z|(?:docker|podman|az) login)\b[^|;&\n]*?\s-p\s*)WORD => \1<value>
(\b(?:redis-cli\b[^|;&\n]*?\s-a|ldap\w+\b[^|;&\n]*?\s-w|zip\b[^|;&\n]*?\s-P|plink\b[^|;&\n]*?\s-pw)\s*)WORD => \1<value>
(\s-p)(?=[^\s'"]*[A-Z!@#$%^*])[^\s'"<]{4,} => \1<value>
(\s-U\s*[^\s%<]+%)WORD => \1<value>
(\s(?:-m|-am|--message|--title|--body)[\s=]+)WORD => \1<value>
(\b(?:log-?in|sign-?in|(?:add-)?authtoken|set-(?:token|key)|h?t?passwd)\s+(?:-\S+\s+)*)(?!(?:https?://)?[a-z0-9-]+(?:\.[a-z0-9-]+)+(?:\s|$)|[-|&;])WORD => \1<key>
"""  # noqa: E501
_LINES: Final = _TABLE.replace("WORD", _WORD).replace("SECRET", _SECRET).strip().splitlines()
_RULES: Final = [
    (re.compile(found, re.IGNORECASE), replacement)
    for found, _, replacement in (line.partition(" => ") for line in _LINES)
]

_PIECE: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<!<)[a-z0-9]{8,}")
_ID: Final = re.compile(r"(?i)\d{9,}|(?=\w*\d)[0-9a-f-]{16,}|\w*[bcdfghjklmnpqrstvwxz]{6}\w*")


def without_values(command: str) -> str:
    """The command with each value that may be one user's own as "<value>" or "<key>"; all else stays as it is."""
    for pattern, replacement in _RULES:
        for _ in range(9):  # values of one kind
            command, count = pattern.subn(replacement, command)
            if not count:
                break
    return _PIECE.sub(lambda piece: "<key>" if is_random(piece[0]) else piece[0], command)


def is_random(text: str) -> bool:
    """Whether letters and digits change as in no word, also in none such as "assembleDebugTest" or "python311"."""
    humps = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)
    changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(humps))
    changes += sum(len(hump) < 3 for hump in humps if not hump.isdigit())
    return (changes > 3 and 4 * changes >= len(text)) or _ID.fullmatch(text) is not None
