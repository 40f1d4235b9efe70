"""A held-out set for the secret scanner: credentials drawn from a seed, put into excerpts of an agent's traces.

`episodes.txt` holds the kinds and the excerpts with slots, `look_alikes.txt` the excerpts that a scanner leaves alone.
Every credential is drawn (right prefix, length, alphabet and, where it is public, checksum): nothing in them is real.
`python blind.py` checks the set and prints the counts by kind and by group of episodes.
"""

import base64
import hashlib
import json
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from urllib.parse import quote

HERE = Path(__file__).parent
EPISODES_OF_A_KIND = 16
ALNUM = ascii_letters + digits
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
ALPHABETS = {"digits": digits, "letters": ascii_letters, "alnum": ALNUM, "w": ALNUM + "-_", "tilde": ALNUM + "-_.~"}
ALPHABETS |= {"lower": ascii_lowercase, "low": ascii_lowercase + digits, "up": ascii_uppercase + digits}
ALPHABETS |= {"b32": ascii_uppercase + "234567", "b32low": ascii_lowercase + "234567", "b64char": ALNUM + "+/"}
ALPHABETS |= {"hex": digits + "abcdef", "HEX": digits + "ABCDEF", "bech": BECH32, "quoted": "\"\\'&<>$`%/#"}
ALPHABETS |= {"symbols": ALNUM + "!#%*+-=^_~?@$.", "django": ascii_lowercase + digits + "!@#$%^&*(-_=+)"}
WORDS = {
    "word": "lantern gravel tundra kupfer wolke marmot orchid velvet harbour meteor nettle falcon bistro dolmen igel "
    "papaya sextant cactus girasol nuvola zwiebel tournesol fjord biscuit pelikan ardoise walnut cobalt kestrel",
    "leet": "G1raff3 Kl4v1er T0mat3 M0nt4gn3 Sch0k0l4d3 P1r4t3nsch1ff Z4uberw4ld B1c1cl3tt4 K@rtoff3l Dr@g0nfly",
    "umlaut": "Müllabfuhr Käsefondue Châtaigne Łabędzie Piñata Brötchen Crème-brûlée Früchtetee Ångström Coração",
    "walk": "qwertz yxcvbn asdfjk 1qay2wsx zaq12wsx poiuzt qazwsxedc mnbvcx",
    "mark": "! ? # ! !! * +",
    "pct": "%21 %40 %23 %2B",
    "year": "2019 2021 2022 2023 2025 1987 1994",
    "name": "Julia Matteo Svenja Ricardo Oskar Amelie Wojtek Ines Thibault Leonie Giorgos Femke",
    "user": "jlindner mkowalska svc-billing t.moreau backup-agent anika.roth deployer dbadmin pferreira reporting",
    "host": "pg-2.nordwind.internal vault.kestrel.lan api.tamarind.corp 10.20.4.17 ci.heron.internal mail.ostsee.lan",
    "app": "nordwind heron tamarind ledgerly kestrel pumpwerk atlasdb fahrplan",
}
# words of the BIP-39 list with their places in it
BIP39 = (
    "basket=153 blind=190 board=197 bonus=203 buffalo=237 bundle=242 burden=244 cabbage=253 cage=257 celery=296 "
    "clown=352 coral=385 cradle=399 crumble=422 detail=482 disorder=507 endorse=590 essay=617 frame=740 gasp=769 "
    "harvest=843 hospital=879 illness=905 kite=985 nephew=1186 place=1326 robot=1497 salt=1525 slam=1624 wreck=2033"
)
# label, columns, the line that holds the secret part, and the DER: hex with *n for n random bytes
PEMS = {
    "rsa": "RSA PRIVATE KEY, 64, 9, 308204a30201000282010100 *1179",
    "pkcs8": "PRIVATE KEY, 64, 11, 308204bd020100300d06092a864886f70d0101010500048204a7308204a30201000282010100 *1179",
    "ec": "EC PRIVATE KEY, 64, 0, 30770201010420 *32 a00a06082a8648ce3d030107a14403420004 *64",
    "ed25519": "PRIVATE KEY, 64, 0, 302e020100300506032b657004220420 *32",
    "openssh": "OPENSSH PRIVATE KEY, 70, 3, 6f70656e7373682d6b65792d763100000000046e6f6e65000000046e6f6e6500000000"
    "00000001000000330000000b7373682d6564323535313900000020 *32 00000098 *152",
    "pgp": "PGP PRIVATE KEY BLOCK, 64, 1, 945804 *4 16092b06010401da470f01010740 *32 00 *36 b41c *28 8890 *120",
}


def pem(rng: Random, form: str) -> str:
    """A private key in its armour, with the marks round a line that holds secret bytes."""
    label, columns, secret, layout = PEMS[form].split(", ")
    parts = (rng.randbytes(int(part[1:])) if part[0] == "*" else bytes.fromhex(part) for part in layout.split())
    lines = re.findall(f".{{1,{columns}}}", base64.b64encode(b"".join(parts)).decode())
    lines[int(secret)] = f"‹{lines[int(secret)]}›"
    return "\n".join([f"-----BEGIN {label}-----", *([""] if form == "pgp" else []), *lines, f"-----END {label}-----"])


