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
# Also as Markdown sets it in bold, after a type or the brackets of a subscript, encoded for URLs, and before a list.
_IS: Final = (
    rf"{_QUOTE}?\]?\*{{0,2}}[ \t]*(?::[ \t]*&?(?:str|string)[ \t]*(?==))?"
    rf"(?:[:=：](?!=)|:{{1,3}}=|\?=|::(?= )|%3[ad]|(?:=>|={{2,3}}|\()(?=[ \t]*{_QUOTE}))\*{{0,2}}(?:[ \t]|%20)*+"
    rf"(?:[\[b][ \t]*(?={_QUOTE}))?"
)
# The shell's PWD is a folder, and "[redacted:password]" a mark. First letters stand apart: where case is ignored, `re`
# skips to nothing else quickly.
_PASSWORD: Final = (
    r"""(?-i:[pP])(?<!redacted:.)"""
    r"""(?:assw(?:or)?[dt]|assphrase|asscode|wd(?!["'\\]{0,9}[ \t]*[:=][ \t]*["'\\]{0,9}[/~.]))"""
)
_PASSWORDS: Final = "passw,passphrase,passcode,pwd"
# Also smtpPass and db_pass, but no bypass.
_PASS: Final = (
    r"(?:(?<![a-z])|(?<=\\[nrt])|(?-i:(?<=[a-z])(?=P))|(?<=user)|(?<=db)|(?<=root)|(?<=admin))(?:pass|pw)(?![a-z])"
)
_FOREIGN_PASSWORDS: Final = (
    "kennwort,mot·de·passe,contraseña,contrasena,contrasenya,clave,senha,palavra-passe,hasło,haslo,heslo,wachtwoord"
    ",lösenord,losenord,passord,adgangskode,salasana,şifre,sifre,parola,parolă,parool,jelszó,lozinka,geslo,slaptažodis"
    ",kata·sandi,mật·khẩu,парол,лозинка,κωδικός,סיסמה,סיסמא,كلمة·المرور,كلمة·السر,رمز·عبور,गुप्तशब्द,पासवर्ड,รหัสผ่าน"
    ",密码,密碼,口令,パスワード,暗証番号,비밀번호,암호"
)
_FOREIGN_PASSWORD: Final = (
    rf"(?:(?<![^\W_])|(?<=\\[nrt]))(?:{_FOREIGN_PASSWORDS.replace('·', ' ').replace(',', '|')})"
    r"(?:[^\W\d_]{0,4}(?![^\W_]))?"
)
_FOREIGN_KEYS: Final = (
    "schlüssel,clé,clave,chave,chiave,klucz,jeton,ключ,токен,секрет,密钥,密鑰,秘钥,令牌,トークン,キー,토큰"
)
_FOREIGN_KEY: Final = _FOREIGN_KEYS.replace(",", "|")
_KEY_WORDS: Final = "api|access|private|secret|account|subscription|signing|encryption|auth|master"
_API_KEY: Final = rf"(?:{_KEY_WORDS})[ _-]?key(?:_base)?"
API_KEYS: Final = tuple(f"{word}{between}key" for word in _KEY_WORDS.split("|") for between in ("", " ", "_", "-"))

# What pages, locks and repeated requests are told apart by.
_COUNTERS: Final = "next starting page continuation client request idempotency change lock sequence action product unit"
_TOKEN: Final = "token" + "".join(
    f"(?<!{word}token)(?<!{word}[_-]token)" for word in f"{_COUNTERS} import confirmation".split()
)
_API_KEYS: Final = ",".join(API_KEYS).replace(" ", "·")
_WORD: Final = rf"(?:{_PASSWORD}|{_FOREIGN_PASSWORD}|{_TOKEN}|secret|{_API_KEY}|{_PASS})"
_WORDS: Final = f'{_PASSWORDS},{_FOREIGN_PASSWORDS},token,secret,{_API_KEYS},pass",pass\',pass>,pass\\,pw"'

