"""What secrets look like: by their own shape, by the header or option they stand in, by the word before them.

Ordinary text is to stay. A rule that has only a word to go by asks that the value does not read like one: it holds a
digit beside letters, stands in quotes, or ends a command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        kind: Stands in what replaces it.
        pattern: Where it has a group named "secret", only that group is replaced.
        literals: In lower case; every text that the pattern matches holds one of them, whatever its case. () where
            there is none to look for.
    """

    kind: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...] = ()


# A text may have been cut before it comes here: "…" then ends a key that is shorter than a whole one.
# Bounded where nothing may come of it: of a text that repeats "sk-" each place begins a key, and each would be read on.
_KEY: Final = r"(?:(?=[\w-]{0,255}?\d)[\w-]{16,}|[\w-]{0,255}…)"
# Where the prefix alone is telling: no digit is asked for, and more is left of what was cut.
_RANDOM: Final = r"(?:[\w-]{16,}|[\w-]{6,}…)"
_VALUE: Final = r"""(?P<secret>\\?"[^"\\\n]{3,}|'[^'\n]{3,}|[^\s"'`,;}\])>\\\[]{3,})"""
# What stands there in prose, in documentation and in code that reads the secret from elsewhere; and links.
_NO_VALUE: Final = (
    r"""(?!(?:the|this|that|a|an|your|must|should|is)\b)"""
    r"""(?!\\?["'`]?(?:(?:null|none|nil|true|false|undefined|str|string|text|required|optional)\b"""
    r"""|https?:|\[redacted|\*{3}|<|\$?\{))"""
)
# Also as Markdown sets it in bold, and as PHP and Ruby write it; "token => ..." alone begins a function.
_IS: Final = r"""\\?["']?\*{0,2}[ \t]*(?:[:=]|=>(?=[ \t]*\\?["']))\*{0,2}[ \t]*"""

_PASSWORD: Final = r"(?:passw(?:or)?d|passphrase|passcode|pwd)"
_PASSWORD_LITERALS: Final = ("passw", "passphrase", "passcode", "pwd")

# A word that does not read like one: a digit beside letters, four digits, or a sign between letters.
_CHARACTER: Final = r"""[^\s"'`,;<>()\[\]{}|…]"""
_UP_TO: Final = rf"{_CHARACTER}{{0,127}}?"
_SECRETIVE: Final = (
    _NO_VALUE + r"(?![\w.+-]{1,64}@[\w-]+\.\w|[$%]\w|\S{0,128}?==)"
    r"(?!\d{1,9}[-–]\d+\b|\d{1,9}[-–]?(?:char|digit|letter|symbol|day|hour|minute|second|week|month|year|bit|byte|time))"
    r"(?!(?:base|utf|sha|md|pbkdf|argon|bcrypt|oauth|http|version|v|step|page|line|section|figure|table)[-_]?\d)"
    rf"(?P<secret>(?:(?={_UP_TO}\d)(?={_UP_TO}[A-Za-z])|(?={_UP_TO}(?:\d{{4}}|\w[!#$%^&~]\w)))"
    rf"{_CHARACTER}{{4,128}}(?<![.:?]))"
)
_LONG: Final = rf"[\"'`]?(?={_CHARACTER}{{8}})(?!\d+\b){_SECRETIVE}"

# What follows an option in prose: "use the --password option", "--password requires --user"; and names of variables.
_NO_OPTION: Final = (
    _NO_VALUE + r"(?!-|[$%]\w|(?-i:[A-Z_]+)(?![\w-])"
    r"|(?:option|flag|argument|parameter|switch|value|prompt|file|name|stdin|string|here|instead|first|again|too|and|or"
    r"|for|with|when|if|it|in|on|to|not|require|need|can|cannot|will|may|was|are|has)s?\b)"
)
_OPTION_VALUE: Final = (
    rf"""(?P<secret>\\?"[^"\\\n]{{3,}}(?=\\?")|'[^'\n]{{3,}}(?=')|(?={_UP_TO}\d){_CHARACTER}{{4,256}}"""
    rf"""|{_CHARACTER}{{4,256}}(?=[ \t]*(?:$|[\n|&;>"'`\\]|[ \t]-)))"""
)

# What pages, locks and repeated requests are told apart by.
_COUNTERS: Final = (
    *("next", "starting", "page", "continuation", "client", "request", "idempotency", "change", "lock", "sequence"),
    *("action", "product", "unit", "import", "confirmation"),
)
_NO_COUNTER: Final = "".join(f"(?<!{word}-)" for word in _COUNTERS)


def _option(kind: str, words: str, *literals: str) -> Rule:
    """What stands after `--db-password`, say, and a space or an equals sign."""
    expression = rf"--(?:[a-z0-9]+-)*{words}[ \t=]{_NO_OPTION}{_OPTION_VALUE}"
    return Rule(kind, re.compile(expression, re.IGNORECASE | re.MULTILINE), literals)


