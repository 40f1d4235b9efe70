"""A made-up credential of each form that its makers gave it, and texts that only look like one."""

import random

import pytest
from credentials import ALPHABETS, made

from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
ALPHABETS["b58"] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
UUID = "{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}"
TOKENS = """
v1.{hex:40}
AQ.Ab8RN6{url:44}
{b62:76}AZDO{b62:4}
{b62:52}JQQJ99{b62:26}
{url:44}AzFu{url:4}aA==
{b64:75}a+ASt{b64:4}aA==
{b62:76}ACDb{b62:4}aA==
{b62:76}APIM{b62:4}aA==
{b62:42}AzSeA{b62:5}
{b64:42}+ACRB{b62:5}
eyJhIjoi{b64:150}=
eyJhdXRocyI6{b64:60}==
ewoJImF1dGhzIjog{b64:60}==
SWMTKN-1-{low:50}-{low:25}
K10{hex:64}::server:{hex:32}
ptr_{b64:43}=
syt_{b62:12}_{b62:20}_{b62:6}
mct_{b62:30}_{b62:6}
configcat-sdk-1/{url:22}/{b62:22}
xprv{b58:107}
zprv{b58:107}
nsec1{low:58}
suiprivkey1{low:59}
edsk{b58:50}
302e020100300506032b657004220420{hex:64}
RWRTY0Iy{b64:200}=
AAAAAAAAAAAAAAAAAAAAA{b62:24}%3D{b62:50}
WPL_AP1.{b62:16}.{b62:6}==
dG9rO{b64:54}=
md-{b62:10}7{b62:11}
live_{b62:30}
napi_{low:64}
sgp_{hex:16}_{hex:40}
sgp_{hex:40}
st.{hex:24}.{hex:32}.{hex:32}
tgp_v1_{url:42}a
jina_{b62:60}
fc-{hex:32}
rpa_{UP:40}{low:6}
ak-{b62:22}
e2b_{hex:40}
dtn_{hex:64}
bb_live_{url:26}a
ctx7sk-@
crsr_{hex:64}
apify_api_{b62:36}
ms-@
bce-v3/ALTAK-{b62:21}/{hex:40}
signkey-prod-{hex:64}
tr_prod_{b62:24}
xau_{b62:43}
CCDB1_{b62:22}_{b62:40}
mdb_sa_sk_{url:39}a
cflt{b64:59}a
AVNS_{url:18}a
secret-live-{url:35}a
xaat-@
ck_{hex:40}
cs_{hex:40}
pdl_live_apikey_{low:26}_{b62:22}_{b62:3}
polar_oat_{b62:43}
KEY01{HEX:30}_{b62:22}
mlsn.{hex:64}
pk_{num:7}_{UP:32}
ATTA{hex:72}
cal_live_{hex:32}
dbtc_{b62:42}
tk-us-{url:47}a
ucat_{UP:26}
K005{b62:27}
private_{b62:13}7{b62:13}=
sec-c-{b62:46}==
os_v2_app_{low:100}
gitpod_pat_{url:39}a.{url:40}
perm-{b62:12}==.{b62:8}=.{b62:30}
ddp_{b62:36}
waka_@
nbp_{b62:36}
RGAPI-@
pina_{UP:90}
CG-{b62:24}
LUFRPT{b64:80}==
mfa.{url:83}a
castai_v1_{hex:64}_{hex:8}
pat.{url:22}.{hex:24}.{b62:20}
AAAA{url:7}:APA91b{url:133}a
{b62:6}_{b62:29}_mmk
{hex:36}NRAL
{hex:32}-{hex:8}-{hex:8}
2{b62:26}_{b62:21}
L{b58:51}
5{b58:50}
"""
HASHES = """
$8${b62:14}${b62:43}
$P$B{b62:30}
$pbkdf2-sha256$29000${b62:22}${b62:43}
$bcrypt-sha256$v=2,t=2b,r=12${b62:22}${b62:31}
scrypt:32768:8:1${b62:16}${hex:128}
pbkdf2:sha256:600000${b62:16}${hex:64}
argon2$argon2id$v=19$m=102400,t=2,p=8${b62:22}${b62:43}
SCRAM-SHA-256$4096:{b62:22}==${b62:43}=:{b62:43}=
AQAAAAIAAYagAAAAE{b64:67}==
grub.pbkdf2.sha512.10000.{HEX:128}.{HEX:128}
aad3b435b51404eeaad3b435b51404ee:{hex:32}
"""
INSIDE = """
deploy:{{SSHA}}[[{b64:38}==]]
VAULT: "s.[[{b62:12}7{b62:11}]]"
{{"kty":"oct","k":"[[{url:43}]]"}}
{{"k": "[[{url:43}]]", "alg": "HS256", "kty": "oct"}}
AKIAIOSFODNN7EXAMPLE / [[{b62:38}7z]]
AKIAIOSFODNN7EXAMPLE,[[{b62:37}+7z]]
mine: [[MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{b64:200}]]
mine: [[MC4CAQAwBQYDK2VwBCIEI{b64:43}]]
https://hooks.zapier.com/hooks/[[catch/{num:7}/{low:4}7{low:2}]]/
https://maker.ifttt.com/trigger/[[door/with/key/{b62:20}7{b62:20}]]
https://hook.eu1.make.com/[[{low:30}7a]]
https://open.feishu.cn/open-apis/bot/v2/hook/[[@]]
Fernet(b"[[{url:43}=]]")
pyotp.TOTP("[[{b32:30}7Q]]").now()
wandb.login(key="[[{hex:40}]]")
"encoded":"[[VnVhQ2ZIY0JDZGJrUW0tZTVhT3g6dWkybHAyYXhUTm1zeWFrdzl0dk5udw==]]"
X-JFrog-Art-Api: [[cmVmdGtu{b62:40}]]
accounts: ["[[0x{hex:64}]]"]
client-key: [[LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{b64:200}]]
"""
SEED_WORDS = """
cruise afraid brief question this ginger just awake drop guess engage sail escape come urban skin play bomb hunt shaft
fold settle basket hour cactus velvet
"""
LOOK_ALIKES = [
    "https://0123456789abcdef0123456789abcdef@o12345.ingest.sentry.io/4501234".replace("0123456789abcdef", "9f86d08188fc7d65"),
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6y",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "md-button-large-primary-x2 md-col-sm-12-offset-lg-4a",
    "class='live_preview_container_of_the_editor_pane'",
    "this.s.someVeryLongMethodName24(x)",
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + "TUlJQ2pEQ0NB" * 12,
    "data:image/png;base64," + "A" * 60 + "iVBORw0KGgoAAAANSUhEUg",
    "key: MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0",
    "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8",
    '{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"}',
    "table = [" + ", ".join(str(n * 4 % 256) for n in range(64)) + "]",
    "seed = np.random.default_rng(7).integers(0, 256)",
    "seed words like these: the model reads one word and then another each time with ease",
    "const keywords = 'abstract boolean break byte case catch char class const continue debugger default'",
    "commit pk_ab12 ck_2020 cs_ cal_2024 tr_dev_mode fc-16 ak-47",
]  # fmt: skip