# Words whose value is a secret only where it looks like one by chance: `cache_key: "user:42"` is none.
_PUBLIC: Final = "public primary foreign partition sort cache object item group index idempotency ssh-rsa"
_KEY_GUARD: Final = "".join(f"(?<!{word}key)(?<!{word}[ _-]key)" for word in _PUBLIC.split())
_GUESS: Final = (
    r"(?<=b)earer|(?<=c)reds|(?<=s)alt|(?<=p)epper|(?<=s)eed|(?<=v)erifier|(?<=a)ssertion|(?<=r)efresh|(?<=j)wt|(?<=a)uth"
    r"|(?<=l)icense|(?<=c)lient_token|(?<=s)id|(?<=d)sn"
)
_GUESS_WORDS: Final = (
    "bearer,creds,salt,pepper,seed,verifier,assertion,refresh=,refresh:,refresh·=,jwt,auth=,auth:,auth\",auth',license=,license:"
    ',license",client_token,sid=,dsn'
)
LONG_WORD: Final = 24 * "a"
"""The literal of rules that are searched where any 24 letters and digits stand together."""
# Digits, small and large letters in turns, five at least, as in what is drawn by chance; but no UUID and no path.
_MIXED: Final = r"[\w+/=.~%-]"
_TURN: Final = r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)"
_CHANCE: Final = (
    rf"(?-i:(?!{_UUID}(?![\w-])|{_MIXED}{{0,12}}[./]{_MIXED}{{0,12}}[./])(?=(?>{_MIXED}{{1,40}}?(?:{_TURN})))"
    rf"(?=(?>{_MIXED}{{1,12}}?(?:{_TURN}|(?<=[a-z])(?=[A-Z]))){{5}}){_MIXED}{{16,}})"
)

# A word that does not read like one: a digit beside letters, four digits, or a sign between letters.
_NONE_OF: Final = r"""\s"'`,;<>()\[\]{}|…\\「」『』、。"""
_CHARACTER: Final = rf"[^{_NONE_OF}]"
_UP_TO: Final = rf"{_CHARACTER}{{0,127}}?"
_SECRETIVE: Final = (
    rf"{_QUOTE}?{_PROSE}{_NO_VALUE}"
    r"(?![\w.+-]{1,64}@[\w-]+\.\w|[$%]\w|\S{0,128}?==|#?\w{0,9}[-–]\w{1,9}\b[.,]?\s)"
    r"(?!\d{1,9}[-–]?(?:char|digit|letter|symbol|day|hour|minute|second|week|month|year|bit|byte|time))"
    r"(?!(?:base|utf|sha|md|pbkdf|argon|bcrypt|oauth|http|version|v|step|page|line|section|figure|table)[-_]?\d{1,5}(?![A-Za-z0-9]))"
    rf"(?P<secret>(?:(?=[^{_NONE_OF}\d]{{0,127}}+\d)(?=[^{_NONE_OF}A-Za-z]{{0,127}}+[A-Za-z]|{_UP_TO}\d{{4}})"
    rf"|(?=[!#$%^&~]{{0,9}}+[^{_NONE_OF}!#$%^&~]{{1,127}}+[!#$%^&~]\w))"
    rf"{_CHARACTER}{{4,128}}(?<![.:?]))"
)

MAY_NAME_A_SECRET: Final = re.compile(
    rf"(?i)(?:key|[a-z](?:{_GUESS})|{_PASS}|\bpin|sess(?:ion)?_?id|{_FOREIGN_PASSWORD}|{_FOREIGN_KEY})$"
)
"""Names of values that are secrets only if the rules say so of both: "key", "pass"."""

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
_OPTION: Final = rf"(?:[ \t=]|{_QUOTE},[ \t]*(?={_QUOTE})){_OPTION_VALUE}"
_PARTS: Final = r"(?:[a-z0-9]{1,40}-){0,8}"
_LONG: Final = rf"(?={_QUOTE}?\S{{8}})"
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
private-key        ----·BEGIN
    ---- BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY ----(?s:.*?)(?:---- END [A-Z0-9 ]{0,40}KEY ----|\Z)
private-key        -----END
    (?:[A-Za-z0-9+/]{60,76}+{NEW_LINE}){1,400}+[A-Za-z0-9+/]{1,76}={0,2}
    {NEW_LINE}-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----
private-key        aaaaaaaaaaaaaaaaaaaaaaaa
    (?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{2}[AQgw]IBA|MI[GH][A-Za-z0-9+/]AgE[AB]|M[A-H][A-Za-z0-9]CAQ[AE]
    |b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/]{24,}={0,2}(?:{NEW_LINE}[A-Za-z0-9+/]{60,76}(?![A-Za-z0-9+/]))*(?:{NEW_LINE}
    [A-Za-z0-9+/]{2,76}={0,2}(?![\w+/-]))?