def jwt(rng: Random, algorithm: str) -> str:
    """A signed JWT: 32 bytes of signature for HS256, 256 for RS256."""
    claims = {"sub": draw(rng, "user"), "iss": "https://" + draw(rng, "host"), "exp": 18 * 10**8 + rng.randrange(10**8)}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": algorithm, "typ": "JWT"}, claims)]
    parts.append(rng.randbytes(32 if algorithm == "HS256" else 256))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def crc62(rng: Random, size: str) -> str:
    """Random letters and digits, then their CRC-32 in six digits of base 62 (GitHub's and npm's)."""
    body = draw(rng, "alnum", size)
    crc, base62 = zlib.crc32(body.encode()), digits + ascii_uppercase + ascii_lowercase
    return body + "".join(base62[crc // 62**place % 62] for place in range(5, -1, -1))


def grafana(rng: Random, _: str) -> str:
    """A service account's token of Grafana: 32 letters and digits, then a CRC-32 of all before it."""
    body = "glsa_" + draw(rng, "alnum", "32")
    return f"{body}_{zlib.crc32(body.encode()).to_bytes(4, 'little').hex()}"


def age(rng: Random, _: str) -> str:
    """An identity of age: 32 bytes in Bech32."""
    key, prefix, check = rng.getrandbits(256) << 4, "age-secret-key-", 1
    data = [key >> 5 * place & 31 for place in range(51, -1, -1)]
    for value in [*(ord(char) >> 5 for char in prefix), 0, *(ord(char) & 31 for char in prefix), *data, *[0] * 6]:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    data += [(check ^ 1) >> 5 * place & 31 for place in range(5, -1, -1)]
    return (prefix + "1" + "".join(BECH32[value] for value in data)).upper()


def mnemonic(rng: Random, size: str) -> str:
    """A phrase of BIP-39 whose checksum holds."""
    places = dict(pair.split("=") for pair in BIP39.split())
    while True:
        words = rng.choices(list(places), k=int(size))
        bits = "".join(f"{int(places[word]):011b}" for word in words)
        entropy, check = bits[: len(bits) * 32 // 33], bits[len(bits) * 32 // 33 :]
        digest = hashlib.sha256(int(entropy, 2).to_bytes(len(entropy) // 8, "big")).digest()
        if f"{digest[0]:08b}"[: len(check)] == check:
            return " ".join(words)


MAKERS: dict[str, Callable[[Random, str], str]] = {
    "pem": pem,
    "jwt": jwt,
    "crc62": crc62,
    "grafana": grafana,
    "age": age,
    "mnemonic": mnemonic,
    "uuid": lambda rng, _: str(uuid.UUID(bytes=rng.randbytes(16), version=4)),
    "Word": lambda rng, _: draw(rng, "word").capitalize(),
    "n": lambda rng, _: str(rng.randint(11, 9999)),
    "id": lambda rng, _: "AKIA" + draw(rng, "b32", "16"),
    "bitlocker": lambda rng, _: "-".join(f"{11 * rng.randrange(65536):06d}" for _ in range(8)),
    "snowflake": lambda rng, _: base64.b64encode(str(rng.randint(10**17, 10**18 - 1)).encode()).decode(),
    "b64": lambda rng, size: base64.b64encode(rng.randbytes(int(size))).decode(),
    "bare64": lambda rng, size: base64.b64encode(rng.randbytes(int(size))).decode().rstrip("="),
    "url64": lambda rng, size: base64.urlsafe_b64encode(rng.randbytes(int(size))).decode().rstrip("="),
    "colon": lambda rng, size: rng.randbytes(int(size)).hex(":").upper(),
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json2": lambda text: SPELLINGS["json"](SPELLINGS["json"](text)),
    "u": lambda text: re.sub(r"[^A-Za-z0-9]", lambda char: f"\\u{ord(char[0]):04x}", text),
    "url": lambda text: quote(text, safe=""),
    "b64": lambda text: base64.b64encode(text.encode()).decode(),
    "shell": lambda text: text.replace("'", "'\\''"),
}


@dataclass(frozen=True)
class Sample:
    """One credential in one excerpt: `secret` is the spelling in `text` that must not survive."""

    kind: str
    episode: str
    text: str
    secret: str


def draw(rng: Random, name: str, size: str = "") -> str:
    """What a slot or a part of a pattern stands for, such as `hex:40` or `word`."""
    if name in ALPHABETS:
        return "".join(rng.choices(ALPHABETS[name], k=int(size or 1)))
    return rng.choice(WORDS[name].split()) if name in WORDS else MAKERS[name](rng, size)


def expand(rng: Random, pattern: str) -> str:
    """The pattern with its `{name:size}` drawn."""
    return re.sub(r"\{(\w+)(?::(\w+))?\}", lambda part: draw(rng, part[1], part[2] or ""), pattern)


def excerpts(file: str) -> list[tuple[str, str, str]]:
    """The excerpts of a file as (group, name, text)."""
    parts = re.split(r"(?m)^## ([a-z]+) \| (.+)\n", (HERE / file).read_text(encoding="utf-8"))[1:]
    return [(group, name, text.rstrip("\n")) for group, name, text in zip(*[iter(parts)] * 3, strict=True)]


def kinds() -> Iterator[tuple[str, list[str], list[str], str]]:
    """The kinds above the first excerpt as (kind, groups of its episodes, names, pattern)."""
    groups: list[str] = []
    for line in (HERE / "episodes.txt").read_text(encoding="utf-8").split("\n## ")[0].splitlines():
        if line.startswith("["):
            groups = line[1:-1].split()
        elif not line.startswith("#"):
            for kind, names, pattern in (entry.split(maxsplit=2) for entry in line.split(" ; ")):
                yield kind, groups, names.split(","), pattern.replace("\\n", "\n")


def fill(rng: Random, text: str, values: dict[str, str], core: str = "") -> tuple[str, list[str]]:
    """The excerpt with its slots filled, and the spellings of the core that are then in it."""
    scene = values | {name: draw(rng, name) for name in ("user", "host", "app", "n", "id")}
    spelt: list[str] = []

    def slot(found: re.Match[str]) -> str:
        margin, (name, *spellings) = str(found[1]), str(found[2]).split(":")
        if name not in scene:
            return margin + draw(rng, name, *spellings)
        value, kept = scene[name], core
        for spelling in spellings:
            if spelling.endswith("b64"):
                value = kept = SPELLINGS["b64"](f"{scene['user']}:{value}" if spelling == "userb64" else value)
            else:
                value, kept = SPELLINGS[spelling](value), SPELLINGS[spelling](kept)
        if name == "secret":
            spelt.append(kept)
        return margin + value.replace("\n", "\n" + margin)

    return re.sub(r"(?m)((?:^[ \t>#+-]+)?)«([\w:]+)»", slot, text), list(dict.fromkeys(spelt))


def secrets(seed: int) -> Iterator[Sample]:
    """Every kind in the least used episodes of its groups, everything drawn from the seed."""
    rng, used, episodes = Random(seed), Counter[tuple[str, str]](), excerpts("episodes.txt")
    for kind, groups, names, pattern in kinds():
        fitting = [(used[episode[:2]], rng.random(), episode) for episode in episodes if episode[0] in groups]
        for _, _, (group, title, text) in sorted(fitting)[:EPISODES_OF_A_KIND]:
            used[group, title] += 1
            marked, name = expand(rng, pattern), expand(rng, rng.choice(names))
            words = name.lower().split("_")
            pascal = "".join(word.capitalize() for word in words)
            values = {"NAME": name, "name": "_".join(words), "kebab": "-".join(words), "words": " ".join(words)}
            values |= {"Pascal": pascal, "camel": words[0] + pascal[len(words[0]) :]}
            values["secret"] = re.sub("[‹›]", "", marked)
            core = re.search("‹(.*)›", marked)
            filled, spelt = fill(rng, text, values, core[1] if core else values["secret"])
            yield from (Sample(kind, f"{group}/{title}", filled, secret) for secret in spelt)


def look_alikes() -> Iterator[tuple[str, str]]:
    """The (name, text) of every excerpt that holds no secret."""
    rng = Random(0)
    yield from ((f"{group}/{name}", fill(rng, text, {})[0]) for group, name, text in excerpts("look_alikes.txt"))


def faults(samples: list[Sample]) -> list[str]:
    """What is wrong with the set: a secret not in its text, an unfilled slot, a kind or an episode too rarely used."""
    clean = "\n".join(text for _, text in look_alikes())
    found = [f"{s.kind} in {s.episode}: lost" for s in samples if s.secret not in s.text or len(s.secret) < 8]
    found += [f"{s.kind} in {s.episode}: open" for s in samples if re.search(r"«[\w:]+»|[‹›]", s.text)]
    found += [f"{s.kind} in a look-alike: {s.secret}" for s in samples if s.secret in clean]
    places = Counter(kind for kind, _ in {(s.kind, s.episode) for s in samples})
    found += [f"{kind}: only {places[kind]} episodes" for kind, *_ in kinds() if places[kind] < 6]
    unused = {f"{group}/{name}" for group, name, _ in excerpts("episodes.txt")} - {s.episode for s in samples}
    return [*found, *(f"{name}: unused" for name in sorted(unused)), *re.findall(r"«[\w:]+»", clean)]


if __name__ == "__main__":
    drawn, clean = list(secrets(1)), list(look_alikes())
    wrong = faults(drawn) + (["two runs differ"] if (drawn, clean) != (list(secrets(1)), list(look_alikes())) else [])
    titles = {"kinds": [s.kind for s in drawn], "groups": [s.episode.split("/")[0] for s in drawn]}
    for what, count in ((what, Counter(named)) for what, named in titles.items()):
        print(f"{len(count)} {what}:", ", ".join(f"{name} {number}" for name, number in count.items()))
    print(f"{len(drawn)} samples in {len({s.episode for s in drawn})} episodes, {len(clean)} look-alikes")
    raise SystemExit("\n".join(wrong) or 0)