BY_SHAPE: Final = (
    Rule(
        "private-key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)"
        ),
        ("-----begin",),
    ),
    Rule("anthropic-key", re.compile(r"(?<![A-Za-z0-9])sk-ant-" + _KEY), ("sk-ant-",)),
    Rule("openai-key", re.compile(r"(?<![A-Za-z0-9])sk-" + _KEY), ("sk-",)),
    Rule("github-token", re.compile(r"\bgh[pousr]_" + _KEY), ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    Rule("github-token", re.compile(r"\bgithub_pat_" + _KEY), ("github_pat_",)),
    Rule(
        "gitlab-token",
        re.compile(r"\bgl(?:pat|dt|rt|ptt)-" + _RANDOM),
        ("glpat-", "gldt-", "glrt-", "glptt-"),
    ),
    Rule("aws-key", re.compile(r"\b(?:AKIA|ASIA)(?:[A-Z0-9]{16}|[A-Z0-9]*…)"), ("akia", "asia")),
    Rule("google-key", re.compile(r"\bAIza" + _KEY), ("aiza",)),
    Rule("google-key", re.compile(r"\b(?:ya29\.|GOCSPX-)" + _RANDOM), ("ya29.", "gocspx-")),
    Rule("slack-token", re.compile(r"\bxox[a-z]-(?:[A-Za-z0-9-]{10,}|[A-Za-z0-9-]{0,255}…)"), ("xox",)),
    Rule("slack-token", re.compile(r"\bxapp-\d" + _RANDOM), ("xapp-",)),
    Rule(
        "webhook",
        re.compile(
            r"\b(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)/(?P<secret>[\w/-]{8,})"
        ),
        ("hooks.slack.com/", "/api/webhooks/"),
    ),
    Rule("huggingface-token", re.compile(r"\bhf_(?:[A-Za-z0-9]{20,}|[A-Za-z0-9]*…)"), ("hf_",)),
    Rule(
        "stripe-key", re.compile(r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"), ("k_live_", "k_test_", "whsec_")
    ),
    Rule("npm-token", re.compile(r"\bnpm_(?:[A-Za-z0-9]{30,}|[A-Za-z0-9]{6,}…)"), ("npm_",)),
    Rule("pypi-token", re.compile(r"\bpypi-AgE" + _RANDOM), ("pypi-age",)),
    Rule("sendgrid-key", re.compile(r"\bSG\.[\w-]{16,64}(?:\.[\w-]{16,}|\.?[\w-]{0,64}…)"), ("sg.",)),
    Rule(
        "digitalocean-token",
        re.compile(r"\bdo[op]_v1_(?:[a-f0-9]{32,}|[a-f0-9]{6,}…)"),
        ("dop_v1_", "doo_v1_"),
    ),
    Rule(
        "api-key",
        re.compile(r"\b(?:gsk_|nvapi-|pplx-|xai-|lin_api_|dckr_pat_|shp(?:at|ss)_)" + _KEY),
        ("gsk_", "nvapi-", "pplx-", "xai-", "lin_api_", "dckr_pat_", "shpat_", "shpss_"),
    ),
    Rule("jwt", re.compile(r"\beyJ[\w-]{8,4096}+(?:\.[\w-]{4,}(?:\.[\w-]*)?|…)"), ("eyj",)),
)
"""Keys and tokens that can be told by themselves."""

BY_PLACE: Final = (
    # Up to the last "@" before the path: a password may hold one. A port is no password where the text was cut.
    Rule(
        "password",
        re.compile(r"://(?P<secret>[^\s/:@\"'<>]{0,256}:(?!\d{1,5}[…?#])[^\s/\"'<>]{1,256})(?:@|…)"),
        ("://",),
    ),
    Rule("token", re.compile(r"\bbearer\s+(?P<secret>(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,})", re.IGNORECASE), ("bearer",)),
    Rule(
        "password",
        re.compile(
            r"authorization" + _IS + r"""\\?["']?(?:basic|digest|negotiate|token|apikey|api-key)[ \t]+"""
            r"(?P<secret>(?=[\w+/.~-]*?(?:\d|=|(?-i:[a-z][A-Z])))[\w+/.~-]{4,}={0,2})",
            re.IGNORECASE,
        ),
        ("authorization",),
    ),
    Rule(
        "token",
        re.compile(
            r"""(?<![a-z])authorization\\?["']?[ \t]*:[ \t]*\\?["']?(?!aws4-)"""
            r"(?P<secret>(?=[\w+/.~-]*?\d)[\w+/.~-]{16,}={0,2})(?!\()",
            re.IGNORECASE,
        ),
        ("authorization",),
    ),
    Rule(
        "cookie",
        re.compile(
            r"""cookie(?:\\?["']?[ \t]*[:=]|(?<=--cookie)[ \t])[ \t]*\\?["']?"""
            r"""(?P<secret>[\w.-]+=[^\s;"'\\]{4,}[^"'\\\n]*)""",
            re.IGNORECASE,
        ),
        ("cookie",),
    ),
    Rule(
        "token",
        re.compile(r"[?&](?:sig|x-amz-signature|x-goog-signature)=(?P<secret>[\w%+/=-]{20,})", re.IGNORECASE),
        ("sig=", "-signature="),
    ),
    _option("password", r"(?:password|passwd|passphrase|passcode|pass|pwd)", "-pass", "-pwd"),
    _option("token", _NO_COUNTER + "token", "-token"),
    _option("secret", "secret", "-secret"),
    _option("api-key", r"(?:api|access|private|secret|account)[-_]?key", "key"),
    Rule(
        "password",
        re.compile(
            r"\bcurl\b[^\n|;]{0,300}?[ \t](?:-u|--user)[ \t=]*\\?[\"']?"
            r"(?P<secret>[^\s:\"'<>$\\]{1,64}:[^\s\"'<>$\\]{3,})"
        ),
        (" -u", "--user"),
    ),
    Rule(
        "password",
        re.compile(
            r"\b(?:sshpass[ \t]+-p[ \t]*|mysql[\w-]{0,32}[ \t][^\n|;]{0,200}?(?<=[ \t])-p)\\?[\"']?"
            r"(?P<secret>[^\s\"'<>$\\-][^\s\"'<>\\]{2,})"
        ),
        ("sshpass", "mysql"),
    ),
)
"""What stands in a header, in a URL or after an option of a command."""

BY_WORD: Final = (
    # Several words, up to the end of the line or of the sentence.
    Rule(
        "password",
        re.compile(
            r"""passphrase\\?["']?\*{0,2}[ \t]*:\*{0,2}[ \t]*"""
            + _NO_VALUE
            + r"""(?P<secret>[^\s"'`,;}\])>\\\[](?:[^"'`,;}\])>\\\[\n….]|\.(?=\S)){2,100})""",
            re.IGNORECASE,
        ),
        ("passphrase",),
    ),
    Rule("password", re.compile(_PASSWORD + _IS + _NO_VALUE + _VALUE, re.IGNORECASE), _PASSWORD_LITERALS),
    # "PASS: test_2" is what test runners print.
    Rule(
        "password",
        re.compile(
            r"(?:(?<!irst )(?<!econd )(?<!ext )(?<!inal )(?<!ast )(?<!his )(?<!ach )\b[Pp]ass|_pass|\bPASS(?==)|_PASS)"
            + _IS.replace(r"[ \t]*(?:", " ?(?:", 1)  # or there would be more literals to look for
            + r"""\\?["'`]?(?!\d+\b)"""
            + _SECRETIVE
        ),
        ("pass:", "pass=", "pass :", "pass =", 'pass"', "pass'", "pass\\", "pass*"),
    ),
    Rule(
        "password",
        re.compile(
            rf"{_PASSWORD}(?: (?:for|of) [^\n:.,;]{{1,60}}?)?\s+(?:is|was)\s+(?:now |still |set to |currently )?"
            rf"[\"'`]?{_SECRETIVE}",
            re.IGNORECASE,
        ),
        _PASSWORD_LITERALS,
    ),
    Rule(
        "password",
        re.compile(
            rf"(?:chang|set|updat|reset)\w* [^\n:.,;]{{0,60}}?{_PASSWORD} to [\"'`]?{_SECRETIVE}", re.IGNORECASE
        ),
        _PASSWORD_LITERALS,
    ),
    Rule("password", re.compile(rf"\blogin\s+\S+\s+password\s+{_SECRETIVE}", re.IGNORECASE), ("passw",)),  # .netrc
    Rule(
        "password",
        re.compile(
            rf"<({_PASSWORD}|\w*(?:token|secret|api[_-]?key))>(?P<secret>[^<>\s\[][^<>\n]{{2,200}})</\1>", re.IGNORECASE
        ),
        ("passw", "passphrase", "pwd", "token>", "secret>", "key>"),
    ),
    Rule("secret", re.compile(r"secret" + _IS + _NO_VALUE + _VALUE, re.IGNORECASE), ("secret",)),
    Rule(
        "api-key",
        re.compile(
            r"(?:api[ _-]?|(?:access|private|secret|account|subscription)[_-]?)key" + _IS + _NO_VALUE + _VALUE,
            re.IGNORECASE,
        ),
        ("key",),
    ),
    Rule(
        "token",
        re.compile(r"token" + _IS + r"(?!\\?[\"']?\d+\b)" + _NO_VALUE + _VALUE.replace("{3,}", "{8,}"), re.IGNORECASE),
        ("token",),
    ),
    Rule("token", re.compile(rf"token\s+is\s+{_LONG}", re.IGNORECASE), ("token",)),
    Rule("secret", re.compile(rf"secret\s+is\s+{_LONG}", re.IGNORECASE), ("secret",)),
    Rule("api-key", re.compile(rf"(?:api|access|secret)[ _-]?key\s+is\s+{_LONG}", re.IGNORECASE), ("key",)),
)
"""What stands after a word such as password or token and a colon, an equals sign or an "is"."""

DEFAULT_RULES: Final = (*BY_SHAPE, *BY_PLACE, *BY_WORD)