private-key        xprv,yprv,zprv,tprv {ANY}[1-9A-HJ-NP-Za-km-z]{90,}
private-key        aaaaaaaaaaaaaaaaaaaaaaaa [5KLc](?<=(?<![A-Za-z0-9]).)[1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])
private-key        "d","dp","dq","qi"   (?<=")(?:d|dp|dq|qi)"\s*:\s*"(?P<secret>[\w-]{40,})
private-key        kty              (?<=["'])(?:d|p|q|dp|dq|qi|k){QUOTE}\s*:\s*{QUOTE}(?P<secret>[\w-]{20,})
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
facebook-token     aaaaaaaaaaaaaaaaaaaaaaaa (?<![A-Za-z0-9])(?:EAA[A-Z]|IGQ[A-Z])[A-Za-z0-9_-]{60,}
grafana-token      eyJrIjoi         {ANY}[\w+/-]{40,}={0,2}
ntlm-hash          :::              (?<![0-9a-fA-F])[0-9a-fA-F]{32}:[0-9a-fA-F]{32}(?=:::)
ntlm-hash          ::               ::[\w.-]{0,64}:(?P<secret>[0-9a-fA-F]{16,48}:[0-9a-fA-F]{32,48}:[0-9a-fA-F]{16,})
ntlm-hash          TlRMTVNTUAA      {ANY}[\w+/]{8,}={0,2}
huggingface-token  hf_,api_org_     {ANY}(?:[A-Za-z0-9]{20,}|[A-Za-z0-9]{0,255}…)
stripe-key         rzp_live_,rzp_test_,sk_prod_,sk_live_,sk_test_,rk_live_,rk_test_,whsec_ {ANY}[A-Za-z0-9]{10,}
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
mailgun-key        key-,fc-         {ANY}[0-9a-f]{32}(?![\w-])
openshift-token    sha256~          {ANY}[\w-]{43}
api-key            gsk_,nvapi-,pplx-,xai-,r8_,tvly-,lsv2_,pcsk_,lin_api_,lin_oauth_,dckr_pat_,dckr_oat_,shpat_,shpss_
    {ANY}{KEY}
api-key            pul-,rnd_,jina_,pnu_,shpca_,sq0csp-,sq0atp-,xkeysib-,rubygems_,nfp_,HRKU- {ANY}{KEY}
api-key            PMAK-,NRAK-,NRJS-,NRII-,figd_,figo_,tskey-,sqp_,squ_,sqa_
    {ANY}{KEY}
api-key            pscale_tkn_,pscale_pw_,pscale_oauth_,sbp_,CFPAT-,rdme_,tfp_,bkua_,CCIPAT_,fm2_,AKCp,LTAI,EZAK
    {ANY}{KEY}
api-key            duffel_live_,duffel_test_ {ANY}{KEY}
api-key            shippo_live_,shippo_test_,sgp_,tgp_v1_,phx_,fw_,csk-,mlsn.,fio-u-,GR1348941,gloas-,clojars_
    (?i:{ANY}){KEY}
api-key            EZTK,ABSK,EAAA,AQVN,FLWSECK,FLWSECK_TEST-,p8e-,tk-us- {ANY}{KEY}
api-key            sm_aat_,sm_pat_,sm_sat_,shppa_,fo1_,fm1a_,fm1r_,vcp_,ops_ey,cmVmd
    {ANY}{KEY}
api-key            xoxe.xox,amzn.mws.,amzn1.oa2-cs.v1.,bedrock-api-key- {ANY}[\w.=+/-]{20,}
api-key            API-,A3-         (?<![\w-])(?:API-[A-Z0-9]{26}|A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5})(?![\w-])
api-key            sk.ey            {ANY}[\w-]{20,}\.[\w-]{20,}
api-key            aaaaaaaaaaaaaaaaaaaaaaaa
    (?<![A-Za-z0-9])(?:re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)\b
token              aaaaaaaaaaaaaaaaaaaaaaaa (?<![A-Za-z0-9+/])A{18,26}(?!A)(?=[\w%]{40,120}(?![\w/+])){CHANCE}
discord-token      mfa.             {ANY}[\w-]{60,}
aws-token          FwoGZXIvYXdz,IQoJb3JpZ2lu,AQoDYXdz {ANY}[\w+/=%-]{40,}
aws-key            ABIA,ACCA        {ANY}[A-Z0-9]{16}\b
api-token          pat.,sat.        {ANY}[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}
jwt                eyJ
    {ANY}[\w-]{8,4096}+(?:(?:\.[\w-]{0,4096}+){3,4}(?![\w.-])|\.[\w-]{4,}(?:\.[\w-]*)?|…)
password-hash      $1$,$2a$,$2b$,$2y$,$5$,$6$,$y$,$apr1$,$argon2
    \$(?:1|2[aby]|5|6|y|apr1|argon2i?d?)\$[./\w$=,+-]{20,}
password-hash      pbkdf2,scrypt,bcrypt {ANY}[_:-]?\w{0,12}\$[./\w$=,+-]{20,}
password-hash      sha},sha256},sha512},md5},crypt} (?i:\{(?:s?sha(?:256|512)?|s?md5|crypt)\})[\w+/=$.-]{16,}
password           ://
    (?i)://(?P<secret>(?!\[redacted)[^\s/:@"'<>]{0,256}:(?!\d{1,5}[…?\#])[^\s/"'<>]{1,256})(?:@|…)
