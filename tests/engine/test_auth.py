import pytest

from machine.engine.api.auth import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost:1234", "[::1]:80", "LOCALHOST"])
def test_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "10.0.0.1"])
def test_other_names(host):
    assert not is_loopback(host)


def test_a_missing_or_wrong_key_is_401_whatever_the_header(engine):
    path = "/api/v1/get_server_capabilities"
    assert engine.request("GET", path, X_API_Key="")[0] == 401
    assert engine.request("GET", path, X_API_Key=engine.key + "x")[0] == 401
    assert engine.request("GET", path, X_API_Key="", Authorization="Bearer tml-wrong")[0] == 401
    assert engine.request("GET", path, X_API_Key="", Authorization=f"Bearer {engine.key}")[0] == 200
    assert engine.request("GET", "/api/v1/healthz", X_API_Key="")[0] == 200
    assert engine.request("GET", "/no/such/path", X_API_Key="")[0] == 401


def test_another_host_name_is_refused_with_the_right_key(engine):
    assert engine.request("GET", "/api/v1/healthz", Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    ("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://localhost:3000", 200)]
)
def test_a_web_page_of_elsewhere_is_refused_with_the_right_key(engine, origin, status):
    assert engine.request("GET", "/api/v1/get_server_capabilities", Origin=origin)[0] == status


def test_a_token_stands_for_the_key_but_cannot_renew_itself(engine):
    _, exchanged = engine.request("POST", "/api/v1/auth/token", {})
    token = exchanged["jwt"]
    assert engine.request("GET", "/api/v1/get_server_capabilities", X_API_Key=token)[0] == 200
    assert engine.request("GET", "/api/v1/get_server_capabilities", X_API_Key=token[:-2])[0] == 401
    assert engine.request("POST", "/api/v1/auth/token", {}, X_API_Key=token)[0] == 401
    assert engine.request("GET", f"/api/v1/downloads/{token}/adapter_config.json", X_API_Key="")[0] == 410
