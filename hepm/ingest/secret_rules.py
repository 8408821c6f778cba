"""What secrets look like: by their own shape, by the header or command they stand in, by the word before them.

A rule with only a word before the value requires that the value does not read like a word: it holds a digit among
letters, stands in quotes, or ends a command. Every repetition is bounded, so that time is linear in a text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        kind: Stands in what replaces it.
        expression: A regular expression. Where it has a group named "secret", only that group is replaced.
        literals: In lower case; every text that the expression matches holds one of them, whatever its case. () where
            there is none to look for.
    """

    kind: str
    expression: str
    literals: tuple[str, ...] = ()

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled when it is first needed: all of them take longer than a short command."""
        return _compiled(self.expression)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


# A text may have been cut before it comes here: "…" then ends a key that is shorter than a whole one.
_KEY: Final = r"(?:(?=[\w-]{0,255}?\d)[\w-]{16,}|[\w-]{0,255}…)"
# Where the prefix alone is telling: no digit is asked for, and more is left of what was cut.
_RANDOM: Final = r"(?:[\w-]{16,}|[\w-]{6,}…)"
_HEX: Final = r"(?:[a-f0-9]{32,}|[a-f0-9]{6,}…)"
_UUID: Final = r"[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"

_QUOTE: Final = r"""(?:\\{0,16}["'`]|&quot;|&#3[49];)"""
_NEW_LINE: Final = r"[ \t]*(?:\r?\n|\\{1,4}n)"
# What stands for a value in prose, in documentation and in code that reads the secret from elsewhere; and links.
_PROSE: Final = r"(?!(?:the|this|that|a|an|your|must|should|is)\b)"
_NO_VALUE: Final = (
    r"(?!(?:null|none|nil|true|false|undefined|str|string|text|required|optional)\b|https?:|\[redacted|\*{3}|<"
    r"|\$?[({]|\$(?-i:[A-Z_]+)\b"
    r"|(?:process\.env|os\.environ|self|this|var|local|data|args|config|settings|secrets)[.\[]"
    r"|(?:[a-z_]{1,40}\.){1,5}[a-z_]{1,40}[(\[]|(?:getpass|getenv|env|input|prompt|read|load)\w{0,40}\("
    r"|your[_-]|(?-i:[A-Z_]{0,40}_(?:KEY|TOKEN|PASSWORD|SECRET))\b)"
)
_BARE: Final = r"""(?:[^\s"'`,;}\])>\\\[<&%]|%(?!26)|&(?!\w{1,40}=|quot;|\#))"""
# In quotes up to the closing one, over those that are escaped once more.
_QUOTED: Final = r"(?:(?!(?P=q))(?:\\\\\\.|\\.|[^\n\\]))"
_VALUE: Final = rf"(?P<q>{_QUOTE})?(?(q)|{_PROSE}){_NO_VALUE}(?P<secret>(?(q){_QUOTED}{{3,}}|{_BARE}{{3,}}))"
# Also as Markdown sets it in bold, after a type or the brackets of a subscript, and encoded for URLs.
_IS: Final = (
    rf"{_QUOTE}?\]?\*{{0,2}}[ \t]*(?::[ \t]*&?(?:str|string)[ \t]*(?==))?"
    rf"(?:[:=](?!=)|:=|%3[ad]|(?:=>|={{2,3}}|\()(?=[ \t]*{_QUOTE}))\*{{0,2}}[ \t]*"
)
# The shell's PWD is a folder. First letters stand apart: where case is ignored, `re` skips to nothing else quickly.
_PASSWORD: Final = (
    r"""(?-i:[pP])(?:assw(?:or)?[dt]|assphrase|asscode|wd(?!["'\\]{0,9}[ \t]*[:=][ \t]*["'\\]{0,9}[/~.]))"""
)
_PASSWORDS: Final = "passw,passphrase,passcode,pwd"
_FOREIGN_PASSWORD: Final = (
    r"(?-i:[kKmMcCsSпП密パ비])(?:(?<=k)ennwort|(?<=m)ot de passe|(?<=c)ontrase[nñ]a|(?<=s)enha|(?<=п)ароль"
    r"|(?<=密)[码碼]|(?<=パ)スワード|(?<=비)밀번호)"
)
_FOREIGN_PASSWORDS: Final = "kennwort,mot·de·passe,contrase,senha,пароль,密码,密碼,パスワード,비밀번호"
_KEY_WORDS: Final = "api|access|private|secret|account|subscription|signing|encryption|auth|master"
_API_KEY: Final = rf"(?:{_KEY_WORDS})[ _-]?key(?:_base)?"
API_KEYS: Final = tuple(f"{word}{between}key" for word in _KEY_WORDS.split("|") for between in ("", " ", "_", "-"))

# What pages, locks and repeated requests are told apart by.
_COUNTERS: Final = "next starting page continuation client request idempotency change lock sequence action product unit"
_TOKEN: Final = "token" + "".join(
    f"(?<!{word}token)(?<!{word}[_-]token)" for word in f"{_COUNTERS} import confirmation".split()
)
_API_KEYS: Final = ",".join(API_KEYS).replace(" ", "·")
_WORD: Final = rf"(?:{_PASSWORD}|{_FOREIGN_PASSWORD}|{_TOKEN}|secret|{_API_KEY})"
_WORDS: Final = f"{_PASSWORDS},{_FOREIGN_PASSWORDS},token,secret,{_API_KEYS}"

# A word that does not read like one: a digit beside letters, four digits, or a sign between letters.
_CHARACTER: Final = r"""[^\s"'`,;<>()\[\]{}|…\\]"""
_UP_TO: Final = rf"{_CHARACTER}{{0,127}}?"
_SECRETIVE: Final = (
    rf"{_QUOTE}?{_PROSE}{_NO_VALUE}"
    r"(?![\w.+-]{1,64}@[\w-]+\.\w|[$%]\w|\S{0,128}?==|#?\w{0,9}[-–]\w{1,9}\b[.,]?\s)"
    r"(?!\d{1,9}[-–]?(?:char|digit|letter|symbol|day|hour|minute|second|week|month|year|bit|byte|time))"
    r"(?!(?:base|utf|sha|md|pbkdf|argon|bcrypt|oauth|http|version|v|step|page|line|section|figure|table)[-_]?\d)"
    rf"(?P<secret>(?:(?={_UP_TO}\d)(?={_UP_TO}[A-Za-z])|(?={_UP_TO}(?:\d{{4}}|\w[!#$%^&~]\w)))"
    rf"{_CHARACTER}{{4,128}}(?<![.:?]))"
)

# What follows an option in prose: "use the --password option", "--password requires --user"; and names of variables.
_NO_OPTION: Final = (
    r"(?!-|[$%]\w|(?-i:[A-Z_]+)(?![\w-])"
    r"|(?:option|flag|argument|parameter|switch|value|prompt|file|name|stdin|string|here|instead|first|again|too|and|or"
    r"|for|with|when|if|it|in|on|to|not|require|need|can|cannot|will|may|was|are|has)s?\b)"
)
_OPTION_VALUE: Final = (
    rf"{_PROSE}{_NO_OPTION}(?P<q>{_QUOTE})?{_NO_VALUE}(?P<secret>(?(q){_QUOTED}{{3,}}(?=(?P=q))|(?:(?={_UP_TO}\d)"
    rf"{_CHARACTER}{{4,256}}|{_CHARACTER}{{4,256}}(?=[ \t]*(?:$|[\n|&;>\"'`\\]|[ \t]-)))))"
)
# Between a command and its option, on one line.
_WITH: Final = r"\b[^\n|;]{0,200}?[ \t]"
_ARGUMENT: Final = rf"(?P<q>{_QUOTE})?(?P<secret>(?(q){_QUOTED}{{3,}}|(?![$<-]){_BARE}{{3,}}))"

# One rule a line: its kind, its literals, its expression, which may go on in indented lines. {ANY} is any of the
# literals, as they are spelt, where no word is being written; other names in braces stand for the expressions above.
# A rule of {PASSWORDS} becomes two, for English and for other languages. To (?-i:[cC]) `re` skips quickly.
# The last of the two without literals is Airtable's and Discord's: what stands before the first dot is no secret.
_TABLE: Final = r"""
private-key        -----BEGIN       -----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----
    (?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----|\Z)
private-key        PuTTY-User-Key-File- {ANY}(?s:.*?)(?:Private-MAC:[ ]*[0-9a-f]+|\Z)
private-key        AGE-SECRET-KEY-1 {ANY}[A-Z0-9]{20,}
anthropic-key      sk-ant-          {ANY}{KEY}
openai-key         sk-,sess-        {ANY}{KEY}
github-token       ghp_,gho_,ghu_,ghs_,ghr_,github_pat_ {ANY}{KEY}
gitlab-token       glpat-,gldt-,glrt-,glptt-,glcbt-,glft-,glsoat-,glimt-,glagent-,glffct- {ANY}{RANDOM}
aws-key            AKIA,ASIA        {ANY}[A-Z0-9]{16}[\s"',:;|/\\]{1,8}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])
aws-key            AKIA,ASIA        {ANY}(?:[A-Z0-9]{16}|[A-Z0-9]{0,16}…)
google-key         AIza             {ANY}{KEY}
google-key         ya29.,GOCSPX-,1//0 {ANY}{RANDOM}
google-key         :APA91b          :APA91b{KEY}
slack-token        xox              {ANY}[a-z]-(?:[A-Za-z0-9-]{10,}|[A-Za-z0-9-]{0,255}…)
slack-token        xapp-            {ANY}\d{RANDOM}
webhook            hooks.slack.com/,/api/webhooks/,.webhook.office.com/,hooks.zapier.com/hooks/
    (?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks
    |\.webhook\.office\.com/\w{1,20}
    |hooks\.zapier\.com/hooks/catch)/(?P<secret>[\w/@-]{8,})
huggingface-token  hf_,api_org_     {ANY}(?:[A-Za-z0-9]{20,}|[A-Za-z0-9]{0,255}…)
stripe-key         sk_live_,sk_test_,rk_live_,rk_test_,whsec_ {ANY}[A-Za-z0-9]{10,}
npm-token          npm_             {ANY}(?:[A-Za-z0-9]{30,}|[A-Za-z0-9]{6,}…)
pypi-token         pypi-AgE         {ANY}{RANDOM}
sendgrid-key       SG.              {ANY}[\w-]{16,64}(?:\.[\w-]{16,}|\.?[\w-]{0,64}…)
digitalocean-token dop_v1_,doo_v1_,dor_v1_ {ANY}{HEX}
vault-token        hvs.,hvb.,hvr.   {ANY}{KEY}
vault-token        vault            (?i:vault)[^\n]{0,80}?\b(?P<secret>s\.[A-Za-z0-9]{24})\b
terraform-token    .atlasv1.        \b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}
databricks-token   dapi             {ANY}{HEX}(?:-\d)?
telegram-token     :AA              (?<![\d:])\d{8,10}:AA[\w-]{32,34}(?![\w-])
atlassian-token    ATATT3,ATCTT3,ATBB {ANY}[\w-]{20,}(?:=[0-9A-F]{8})?
notion-token       ntn_,secret_     {ANY}[A-Za-z0-9]{43,}
grafana-token      glsa_,glc_eyJ    {ANY}{RANDOM}=?=?
sentry-token       sntrys_,sntryu_  {ANY}[\w=/+-]{20,}
twilio-key         -                SK(?<=\bSK)[0-9a-f]{32}(?![\w-])
api-token          -    \.(?P<secret>(?<=\bpat[A-Za-z0-9]{14}\.)[a-f0-9]{64}
    |(?:(?<=[MNO][\w-]{22}\.)|(?<=[MNO][\w-]{23}\.)|(?<=[MNO][\w-]{25}\.))[\w-]{6}\.[\w-]{27,38})
mailchimp-key      -us1,-us2,-us3,-us4,-us5,-us6,-us7,-us8,-us9              \b[0-9a-f]{32}-us\d{1,2}\b
newrelic-key       NRAL             \b[0-9a-f]{36}NRAL\b
azure-secret       Q~               (?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}
dropbox-token      sl.B,sl.C,sl.u.              {ANY}[\w-]{100,}
plaid-token        access-sandbox-,access-production-,access-development- {ANY}{UUID}
hubspot-key        pat-na1-,pat-na2-,pat-eu1- {ANY}{UUID}
dynatrace-token    dt0c01.,dt0s16.  {ANY}[A-Z0-9]{24}\.[A-Z0-9]{64}
doppler-token      dp.pt.,dp.st.,dp.ct.,dp.sa. {ANY}[\w.-]{20,}
mailgun-key        key-             {ANY}[0-9a-f]{32}(?![\w-])
openshift-token    sha256~          {ANY}[\w-]{43}
api-key            gsk_,nvapi-,pplx-,xai-,r8_,tvly-,lsv2_,pcsk_,lin_api_,lin_oauth_,dckr_pat_,dckr_oat_,shpat_,shpss_
    {ANY}{KEY}
api-key            pul-,rnd_,jina_,pnu_,shpca_,sq0csp-,sq0atp-,xkeysib-,rubygems_,nfp_,HRKU- {ANY}{KEY}
api-key            PMAK-,NRAK-,NRJS-,NRII-,figd_,figo_,tskey-,sqp_,squ_,sqa_
    {ANY}{KEY}
api-key            pscale_tkn_,pscale_pw_,pscale_oauth_,sbp_,CFPAT-,rdme_,tfp_,bkua_,CCIPAT_,ops_eyJ,fm2_,AKCp,LTAI,EZAK
    {ANY}{KEY}
api-key            duffel_live_,duffel_test_ {ANY}{KEY}
jwt                eyJ              {ANY}[\w-]{8,4096}+(?:\.[\w-]{4,}(?:\.[\w-]*)?|…)
password-hash      $2a$,$2b$,$2y$,$5$,$6$,$y$,$apr1$,$argon2 \$(?:2[aby]|5|6|y|apr1|argon2i?d?)\$[./\w$=,+-]{20,}
password           ://              (?i)://(?P<secret>(?!\[redacted)[^\s/:@"'<>]{0,256}:(?!\d{1,5}[…?\#])[^\s/"'<>]{1,256})(?:@|…)
token              ://              (?i)://(?P<secret>(?=[a-z_-]{0,255}\d)[\w-]{16,255})@
token              bearer           (?i)\bbearer\s+(?P<secret>(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,})
password           authorization    (?i)authorization{IS}\[?{QUOTE}?(?:basic|negotiate|token|bot|ssws|api-?key)[ \t]+
    (?P<secret>(?=[\w+/.~-]*?(?:\d|=|(?-i:[a-z][A-Z])))[\w+/.~-]{4,}={0,2})
token              authorization    (?i)(?<![a-z])authorization{QUOTE}?[ \t]*:[ \t]*{QUOTE}?(?!aws4-)
    (?P<secret>(?=[\w+/.~-]*?\d)[\w+/.~-]{16,}={0,2})(?!\()
password           response=        (?i)\bresponse={QUOTE}?(?P<secret>[0-9a-f]{32})
token              sig=,signature=  (?i)(?:[?&]sig|signature)=(?P<secret>[\w%+/=-]{20,})
token              code=            (?i)[?&]code=(?P<secret>(?=[a-z%/._-]*\d)[\w%/.-]{16,})
password           "auth,'auth,_auth (?i)["'_]auth(?:\\{0,8}["'])?[ \t]*[:=][ \t]*{QUOTE}?
    (?P<secret>(?=[a-z/+]*(?:\d|(?-i:[a-z][A-Z])))[\w+/]{8,}={0,2})(?![\w.(-])
cookie             cookie
    (?i)cookie{QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?(?P<secret>[\w.-]+=[^\s;"'\\]{4,}[^"'\\\n]*)
cookie             curl             (?i)\bcurl{WITH}(?:-b|--cookie)[ \t=]*(?P<q>{QUOTE})?
    (?P<secret>[\w.-]{1,64}=(?(q){QUOTED}{3,}|[^\s"'\\]{3,}))
password           curl
    (?i)\bcurl{WITH}(?:-u|--user)[ \t=]*{QUOTE}?(?P<secret>[^\s:"'<>$\\]{1,64}:[^\s"'<>$\\]{3,})
password           sshpass,mysql,mariadb,7z
    \b(?:sshpass[ \t]+-p[ \t]*|(?:mysql[\w-]{0,32}+|mariadb|7za?){WITH}-p){ARGUMENT}
password           docker,podman,helm,nerdctl,mongo,cqlsh,redis-cli,ldap,sqlcmd,zip·-p
    \b(?:(?:docker|podman|helm|nerdctl){WITH}login{WITH}-p|(?:mongo\w{0,9}+|cqlsh){WITH}-p|redis-cli{WITH}-a
    |ldap\w{2,9}+{WITH}-w
    |sqlcmd{WITH}-P|(?:un)?zip[ ]-P)[ \t]+{SECRETIVE}
password           smbclient,rpcclient
    \b(?:smb|rpc)client{WITH}-U[ \t]+{QUOTE}?[\w.\\/-]{1,64}%(?P<secret>[^\s"'\\]{3,})
password           net·use,net·user
    (?i)\bnet[ ](?:use\b[^\n|;]{0,200}?/user:\S{1,64}|user[ \t]+\w[^\s/]{0,64})[ \t]+{SECRETIVE}
password           htpasswd         \bhtpasswd[ \t]+-\w*b\w*(?:[ \t]+[^\s|;]{1,200}){1,2}[ \t]+{ARGUMENT}
    (?=[ \t]*(?:$|[\n|;&"'\\]))
password           --password-stdin,chpasswd,--with-token,sudo·-s,vault·login
    \b(?:echo|printf)[ \t]+(?:-n[ \t]+)?{ARGUMENT}(?(q)(?P=q))[ \t]*\|[^\n]{0,120}?
    (?:--password-stdin|chpasswd|--with-token|sudo[ ]-S|vault[ ]login)
password           {WORDS}          (?i)(?-i:[cC])(?<=\b.)onfig(?:ure)?[ \t]+set[ \t]+\S{0,80}?{WORD}[ \t]+{ARGUMENT}
password           :5432:,:5433:,:6432:
    (?m)(?:^|\\n|")[\w.*-]{1,200}:(?:5432|5433|6432):[\w.*-]{1,64}:[\w.*-]{1,64}:(?P<secret>[^\s"'\\]{3,})(?=$|["\\])
password           -pass,-pwd,pass",storepass,keypass
    (?im)(?<![\w-])--?{PARTS}(?:password|passwd|passphrase|passcode|(?:store|key)?pass|pwd){OPTION}
token              -token           (?im)(?<![\w-])--?{PARTS}{TOKEN}{OPTION}
secret             -secret          (?im)(?<![\w-])--?{PARTS}secret{OPTION}
api-key            {API_KEYS}       (?im)(?<![\w-])--?{PARTS}{API_KEY}{OPTION}
password           passphrase       (?i)passphrase{QUOTE}?\*{0,2}[ \t]*:\*{0,2}[ \t]*{PROSE}{NO_VALUE}
    (?P<secret>[^\s"'`,;}\])>\\\[](?:[^"'`,;}\])>\\\[\n….]|\.(?=\S)){2,100})
password           {PASSWORDS},psk  (?i)(?:{PASSWORD}|\bpsk){IS}{VALUE}
password           pass:,pass=,pass·:,pass·=,pass",pass',pass\,pass*,pw:,pw=
    (?:(?:(?<!irst )(?<!econd )(?<!ext )(?<!inal )(?<!ast )(?<!his )(?<!ach )\b[Pp]ass|_pass|\bPASS(?==)|_PASS)
    {QUOTE}?\*{0,2}[ ]?[:=]\*{0,2}[ \t]*|\b[Pp][Ww][:=][ \t]*)(?!{QUOTE}?\d+\b){SECRETIVE}
password           {PASSWORDS}      (?i){PASSWORD}(?: (?:for|of) [^\n:.,;]{1,60}?)?\s{1,9}(?:is|was|ist|est|es)
    (?::|\s{1,9}(?:now |still |set to |currently )?)\s{0,9}{SECRETIVE}
password           {PASSWORDS}
    (?i){PASSWORD}[*"]{0,2}(?:[ \t]+|[ \t]*(?:->|→|⇒|=>|[–—])[ \t]*|[ \t]+-[ \t]+){SECRETIVE}
password           {PASSWORDS}
    (?im){PASSWORD}[*"]{0,2}:?\*{0,2}(?:{NEW_LINE}){1,3}[ \t]*{SECRETIVE}{QUOTE}?(?=[ \t]*(?:$|["\\]))
password           passw,passphrase
    (?i)(?-i:[cCsSuUrR])(?:(?<=c)hang|(?<=s)et|(?<=u)pdat|(?<=r)eset)\w* [^\n:.,;]{0,60}?{PASSWORD} to {SECRETIVE}
password           passw,identified
    (?i)(?-i:[wWiI])(?:(?<=w)ith password|(?<=i)dentified by)[ \t]+'(?P<secret>[^'\n]{3,})'
password           requirepass,masterauth \b(?:requirepass|masterauth)[ \t]+{ARGUMENT}
password           login:,credentials:,username:
    (?i)\b(?:login|credentials|username):[ \t]*\S{1,64}[ \t]*/[ \t]*{SECRETIVE}
password           {WORDS}
    (?i)<(?:\w{1,20}:)?([\w.-]{0,60}{WORD})(?:\s[^<>]{0,200})?>(?P<secret>[^<>\s\[][^<>\n]{2,2000})</
password           {WORDS}
    (?i)<key>[^<>]{0,60}{WORD}</key>(?:\s|\\{1,4}n){0,40}<string>(?P<secret>[^<>\s\[][^<>\n]{2,2000})<
password           {WORDS}          (?i)(?-i:[nNkKiI])(?<=\b.)(?:(?<=n)ame|(?<=k)ey|(?<=i)d)
    {QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?[\w./-]{0,80}{WORD}\w{0,20}
    {QUOTE}?(?:(?:(?!name\b|\bkey\b)[^{}]){1,200}?\bvalue{IS}|[^<>]{0,80}>){VALUE}
password           {WORDS}
    (?i)(?-i:[vV])(?<=\b.)alue{QUOTE}[ \t]*[:=][ \t]*{VALUE}(?P=q)[\s,]{1,40}{QUOTE}(?:name|key){QUOTE}[ \t]*
    [:=][ \t]*{QUOTE}[\w./-]{0,80}{WORD}
password           variable·
    \bvariable\s+\\{0,9}"[\w-]{0,80}(?i:{WORD})\w{0,20}\\{0,9}"\s*\{[^{}]{0,400}?\bdefault\s*=\s*{VALUE}
password           {WORDS}          (?i)["'](?=[\w.-]{4,60}\\{0,8}["'][ \t]*,)
    [\w.-]{0,60}?{WORD}(?P<q>{QUOTE})[ \t]*,[ \t]*{QUOTE}(?!\w*{WORD}){SECRETIVE}
secret             secret           (?i)secret{IS}{VALUE}
api-key            {API_KEYS}       (?i){API_KEY}{IS}{VALUE}
token              token            (?i){TOKEN}{IS}(?!{QUOTE}?\d+\b){LONG}{VALUE}
secret             credential       (?i)credentials{IS}{LONG}(?=\S{0,64}\d){VALUE}
token              token            (?i){TOKEN}\s+(?:is\s+)?{LONG}(?!\d+\b){SECRETIVE}
secret             secret           (?i)secret\s+is\s+{LONG}(?!\d+\b){SECRETIVE}
api-key            {API_KEYS}       (?i){API_KEY}\s+is\s+{LONG}(?!\d+\b){SECRETIVE}
api-key            key·is
    (?i)\bkey is {QUOTE}?(?P<secret>(?=\w{0,64}\d)(?-i:(?=\w{0,64}[a-z])(?=\w{0,64}[A-Z]))[\w-]{20,})
token              code·is,code:,otp·is,otp:
    (?i)\b(?:(?:one[- ]time|verification|security|authentication|2fa|mfa|sms)[ -](?:pass)?code|otp)
    (?: is|:)[ \t]+{QUOTE}?(?P<secret>\d{4,8})\b
"""


_PARTS: Final = {
    **{"KEY": _KEY, "RANDOM": _RANDOM, "HEX": _HEX, "UUID": _UUID, "QUOTE": _QUOTE, "QUOTED": _QUOTED, "IS": _IS},
    **{"VALUE": _VALUE, "SECRETIVE": _SECRETIVE, "PROSE": _PROSE, "NO_VALUE": _NO_VALUE, "NEW_LINE": _NEW_LINE},
    **{"WORD": _WORD, "WORDS": _WORDS, "API_KEY": _API_KEY, "API_KEYS": _API_KEYS},
    **{"TOKEN": _TOKEN, "WITH": _WITH, "ARGUMENT": _ARGUMENT, "PARTS": r"(?:[a-z0-9]{1,40}-){0,8}"},
    **{"OPTION": rf"(?:[ \t=]|{_QUOTE},[ \t]*(?={_QUOTE})){_OPTION_VALUE}", "LONG": rf"(?={_QUOTE}?\S{{8}})"},
}


def _rules() -> Iterator[Rule]:
    def expanded(text: str, words: dict[str, str], literals: str = "") -> str:
        spelt = "|".join(map(re.escape, literals.split(",")))
        parts = {**_PARTS, **words, "ANY": rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{spelt})"}
        return re.sub(r"\{([A-Z_]+)\}", lambda match: parts[match[1]], text)

    english = {"PASSWORD": _PASSWORD, "PASSWORDS": _PASSWORDS}
    foreign = {"PASSWORD": _FOREIGN_PASSWORD, "PASSWORDS": _FOREIGN_PASSWORDS}
    for entry in re.split(r"\n(?! )", _TABLE.strip()):
        first, *more = entry.splitlines()
        kind, literals, *expression = first.split(maxsplit=2)
        whole = "".join((*expression, *map(str.strip, more)))
        languages = [english]
        if "{PASSWORDS}" in literals:
            languages.append(foreign)
        for words in languages:
            any_of: tuple[str, ...] = ()
            if literals != "-":
                any_of = tuple(expanded(literals, words).lower().replace("·", " ").split(","))
            yield Rule(kind, expanded(whole, words, literals), any_of)


DEFAULT_RULES: Final = tuple(_rules())
"""The rules that a `Redactor` goes by where it is given no others."""
