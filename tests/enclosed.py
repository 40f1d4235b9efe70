"""Runs a command in a network of its own and counts what it sends anywhere but to itself, whoever of its processes does.

    unshare --map-root-user --net --mount python enclosed.py FILE COMMAND...

The network has loopback and one device, by which everything else goes, and behind which nothing answers. The kernel
counts what leaves by it, and each attempt over IPv6, for which there is no way out; names are asked for of a server
beyond it. FILE gets three counts as JSON: `quiet` (a while of nothing), `control` (after one connection, one name and
one connection over IPv6: a count that does not rise here proves nothing), `command` (what COMMAND added).
"""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DEVICE, PEER = "out0", "out1"
FAR, FAR_6, RESOLVER = "203.0.113.1", "2001:db8::1", "203.0.113.53"
"""Addresses that documentation has to itself."""
_QUIET = 1.0


def main() -> int:
    file, *command = sys.argv[1:]
    build(Path(file).with_name("resolv.conf"))
    counts: dict[str, object] = {}
    before = sent()
    time.sleep(_QUIET)
    counts["quiet"] = sent() - before
    counts["control"] = [rise(lambda: reach(FAR)), rise(lambda: look_up("example.com")), rise(lambda: reach(FAR_6))]
    before = sent()
    done = subprocess.run(command, check=False)
    counts["command"] = sent() - before
    Path(file).write_text(json.dumps(counts))
    return done.returncode


def build(resolver: Path) -> None:
    """Loopback, a device that takes whatever is not for it, and a server of names beyond it."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")  # else it says by itself that it is there
    ip("link", "set", "lo", "up")
    try:
        ip("link", "add", DEVICE, "type", "dummy")
    except subprocess.CalledProcessError:  # a kernel without that kind
        ip("link", "add", DEVICE, "type", "veth", "peer", "name", PEER)
        ip("link", "set", PEER, "arp", "off", "up")
    ip("link", "set", DEVICE, "arp", "off", "up")
    ip("addr", "add", "192.0.2.1/24", "dev", DEVICE)
    ip("route", "add", "default", "dev", DEVICE)
    resolver.write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", str(resolver), "/etc/resolv.conf"], check=True, capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def sent() -> int:
    """Packets that left by the device, and attempts for which there was no way out."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith(DEVICE))
    packets = int(line.partition(":")[2].split()[9])
    names, numbers = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines()[:2])
    figures = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return packets + int(dict(zip(names, numbers, strict=True))["OutNoRoutes"]) + int(figures["Ip6OutNoRoutes"])


def rise(act: Callable[[], None]) -> int:
    """What an act adds to the count."""
    before = sent()
    with contextlib.suppress(OSError):
        act()
    return sent() - before


def reach(address: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as far:
        far.settimeout(0.2)
        far.connect((address, 443))


def look_up(name: str) -> None:
    socket.getaddrinfo(name, 443)


if __name__ == "__main__":
    raise SystemExit(main())
