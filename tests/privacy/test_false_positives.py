"""What looks like a secret and is none: near misses by hand, and files of the packages that are installed here."""

from collections import Counter

import pytest
from real_files import real_files

from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
NEAR_MISSES = [
    # code
    "token = self.next_token()",
    "token = tokens[index + 1]",
    "password: str",
    "password: str | None = None",
    "password: Uint8Array",
    "def login(user: str, password: str, token2fa: int) -> None: ...",
    'api_key=os.environ["OPENAI_API_KEY"]',
    'api_key = os.getenv("ANTHROPIC_API_KEY", "")',
    "const apiKey = process.env.OPENAI_API_KEY;",
    "const token = await getToken(req, { secret: process.env.NEXTAUTH_SECRET });",
    "this.password = config.database.password;",
    "let accessToken = response.data.access_token",
    "if token.type == TokenType.NUMBER2: pass",
    "self.token_embedding = nn.Embedding(vocab_size, 4096)",
    "tokenizer.pad_token = tokenizer.eos_token",
    'pad_token="<|endoftext|>", eos_token="<|im_end|>", bos_token="<s>"',
    "max_tokens=4096, prompt_tokens=12345678, total_tokens: 98765432",
    'secret_name = "projects/p1/secrets/db/versions/3"',
    'password_field = "login-form-password-2"',
    'raise ValueError("password must have 8 characters or more")',
    "passed = 12345678",
    "bypass: true, compass = north12345, passenger: a1b2c3d4e5",
    'PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]',
    "key=lambda item: item.name2",
    'cache_key = "users:v2:1f3870be274f6c49b3e31a0c6728957f"',
    'primary_key = "018f3c2e-7d4a-7b1c-9e2f-3a4b5c6d7e8f"',
    'public_key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="',
    'next_token = "eyJ2IjoxLCJvZmZzZXQiOjIwfQ"',
    '"nextPageToken": "CAUQAA1b2c3d4e5f6g7h8"',
    "auth: basicAuth(user, pass)",
    'if "-----BEGIN PRIVATE KEY-----" in text: return True',
    # left to be filled in
    "PASSWORD=",
    "DB_PASSWORD=changeme",
    "DB_PASSWORD=${DB_PASSWORD}",
    "POSTGRES_PASSWORD=postgres",
    "API_KEY=<your-api-key>",
    "API_KEY=your-api-key-here",
    "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password: {{ vault_db_password }}",
    '"password": "********"',
    '"apiKey": "YOUR_API_KEY_1234567890"',
    "export ANTHROPIC_API_KEY=sk-ant-...",
    "export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "password=$(pass show db/prod)",
    "password = '%s'",
    'f"token={token2}&user={user}"',
    "postgres://user:password@localhost:5432/db",
    "https://username:${TOKEN}@github.com/org/repo.git",
    "redis://localhost:6379/0",
    "curl -u user:password https://example.org",
    "docker run -u 1000:1000 -p 8080:8080 image",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Basic base64(user:password)",
    # digests, ids, addresses
    f"sha256:{HASH}",
    f'"integrity": "sha512-{"z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg"}=="',
    f"--hash=sha256:{HASH}",
    f'checksum = "{HASH}"',
    "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "index 83db48f..bf2a1c9 100644",
    "id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz#5b8a3a7765dfe001261dde915589e782f8c94d1e",
    "git@github.com:user/repository2.git",
    "scp file user@host:path/to/file2",
    "image: registry.corp.internal:5000/team/app@sha256:" + HASH,
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
    "/run/secrets/db_password_v2",
    '"AWS::IAM::AccessKey": "72c2d9dd90025459"',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE me@host",
    "12:34:56.789 GET /api/v2/tokens/refresh?page=2 200 in 35 ms",
    "the token count is 12345678 and the key is to keep it small",
    "Your password is not what I asked for; the secret is patience.",
    "Cookie: theme=dark; lang=en-GB; consent=analytics-and-ads",
]


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_is_left_alone(text):
    assert redacted(text, NONE) == (text, [])
    quoted = {"arguments": f'{{"command": "echo {text}"}}'.replace("\n", "\\n")}
    assert redacted(quoted, NONE) == (quoted, [])


def test_real_files_have_at_most_one_finding_a_megabyte():
    rules, size = Counter[str](), 0
    for _, text in real_files(4_000_000, seed=17, share=100_000):
        size += len(text)
        rules.update(finding.rule for finding in redacted({"content": text}, NONE)[1])
    assert size >= 3_000_000, "no packages to look at here"
    assert rules.total() <= size / 1e6, dict(rules)