def cases(table):
    return [line.replace("@", UUID) for line in table.strip().splitlines()]


@pytest.mark.parametrize("form", [*cases(TOKENS), *cases(HASHES), *cases(INSIDE)])
def test_what_has_a_form_is_found_and_nothing_beside_it(form):
    dice = random.Random(form)
    for before, after in (("", ""), ("it is ", " now"), ('{"v": "', '"}'), ("A=1\n", "\r\nB=2"), ("\\n", "\\n")):
        text, secret = made(form, dice)
        clean, found = redacted(before + text + after, NONE)
        assert secret not in clean, (before, text)
        assert found
        rest = (before + text + after).split(secret)
        assert clean.startswith(rest[0])
        assert clean.endswith(rest[-1])


def wallet(count, dice):
    return dice.sample(SEED_WORDS.split(), count)


@pytest.mark.parametrize("count", [12, 15, 18, 21, 24])
@pytest.mark.parametrize(
    "said",
    [
        lambda words: f"const mnemonic = '{' '.join(words)}';",
        lambda words: f"new HDWalletProvider('{' '.join(words)}', 'https://rpc.corp.internal')",
        lambda words: f"mi frase semilla: {' '.join(words)}",
        lambda words: f"seed: {' '.join(words)}\nthanks",
        lambda words: f'{{"wallet": {{"phrase": "{" ".join(words)}"}}}}',
        lambda words: "Your recovery phrase\n" + "\n".join(f"{n}. {word}" for n, word in enumerate(words, 1)),
        lambda words: "seed phrase: " + " ".join(f"{n}. {word}" for n, word in enumerate(words, 1)),
        lambda words: '{"mnemonic": ["' + '", "'.join(words) + '"]}',
    ],
)
def test_the_words_of_a_wallet_are_found_where_something_says_so(said, count):
    words = wallet(count, random.Random(count))
    clean, _ = redacted(said(words), NONE)
    assert "<secret:seed-phrase:1>" in clean
    assert not [word for word in words[:3] + words[-3:] if word in clean.replace("seed-phrase", "").replace("this", "")]
    assert "seed-phrase" not in [finding.rule for finding in redacted(said(words[:-1]), NONE)[1]]


def test_a_key_in_numbers_is_found_whatever_its_lines():
    dice = random.Random(1)
    for join in (",", ", ", ",\n  "):
        numbers = join.join(str(dice.randrange(256)) for _ in range(64))
        assert redacted(f"$ cat id.json\n[{numbers}]", NONE)[0].count("<secret:wallet-key:1>") >= 1
    assert redacted(str([dice.randrange(256) for _ in range(63)]), NONE)[1] == []


def test_a_block_goes_line_by_line_however_it_is_spelt():
    dice = random.Random(2)
    lines = ["".join(dice.choices("0123456789abcdef", k=32)) for _ in range(16)]
    begin, end = (f"-----{word} OpenVPN Static key V1-----" for word in ("BEGIN", "END"))
    for line_end in ("\n", "\r\n", "\\n", "\\\\n"):
        for last in (f"{line_end}{end}", ""):
            text = f"a{line_end}" + line_end.join([begin, *lines]) + last
            clean = redacted(text, NONE)[0]
            assert not [line for line in lines if line in clean]
            assert clean.count(line_end) == text.count(line_end)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_form_stays(text):
    assert redacted(text, NONE) == (text, [])