token              ://              (?i)://(?P<secret>(?=[a-z_-]{0,255}\d)[\w-]{16,255})@
token              bearer           (?i)\bbearer\s+(?P<secret>(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,})
password           authorization
    (?i)authorization{IS}{QUOTE}?(?:basic|negotiate|ntlm|token|bot|ssws|api-?key)[ \t]+(?P<secret>(?=[\w+/.~-]*?
    (?:\d|=|(?-i:[a-z][A-Z])))[\w+/.~-]{4,}={0,2})
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
password           curl,http·,https·,lftp
    (?i)\b(?:curl{WITH}(?:-u|--user)|https?{WITH}-a|lftp{WITH}-u)[ \t=]*{QUOTE}?(?P<secret>[^\s:,"'<>$\\]{1,64}[:,]
    [^\s"'<>$\\]{3,})
password           sshpass,mysql,mariadb,7z
    \b(?:sshpass[ \t]+-p[ \t]*|(?:mysql[\w-]{0,32}+|mariadb|7za?){WITH}-p){ARGUMENT}
password           docker,podman,helm,nerdctl,mongo,cqlsh,redis-cli,ldap,sqlcmd,zip·-p
    \b(?:(?:docker|podman|helm|nerdctl){WITH}login{WITH}-p|(?:mongo\w{0,9}+|cqlsh){WITH}-p|redis-cli{WITH}-a
    |ldap\w{2,9}+{WITH}-w
    |sqlcmd{WITH}-P|(?:un)?zip[ ]-P)[ \t]+{SECRETIVE}
password           ·-u·             [ \t]-U[ \t]+{QUOTE}?[\w.\\/-]{1,64}%(?P<secret>[^\s"'\\]{3,})
password           ·-p·
    [ \t](?:-[uUl]|--user(?:name)?)[ \t=]?[^\s|;]{1,64}[ \t](?:[^\n|;]{0,80}?[ \t])?-p[ \t]+(?={QUOTE}?\S{0,64}
    [A-Za-z]){SECRETIVE}
password           --password·
    --user(?:name)?[ \t=][^\s|;]{1,64}[ \t](?:[^\n|;]{0,80}?[ \t])?--password[ \t]+(?!-|[A-Z_]+\b){ARGUMENT}
password           useradd,usermod,twine,xfreerdp,cmdkey,snmp
    \b(?:user(?:add|mod){WITH}-p[ \t]+|twine{WITH}-p[ \t]+|snmp\w{2,12}{WITH}-c[ \t]+|xfreerdp{WITH}/p:|cmdkey
    {WITH}/pass:){SECRETIVE}
password           ssh-keygen,openssl,-securestring,rootpw,·-pass
    \b(?:ssh-keygen{WITH}-[NP][ \t]+|openssl{WITH}-[kK][ \t]+|ConvertTo-SecureString[ \t]+(?:-String[ \t]+)?|rootpw
    [ \t]+|openssl{WITH}-pass(?:in|out)?[ \t]+pass:){ARGUMENT}
password           sqlplus          \bsqlplus{WITH}[\w.]{1,64}/(?P<secret>[^\s"'@/\\]{3,})
password           add_user,change_password,create_user \b{ANY}[ \t]+\S{1,64}[ \t]+{SECRETIVE}
password           auth·            (?<![\w-])AUTH[ \t]+(?:\w{1,32}[ \t]+)?{SECRETIVE}
password           @tcp(,@unix(
    (?<![\w.\[-])[\w.-]{1,64}:(?P<secret>(?!\[redacted)[^\s:"'/\\]{3,64})(?:@tcp|@unix)[(]
password           enable·,password·5·,password·7·,secret·5·,secret·7·
    (?i)\b(?:enable[ ](?:password|secret)|password(?=[ ][57])|secret(?=[ ][57]))[ ](?:\d[ ])?(?P<secret>[^\s"'\\]{6,})
secret             --from-literal,secret·set·,--secret·,kv·put·
    (?:--from-literal[= ]{QUOTE}?[\w.-]{1,64}=|\bsecret[ ]set[ ]\S{1,64}[ ](?:-b|--body)[ =]|\bset[ ]--secret
    [ ]\S{1,80}[ ]|\bkv[ ]put[ ][^\s|;]{1,128}[ ][\w.-]{1,64}=){ARGUMENT}
password           setx,setenv,env·,set·-
    (?i)\b(?:setx|setenv|env|set[ ]-\w{1,3})[ \t]+[\w.]{0,60}{WORD}\w{0,10}[ \t]+{ARGUMENT}
token              login·,auth·,authtoken·,activate·
    (?i)\b(?:login|auth|(?:add-)?authtoken|activate)(?:[ \t]+init)?(?:[ \t]+-{1,2}[\w-]{1,20})?[ \t]+(?P<secret>
    {UUID}|{CHANCE})(?![\w-])
password           net·use,net·user
    (?i)\bnet[ ](?:use\b[^\n|;]{0,200}?/user:\S{1,64}|user[ \t]+\w[^\s/]{0,64})[ \t]+{SECRETIVE}
password           htpasswd         \bhtpasswd[ \t]+-\w*b\w*(?:[ \t]+[^\s|;]{1,200}){1,2}[ \t]+{ARGUMENT}
    (?=[ \t]*(?:$|[\n|;&"'\\]))
password           --password-stdin,chpasswd,--with-token,sudo·-s,vault·login
    \b(?:echo|printf)[ \t]+(?:-n[ \t]+)?{ARGUMENT}(?(q)(?P=q))[ \t]*\|[^\n]{0,120}?
    (?:--password-stdin|chpasswd|--with-token|sudo[ ]-S|vault[ ]login)
password           {WORDS}          (?i)(?-i:[cC])(?<=\b.)onfig(?:ure)?[ \t]+set[ \t]+\S{0,80}?{WORD}[ \t]+{ARGUMENT}
password           :5432:,:5433:,:6432:
    (?m)(?:^|\\n|"|[ ])[\w.*-]{1,200}:(?:5432|5433|6432):[\w.*-]{1,64}:[\w.*-]{1,64}:(?P<secret>[^\s"'\\]{3,})(?=$|
    ["\\])
password           -pass,-pwd,pass",storepass,keypass
    (?im)(?<![\w-])--?{PARTS}(?:password|passwd|passphrase|passcode|(?:store|key)?pass|pwd){OPTION}
token              -token           (?im)(?<![\w-])--?{PARTS}{TOKEN}{OPTION}
secret             -secret          (?im)(?<![\w-])--?{PARTS}secret{OPTION}
api-key            {API_KEYS}       (?im)(?<![\w-])--?{PARTS}{API_KEY}{OPTION}
password           passphrase
    (?i)passphrase(?:[ ]for[ ][^\n:\[]{1,80})?{QUOTE}?\*{0,2}[ \t]*:\*{0,2}[ \t]*{PROSE}{NO_VALUE}(?P<secret>
    [^\s"'`,;}\])>\\\[](?:[^"'`,;}\])>\\\[\n….]|\.(?=\S)){2,100})
password           {PASSWORDS},psk  (?i)(?:{PASSWORD}|\bpsk){IS}{VALUE}
password           pass:,pass=,pass·:,pass·=,pass··,pass",pass',pass\,pass*,pw:,pw=,pw·=,pw",pw',pw\
    (?i)(?<!irst )(?<!econd )(?<!ext )(?<!inal )(?<!ast )(?<!his )(?<!ach )(?:(?<=_)|(?!(?-i:PASS)[ \t]*:)){PASS}
    {QUOTE}?\*{0,2}[ \t]*[:=]\*{0,2}[ \t]*(?!{QUOTE}?\d+\b){SECRETIVE}
password           pass=,pass·=,pass··
    (?im)(?:^|\\n|["'`:;,])[ \t]*pass[ \t]*=[ \t]*(?!(?:\d+|yes|on|off|ok)\b){VALUE}(?=[ \t]*(?:$|["\\]))
password           pass=            (?:[?&]|_|(?-i:[A-Z]))(?<!BY)(?<!by_)(?i:pass)={VALUE}
password           pass",pass',pass\,pw",pw\    (?i)(?<=["'])(?:pass|pw){QUOTE}[ \t]*:[ \t]*(?P<q>{QUOTE})
    (?!(?:passed|failed|skipped|unknown|\d+)\b){NO_VALUE}(?P<secret>[^\s"'\\]{6,64})(?=(?P=q))
password           pin:,pin=,pin·is,pin"    (?i)\bpin{QUOTE}?(?:[ \t]*[:=]|[ ]is)[ \t]*{QUOTE}?(?P<secret>\d{4,8})\b
password           {PASSWORDS}
    (?i){PASSWORD}(?: (?:for|of) [^\n:.,;]{1,60}?)?\s{1,9}(?:is|was|ist|lautet|est|es|é|è|jest|je|är|er|on)(?::
    |\s{1,9}(?:now |still |set to |currently )?)\s{0,9}{SECRETIVE}
password           {PASSWORDS}      (?i){PASSWORD}\s{0,3}(?:是|为|為|は|는|은)[\s:：「『“"]{0,3}{SECRETIVE}
password           {PASSWORDS}
    (?i){PASSWORD}\s{1,9}is\s{1,9}(?P<q>{QUOTE})(?!\w*{PASSWORD}){NO_VALUE}(?P<secret>[^\s"'`\\]{4,64})(?=(?P=q))
password           {PASSWORDS}
    (?i){PASSWORD}(?:[ ](?:for|of|to|от|для|für|de|pour|para|per|di)[ ][^\n:;\[]{1,60}|[ ][\[(][^\n\])]{1,40}[\])])
    [:：][ \t]*{VALUE}
password           {PASSWORDS}      (?i){PASSWORD}(?: \w{2,12}){0,3} to {SECRETIVE}
password           {PASSWORDS}
    (?i)\b(?:use|with|to|type|try|enter|is|as)[ ](?P<secret>(?=[^\s"'`]{0,64}\d)(?=[^\s"'`]{0,64}[a-z])
    [^\s"'`]{5,64})[ ]as[ ](?:\w{1,12}[ ]){0,2}{PASSWORD}
password           ·pass·,·pw·
    (?i)(?-i:[uU])(?<=\b.)ser(?:name)?[ ]\S{1,64}(?:,| and)? (?:and )?(?:pass|pw)[ ]{SECRETIVE}
password           {PASSWORDS}
    (?i){PASSWORD}[*"]{0,2}(?:[ \t]+|[ \t]*(?:->|→|⇒|=>|[–—])[ \t]*|[ \t]+-[ \t]+){SECRETIVE}
password           {PASSWORDS}
    (?im){PASSWORD}[*"]{0,2}:?\*{0,2}(?:{NEW_LINE}){1,3}[ \t]*{SECRETIVE}{QUOTE}?(?=[ \t]*(?:$|["\\]))
password           passw,passphrase
    (?i)(?-i:[cCsSuUrR])(?:(?<=c)hang|(?<=s)et|(?<=u)pdat|(?<=r)eset)\w* [^\n:.,;]{0,60}?{PASSWORD} to {SECRETIVE}
password           passw,identified
    (?i)(?-i:[wWiI])(?:(?<=w)ith password|(?<=i)dentified by)[ \t]+'(?P<secret>[^'\n]{3,})'
password           requirepass,masterauth \b(?:requirepass|masterauth)[ \t]+{ARGUMENT}
password           login:,login·is,credentials:,credentials·are,username:
    (?i)\b(?:login|credentials|username)(?::| is| are)[ \t]*[^\s:/]{1,64}[ \t]*[:/][ \t]*{SECRETIVE}
password           ·/·
    (?i)(?-i:[lLsS])(?<=\b.)(?:(?<=l)og|(?<=s)ign)\w{0,3}[ ]?(?:in|on)?[^\n.]{0,40}[ ](?:with|as|using)[ ]
    [\w.@+-]{1,64}[ ]/[ ]{SECRETIVE}
password           ·/·
    (?i)(?-i:[uU])(?<=\b.)se[ ][\w.@+-]{1,64}[ ]/[ ](?P<secret>[^\s"'`]{4,64})(?=[ ]to[ ](?:log|sign))
password           {WORDS}
    (?i)<(?:\w{1,20}:)?([\w.-]{0,60}{WORD})(?:\s[^<>]{0,200})?>(?:\s|\\{1,4}[nrt]){0,40}(?:<value>)?
    (?P<secret>[^<>\s\[\\][^<>\n\\]{2,2000})(?:\s|\\{1,4}[nrt]){0,40}</
password           <input
    (?i)<input\b(?=[^<>]{0,400}\btype={QUOTE}?password)[^<>]{0,400}?\bvalue=(?P<q>{QUOTE})?(?P<secret>(?(q)
    {QUOTED}+|[^\s"'<>\\]+))
password           :·>,:·|,:>,:|          (?i){WORD}{QUOTE}?[ \t]*:[ \t]*[>|][+-]?\d?{NEW_LINE}(?P<i>[ \t]+)
    (?P<secret>(?:(?!\\{1,4}n)[^\n"])+(?:{NEW_LINE}(?P=i)(?:(?!\\{1,4}n)[^\n"])+)*)
password           {PASSWORDS}      (?i){PASSWORD}s{QUOTE}?:(?P<i>{NEW_LINE}[ \t]*-[ ]+)
    (?P<secret>(?=\S{0,64}\d)[^\s"\\]{4,64}(?:(?P=i)(?=\S{0,64}\d)[^\s"\\]{4,64})*)
password           {WORDS}
    (?i)<key>[^<>]{0,60}{WORD}</key>(?:\s|\\{1,4}n){0,40}<string>(?P<secret>[^<>\s\[][^<>\n]{2,2000})<
password           {WORDS}          (?i)(?-i:[nNkKiItTsSeElL])(?<=\b.)
    (?:(?<=n)ame|(?<=k)ey|(?<=i)d|(?<=t)ype|(?<=s)elector|(?<=e)lement|(?<=l)abel|(?<=l)ocator)
    {QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?[\w./#\[=-]{0,80}{WORD}\w{0,20}(?: field| input)?
    \]?{QUOTE}?(?:(?:(?!name\b|\bkey\b)[^{}]){1,200}?\b(?:value|text|content){IS}|[^<>]{0,80}>){VALUE}
secret             sess,sid",auth"
    (?i)\bname{QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?[\w.-]{0,40}(?:sess(?:ion)?[_-]?(?:id)?|sid|auth){QUOTE}
    [^{}]{1,100}?\bvalue{IS}{QUOTE}?(?P<secret>{CHANCE})
password           .fill(,.type(,.send_keys(,.sendkeys(,.set_value(,.setvalue(,.presssequentially(
    (?i)(?:\.(?:fill|type|send_?keys|set_?value)\({QUOTE}[^\n"']{0,60}{WORD}{QUOTE}[ ]*,|(?-i:[gGlLfFqQ])(?:
    (?<=g)et_?by\w{0,20}|(?<=l)ocator|(?<=f)ind_?element\w{0,20}|(?<=q)uery_?selector)\([^\n()]{0,80}{WORD}
    [^\n()]{0,20}\)\.(?:fill|type|send_?keys|set_?value|press\w{0,20})\()[ \t]*(?P<q>{QUOTE}){NO_VALUE}(?P<secret>
    {QUOTED}{3,})
secret             sensitive
    \bsensitive{QUOTE}?[ \t]*[:=][ \t]*true\b[^{}]{0,200}?\b(?:value|default){IS}{VALUE}
secret             sensitive
    \b(?:value|default){IS}{VALUE}(?P=q)[^{}]{0,200}?\bsensitive{QUOTE}?[ \t]*[:=][ \t]*true\b
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
api-key            key·for,key·of,key·to
    (?i)(?-i:[kK])ey (?:for|of|to) [^\n:.,;]{1,60}?\s+is\s+{LONG}(?!\d+\b){SECRETIVE}
token              code·is,code:,code=,otp
    (?i)\b(?:(?:one[- ]time|verification|security|authentication|2fa|mfa|sms|login|door|gate|alarm|safe|access)[ -]
    (?:pass)?code|otp)(?: is|:|=|(?<=otp))[ \t]*{QUOTE}?(?P<secret>\d{4,8})\b
token              is·your,is·the·code,is·the·verif
    (?i)\b(?P<secret>(?:\w-)?\d{4,8})(?= is (?:your|the) [^\n.]{0,40}code)
token              access·code,access_code,accesscode,auth·code,auth_code,invite·code,invite_code,unlock·code
    (?i)(?:access|auth|invite|unlock)[ _-]?code{IS}{LONG}{SECRETIVE}
token              recovery·code,recovery-code,backup·code,backup-code
    (?i)(?:recovery|backup)[ -]codes?(?: is| are)?[:=]?\s{1,9}(?P<secret>[\w-]*\d[\w-]{4,}(?:[, ]{1,2}[\w-]*\d
    [\w-]{4,}){0,20})
secret             mnemonic,phrase,wallet
    (?i)(?:mnemonic|(?:seed|recovery|secret|backup)[ _-]?(?:phrase|words)|wallet[ _-]seed)(?:\\{1,4}["n]|[^\w\\]|\b
    (?:is|are)\b){1,16}(?P<secret>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})
secret             totp,2fa,mfa,otp
    (?i){ANY}[^\n]{0,30}?(?:seed|secret|key)(?:\W{1,4}(?:is )?)(?P<secret>(?-i:[A-Z2-7]{16,}|[a-z2-7]{16,}))(?!\w)
token              {FOREIGN_KEYS}   (?i)(?<![^\W_])(?:{FOREIGN_KEY})[^\n:=：]{0,30}?{IS}{QUOTE}?(?P<secret>{CHANCE})
secret             key=,key:,key",key',key\,key·=,key·is,key·:,_key·,key)
    (?i)(?-i:[kK])ey{KEY_GUARD}(?:{IS}|[ \t]is[ \t:]{1,3}|(?<=_key)[ \t]{1,9}){QUOTE}?(?:base64:)?(?P<secret>{CHANCE})
secret             {GUESS_WORDS}
    (?i)(?-i:[bBcCsSpPvVaArRjJlLdD])(?:(?<![^\W_].)|(?<=\\[nrt].)|(?-i:(?<=[BA])))(?:{GUESS})(?:{IS}|[ \t]is
    [ \t:]{1,3}){QUOTE}?(?P<secret>{CHANCE})
secret             sess            (?i)(?-i:[sS])ess(?:ion)?[_-]?(?:id)?=(?P<secret>{CHANCE})
secret             key>,key&gt      (?i)(?-i:[kK])ey{KEY_GUARD}(?:>|&gt;)(?P<secret>{CHANCE})(?:<|&lt;)
secret             secret,passw,credential
    (?i)(?-i:[sSpPcC])(?:(?<=s)ecret|(?<=p)assword|(?<=c)redential)[\w-]{0,24}{IS}{QUOTE}?(?P<secret>{CHANCE})
secret             _key',_salt',_key",_salt"
    (?-i:_KEY|_SALT){QUOTE}?[ ]*[,=:][ ]*(?P<q>{QUOTE})(?P<secret>(?=[^\n"']{0,64}[!#$%^&*])(?=[^\n"']{0,64}\d)
    [^\n"']{32,})(?=(?P=q))
"""


def _rules() -> Iterator[Rule]:
    def expanded(text: str, words: dict[str, str], literals: str = "") -> str:
        spelt = "|".join(map(re.escape, literals.split(",")))
        parts = {**words, "{ANY}": rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{spelt})"}
        return re.sub(r"\{([A-Z_]+)\}", lambda match: parts.get(match[0]) or globals()[f"_{match[1]}"], text)

    foreign = {"{PASSWORD}": _FOREIGN_PASSWORD, "{PASSWORDS}": _FOREIGN_PASSWORDS}
    for entry in re.split(r"\n(?! )", _TABLE.strip()):
        first, *more = entry.splitlines()
        kind, literals, *expression = first.split(maxsplit=2)
        whole = "".join((*expression, *map(str.strip, more)))
        languages: list[dict[str, str]] = [{}]
        if "{PASSWORDS}" in literals:
            languages.append(foreign)
        for words in languages:
            any_of: tuple[str, ...] = ()
            if literals != "-":
                any_of = tuple(expanded(literals, words).lower().replace("·", " ").split(","))
            yield Rule(kind, expanded(whole, words, literals), any_of)


DEFAULT_RULES: Final = tuple(_rules())
"""The rules that a `Redactor` goes by where it is given no others."""
