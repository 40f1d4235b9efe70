"""Secrets in the real Pi: what a tool read is kept without them, or you are asked."""

from machine.capture.policy import ALLOW, DISCARD, REDACT
from pi.harness import Pi

PASSWORD = "kx9-river-lantern-42"
TOKEN, OTHER = "ghp_" + "aB3dE6" * 6, "ghp_" + "zY9xW8" * 6


def on_disk(world):
    return b"".join(path.read_bytes() for path in world.machine.rglob("*") if path.is_file())


def read_them(world, pi):
    (world.project / ".env").write_text(f"DB_PASSWORD={PASSWORD}\n")
    (world.project / "notes.txt").write_text(f"deploy with {TOKEN}\n")
    pi.prompt("run: cat .env notes.txt")


def test_what_a_tool_read_is_kept_without_its_secrets(world):
    with Pi(world) as pi:
        read_them(world, pi)
        pi.prompt(f"/good it used {TOKEN}")
        pi.prompt("/machine privacy scan --pool")
        saved, scanned = pi.messages()
    assert saved.startswith("Saved as good")
    assert "secret(s) redacted" in saved
    assert scanned.startswith("No secret found")
    [row] = world.rows()
    [result] = [message["content"] for message in row["messages"] if message["role"] == "tool"]
    assert "DB_PASSWORD=<secret:env-db-password:" in str(result)
    assert row["note"].startswith("it used <secret:github-token:")
    held = on_disk(world)
    assert PASSWORD.encode() not in held
    assert TOKEN.encode() not in held
    assert pi.broken == []


def test_a_project_that_asks_asks_in_pi(world):
    with Pi(world, answers={"select": [{"value": DISCARD}, {"value": ALLOW}, {"value": REDACT}]}) as pi:
        pi.prompt("/machine privacy policy ask")
        read_them(world, pi)
        pi.prompt("/good")
        dialog = pi.dialog("select")
        assert "github-token at messages[" in dialog["title"]
        assert PASSWORD not in str(dialog)
        assert TOKEN not in str(dialog)
        assert world.rows() == []
        pi.prompt("/good")
        [row] = world.rows()
        assert TOKEN in str(row)
        read_them(world, pi)
        pi.prompt("/good")
        assert len(world.rows()) == 2
        assert len(pi.said("select")) == 2
        (world.project / "notes.txt").write_text(f"deploy with {OTHER}\n")
        pi.prompt("run: cat notes.txt")
        pi.prompt("/good")
    assert "<secret:github-token:" in str(world.rows()[-1])
    assert len(pi.said("select")) == 3


def test_headless_with_a_policy_that_asks_keeps_nothing(world):
    world.shell("privacy", "policy", "ask")
    (world.project / "notes.txt").write_text(f"deploy with {TOKEN}\n")
    done = world.headless("run: cat notes.txt", "/good")
    assert done.returncode == 2
    assert "nobody is here to answer" in done.stderr
    assert world.rows() == []
