import asyncio
import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hosted import KEY, Hosted
from machine import discovery
from machine.errors import ServiceError, UsageError
from machine.tinker import service as services
from machine.tinker.service import Endpoint, NoEngine, connect, endpoint


@contextlib.contextmanager
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def an_engine(key="tml-secret"):
    """Proves that it has `key`, as the engine does, and does nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"proof": discovery.proof(key, self.headers[discovery.CHALLENGE] or "")}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def discovered(home, url):
    (home / "engine").mkdir()
    (home / "engine" / "engine.json").write_bytes(discovery.Found(url, 1, "m", home / "m", "2026-10-01").encoded())
    (home / "engine" / "key").write_text("tml-secret\n")


def test_the_environment_goes_first(home, monkeypatch):
    with listening() as url:
        discovered(home, url)
        monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
        found = endpoint()
        assert (found.base_url, found.key, found.key_source) == (None, "tml-mine", "$TINKER_API_KEY")
        assert not found.local
        assert "." in found.destination
        monkeypatch.setenv("TINKER_BASE_URL", "http://localhost:1")
        assert endpoint().local


def test_the_engine_is_found_by_its_file(home):
    with an_engine() as url:
        discovered(home, url)
        found = endpoint()
    assert (found.base_url, found.key, found.destination) == (url, "tml-secret", "this machine")
    assert found.key_source == f"!cat '{home}/engine/key'"
    assert found.chat_url == f"{url}/oai/api/v1"


def test_what_is_sent_to_this_machine_s_engine_stays_whatever_named_it(home, monkeypatch):
    with an_engine() as url:
        discovered(home, url)
        assert endpoint().stays
        monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
        monkeypatch.setenv("TINKER_BASE_URL", url.replace("127.0.0.1", "localhost") + "/")
        assert endpoint().stays
        assert endpoint().goes_to == "this machine"


def test_what_is_sent_to_another_listener_on_loopback_may_go_on_from_there(home, monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
    with an_engine() as url, an_engine() as tunnel:
        monkeypatch.setenv("TINKER_BASE_URL", tunnel)
        assert not endpoint().stays  # there is no engine here
        discovered(home, url)
        found = endpoint()
        assert (found.local, found.stays) == (True, False)
        assert found.goes_to == f"{tunnel.removeprefix('http://')} (which is not this machine's engine)"
        monkeypatch.setenv("TINKER_API_KEY", "tml-other")
        monkeypatch.setenv("TINKER_BASE_URL", url)
        assert not endpoint().stays  # another key than this machine's
    with an_engine("tml-other") as url:
        (home / "engine" / "engine.json").unlink()
        (home / "engine" / "key").unlink()
        (home / "engine").rmdir()
        discovered(home, url)
        monkeypatch.setenv("TINKER_BASE_URL", url)
        assert not endpoint().stays  # it has the key that it is asked for, but not this machine's


def test_a_dead_engine_s_port_is_no_home_and_far_hosts_are_never_asked(home, monkeypatch):
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
    with listening() as url:
        discovered(home, url)
        monkeypatch.setenv("TINKER_BASE_URL", url)
    assert not endpoint().stays
    (home / "engine" / "engine.json").write_bytes(b"{")
    assert not endpoint().stays
    monkeypatch.setenv("TINKER_BASE_URL", "https://far.example")
    monkeypatch.setattr(discovery, "proves", lambda *given: pytest.fail("it was asked"))
    assert (endpoint().stays, endpoint().goes_to) == (False, "far.example")


def test_the_key_is_never_shown():
    assert "tml-secret" not in repr(Endpoint(None, "tml-secret", "$TINKER_API_KEY"))


def test_no_service_says_what_to_do():
    with pytest.raises(ServiceError) as fault:
        endpoint()
    assert "machine engine start" in fault.value.next_step


def test_an_engine_that_is_gone(home):
    with listening() as url:
        discovered(home, url)
    with pytest.raises(ServiceError, match="no longer answers"):
        endpoint()


def test_somebody_else_at_its_port_is_not_the_engine(home):
    with an_engine("tml-other") as url:
        discovered(home, url)
        with pytest.raises(NoEngine, match="no longer answers"):
            endpoint()


def test_a_damaged_discovery_file(home):
    discovered(home, "x")
    (home / "engine" / "engine.json").write_text("{")
    with pytest.raises(ServiceError, match="cannot be read"):
        endpoint()


def test_an_address_without_a_key(monkeypatch):
    monkeypatch.setenv("TINKER_BASE_URL", "http://127.0.0.1:1")
    with pytest.raises(UsageError, match="TINKER_API_KEY is not"):
        endpoint()


@pytest.mark.parametrize("url", ["localhost:1", "http://", "http://a:99999", "http://[::1"])
def test_an_address_that_is_none(monkeypatch, url):
    monkeypatch.setenv("TINKER_BASE_URL", url)
    with pytest.raises(UsageError, match="TINKER_BASE_URL"):
        endpoint()


def test_connecting_to_nothing_fails_at_once():
    with listening() as url:
        pass
    with pytest.raises(ServiceError, match="does not answer"), connect(Endpoint(url, "tml-x", "$TINKER_API_KEY")):
        pass


@pytest.mark.parametrize("answer", [b"220 mail ready\r\n", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", b""])
def test_a_port_that_something_else_answers_on(monkeypatch, answer):
    monkeypatch.setattr(services, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    client.recv(65536)
                    client.sendall(answer)
                    if answer:
                        client.close()

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ServiceError) as fault, connect(Endpoint(url, "tml-x", "$TINKER_API_KEY")):
            pass
        assert fault.value.next_step == "machine engine start"


@pytest.mark.parametrize("key", ["tml-wrong", "wrong"])
def test_a_wrong_key_says_so(service, key):
    with pytest.raises(ServiceError, match="key") as fault, connect(Endpoint(service.base_url, key, "$TINKER_API_KEY")):
        pass
    assert "TINKER_API_KEY" in fault.value.next_step


@pytest.mark.parametrize("gone", [True, False])
def test_nothing_of_the_sdk_runs_on_when_the_service_is_left(gone):
    hosted = Hosted()
    with contextlib.ExitStack() as there:
        there.enter_context(hosted)
        with connect(Endpoint(hosted.url, KEY, "$TINKER_API_KEY")) as service:
            holder = service.client.holder
            assert any("heartbeat" in name for name in running(holder))
            if gone:
                there.close()
        deadline = time.monotonic() + 30
        while (left := running(holder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


def running(holder):
    """The names of the SDK's tasks that have not ended, of one client; all clients of a process share a loop."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks(holder.get_loop())]
    frames = [(each.__qualname__, each.cr_frame) for each in coroutines]
    return {name for name, frame in frames if frame is not None and frame.f_locals.get("self") is holder}


def test_the_sdk_s_telemetry_is_off_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("TINKER_TELEMETRY", "1")
    with Hosted() as hosted:
        with connect(Endpoint(hosted.url, KEY, "$TINKER_API_KEY")) as service:
            service.look_up(service.rest().get_server_capabilities(), "asking")
        assert "/api/v1/create_session" in hosted.paths
        assert not [path for path in hosted.paths if "telemetry" in path]
