"""Commands that run what they fetch or decode: no lesson recommends one, as who controls the source runs the agent.

Read from the text by its words, so that a command inside quotes, of another program or in a sentence is found as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

_READ: Final = 2_000  # characters


# Of programs any, perhaps behind the folder that it is in, and not as a part of a longer word.
_NAMES: Final = r"""
SHELL = (?<![\w.-])(?:(?:ba|z|da|k|c|tc|fi|a)?sh|cmd|pwsh|powershell)(?:\.exe)?(?![\w-])
INTERPRETER = (?<![\w.-])(?:python[\d.]*|pypy3?|perl|ruby|node|nodejs|php|lua|deno|bun|Rscript|osascript|tclsh|groovy|ts-node)(?:\.exe)?(?![\w-])
EITHER = (?:SHELL|INTERPRETER)
NETWORK = \b(?:DownloadString|DownloadFile|DownloadData|Net\.WebClient|XMLHTTP|urlopen|urlretrieve|urllib|open-uri|file_get_contents|LWP::\w+|requests\.(?:get|post)|https?\.get)\b|\bfetch\s*\(
FETCH = (?:(?<![\w.-])(?:curl|wget2?|aria2c|axel|lwp-request|https?|xhs?|lynx|w3m|links|elinks|t?ftp|sftp|scp|rsync|nc|ncat|netcat|socat|telnet|fetch|iwr|irm|Invoke-WebRequest|Invoke-RestMethod|Start-BitsTransfer|bitsadmin|certutil|gsutil|s3cmd|rclone|ipfs|dig|nslookup)(?:\.exe)?(?![\w-])|NETWORK|\b(?:aws s3 cp|gh (?:api|gist|release))\b|/dev/(?:tcp|udp)/|\b(?:https?|ftp)://)
DECODE = (?:\b(?:base(?:16|32|64)\s+(?:-\w*d\w*|--decode)|openssl\s+(?:enc|base64|aes\S*)|xxd\s+-\w*r|uudecode|gpg\s|FromBase64String|b(?:16|32|64)decode|unhexlify|fromhex|codecs\.decode|zlib\.decompress|atob)\b|\b(?:printf|echo\s+-\w*e)\b[^|;&\n]*x[0-9a-f]{2})
GIVEN = (?:FETCH|DECODE)[^;\n]{0,600}?\|&?\s*WRAPPED
WRAPPED = (?:\w+=\S*\s+|(?:sudo|doas|su|env|nohup|nice|time|timeout|exec|command|builtin|xargs|stdbuf|busybox|chroot|ssh|docker|podman|kubectl|parallel|setsid|unbuffer|script|watch|tee)\b[^|;&\n]{0,120}?[\s/])*(?:[\w.~/-]{0,80}/)?
BEGINS = (?:^|[;&|]\s*|\bthen\s+|\bdo\s+)
SUBSTITUTED = (?:\$\(|<\(|`|<<<)
END = \s*(?:$|[;&|)}\n#><`,.])
"""  # noqa: E501
# One way to run code of others a line: into a shell ("curl … | sudo -E bash -s"), also of anything into one without a
# script; into an interpreter without script, module or code; substituted ('eval "$(…)"', "bash <(curl …)"); of
# PowerShell; code that fetches or decodes, and runs that; an archive unpacked at once; a program that takes its code
# from an address; a shell for any listener.
_WAYS: Final = r"""
GIVENSHELL
\|&?\s*WRAPPEDSHELL(?:\s+-\S*)*(?:END|\s+/dev/stdin)
GIVENINTERPRETER(?:\s+-(?!\w*[cmenp])\S*)*(?:END|\s+-\s)
GIVEN(?:source|\.|eval|crontab|at|batch|iex|psql|sqlplus)(?![\w-])
(?<![\w.-])eval\s[^;\n]{0,300}?SUBSTITUTED
(?:(?<![\w.-])source|(?:^|[;&|\s])\.|EITHER)\s+(?:-\S+\s+)*<\s*(?:<\s*)?\(
(?:(?<![\w.-])(?:source|exec|xargs)|(?:^|[;&|\s])\.|EITHER)\s[^;\n]{0,300}?SUBSTITUTED[^)\n]{0,300}?(?:FETCH|DECODE)
BEGINS(?:sudo\s+)?(?:\$\(|`)\s*(?:FETCH|DECODE)
(?<![\w.-])(?:iex|Invoke-Expression)\s*[($&`]|\|\s*iex(?![\w-])|(?<![\w.-])Invoke-Expression\s
(?:pwsh|powershell)(?:\.exe)?\s[^;|\n]{0,200}?-e(?:c|nc|ncodedcommand)?\s
(?:FETCH|DECODE)[^\n]{0,600}?(?<![\w.])(?:exec|eval|Function|compile|instance_eval|create_function)\s*\(
(?:LWP|open-uri|file_get_contents)[^\n]{0,300}?\beval\b
(?<!\w)(?:exec|eval|Function|system|popen|execSync|spawn\w*|subprocess\.\w+|assert)\s*\(?[^\n;]{0,300}?(?:NETWORK|DECODE)
FETCH[^\n]{0,300}?\|\s*(?:tar|bsdtar|unzip|cpio)\b[^\n]{0,200}?[;&|]\s*(?:\./|EITHER)
(?<![\w.-])(?:pip[\d.]*|pipx|uvx?|npm|npx|pnpm|yarn|bunx?|deno|node|gem|easy_install|msiexec|mshta|regsvr32)\s[^;&|\n]{0,200}?(?:https?|ftp|smb|file)://
(?<![\w.-])(?:rundll32|dpkg|rpm|yum|dnf|apt|apt-get|apk|snap|helm|kubectl|conda|go|cargo|brew|luarocks|cpan|code)\s+(?:-\S+\s+)*(?:install|add|run|apply|create|get|update|localinstall|-[iU])\b[^;&|\n]{0,200}?https?://
EITHER\s+(?:-\S+\s+)*(?:https?|ftp)://
/dev/(?:tcp|udp)/|(?<![\w.-])(?:nc|ncat|netcat|socat)\s(?:[^|;\n]{0,120}?\s)?(?:-\w*[ec]\s|exec:)
"""


def _compiled(ways: str) -> re.Pattern[str]:
    """An expression for any of some lines, in which names stand for what `_NAMES` says."""
    expression = "|".join(ways.strip().splitlines())
    # Twice, as a few names are made of others.
    for line in _NAMES.strip().splitlines() * 2:
        name, _, meaning = line.partition(" = ")
        expression = expression.replace(name, meaning)
    return re.compile(expression, re.IGNORECASE | re.MULTILINE)


_RUNS: Final = _compiled(_WAYS)
_FETCHES: Final = _compiled("FETCH")
# Before the name of a file that is run, unpacked or installed; alone, the file is the program.
_TAKES_FILE: Final = _compiled(
    r"BEGINS(?:[\w.~/-]{0,80}/)?$"
    "\n"
    r"(?:EITHER|(?<![\w.-])(?:source|exec|chmod|sudo|start|Start-Process|Import-Module|xargs|env|nohup|install|unzip|tar|"
    r"dpkg|rpm|pip[\d.]*|npm|java|make|crontab|psql|mysql|sqlite3)|(?:^|[\s;&|])[.&])\s[^;|&\n]{0,200}?$"
)
# What a fetch is written to: "-o x.sh", "--output=x.sh", "-OutFile x.ps1", "> x.sh", "| tee x.sh".
_WRITTEN: Final = re.compile(
    r"(?:\s-\w*[oO]\s*|--output(?:-document)?[=\s]|-OutFile\s+|-Destination\s+|>+\s*|\btee\s+(?:-\S+\s+)*)([\w.~/:-]+)"
)
_ADDRESS: Final = re.compile(r"\b(?:https?|ftp)://[^\s|;&<>()]+|\b[\w.-]+:(?:[\w.~-]*/)*[\w.-]+")


def runs_remote_code(text: str) -> bool:
    """Whether a command, or a text with commands, runs what it fetches, decodes or is piped."""
    # Without one of these no text runs a command for another one; most lessons hold none.
    sign = re.search(r"(?i)[|`$<;&(\n]|:/|\s-|Invoke", text)
    return sign is not None and _runs_remote_code(text[:_READ])


@lru_cache(maxsize=16_384)
def _runs_remote_code(text: str) -> bool:
    return _RUNS.search(_plain(text)) is not None or runs_file(text, fetched_files(text))


def fetched_files(command: str) -> set[str]:
    """Names of files, without their folders, that a command line may have written what it fetched to."""
    plain = _plain(command[:_READ])
    if _FETCHES.search(plain) is None:
        return set()
    paths = (*_WRITTEN.findall(_ADDRESS.sub(" ", plain)), *_ADDRESS.findall(plain))
    names = {re.split(r"[?#]", path.rstrip("/"))[0].rpartition("/")[2] for path in paths}
    return {name for name in names - {"null", "stdout"} if len(name) > 1}


def runs_file(command: str, names: Collection[str]) -> bool:
    """Whether a command line runs, or unpacks or installs, a file of one of these names."""
    if not names:
        return False
    plain = _ADDRESS.sub(" ", _plain(command[:_READ]))
    found = re.finditer(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w.-])", plain)
    # The folders before a name are no part of it.
    return any(_TAKES_FILE.search(plain[: match.start()]) for match in found)


def _plain(text: str) -> str:
    text = text.replace(".\\", "./")  # a path of Windows
    text = re.sub(r"\$\{IFS[^}]*\}|\$IFS(?:\$\d)?", " ", text)
    # Quotes and escapes say nothing of what a line does: c"ur"l is curl.
    return re.sub(r"[\"'\\^]|\$[@*]", "", text)
