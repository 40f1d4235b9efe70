"""A web page in a real browser, served from another port of this machine, that tries the engine's door.

The page knows the right key. Behind the real guard is an application that notes what reaches it: nothing may.
"""

import json
import time
import urllib.request

import pytest
from doors import served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

import browser
from machine.discovery import HEALTH
from machine.engine.api.auth import Guard

KEY = "tml-known"
PAGE = """<!doctype html><title>page</title><body><script>
const door = location.hash.slice(1), got = [];
const read = async (path, options) => { const a = await fetch(door + path, options); return [a.status, a.type, await a.text()]; };
const attempt = async (name, path, options) => {
  try { got.push([name, await read(path, options)]); } catch (error) { got.push([name, "refused"]); }
};
const loaded = (name, make) => new Promise(done => {
  const element = make();
  element.onload = () => { got.push([name, "loaded"]); done(); };
  element.onerror = () => { got.push([name, "refused"]); done(); };
  document.body.append(element);
  setTimeout(done, 3000);
});
const form = (name, method, path, type) => new Promise(done => {
  const frame = document.createElement("iframe"), form = document.createElement("form");
  frame.name = name; document.body.append(frame);
  frame.onload = () => { let text = null; try { text = frame.contentDocument.body.innerText; } catch (error) {}
                         got.push([name, text === null || text === "" ? "refused" : text]); done(); };
  Object.assign(form, {method, action: door + path, target: name, enctype: type});
  form.append(Object.assign(document.createElement("input"), {name: '{"a":"', value: '"}'}));
  document.body.append(form); form.submit(); setTimeout(done, 3000);
});
const socket = () => new Promise(done => {
  const ws = new WebSocket(door.replace("http", "ws") + "/api/v1/asample");
  ws.onopen = () => { got.push(["socket", "open"]); done(); };
  ws.onerror = () => { got.push(["socket", "refused"]); done(); };
});
const all = async () => {
  const key = {"X-API-Key": "KEY"}, json = {"Content-Type": "application/json"};
  await attempt("fetch health", "HEALTH");
  await attempt("fetch with the key", "/api/v1/sessions", {headers: key});
  await attempt("bearer", "/oai/api/v1/models", {headers: {Authorization: "Bearer KEY"}});
  await attempt("post json", "/api/v1/create_session", {method: "POST", headers: {...key, ...json}, body: "{}"});
  await attempt("post text", "/api/v1/create_session", {method: "POST", headers: {"Content-Type": "text/plain"}, body: "{}"});
  await attempt("put", "/api/v1/training_runs/a/checkpoints/weights/b/ttl", {method: "PUT", body: "{}"});
  await attempt("opaque", "HEALTH", {mode: "no-cors"});
  await attempt("opaque post", "/api/v1/create_session", {mode: "no-cors", method: "POST", body: "{}"});
  await attempt("no referrer", "HEALTH", {referrerPolicy: "no-referrer", credentials: "omit", mode: "no-cors"});
  await loaded("img", () => Object.assign(new Image(), {src: door + "HEALTH"}));
  await loaded("script", () => Object.assign(document.createElement("script"), {src: door + "HEALTH"}));
  await loaded("style", () => Object.assign(document.createElement("link"), {rel: "stylesheet", href: door + "HEALTH"}));
  await form("get form", "get", "HEALTH", "");
  await form("post form", "post", "/api/v1/create_session", "text/plain");
  await socket();
  navigator.sendBeacon(door + "/api/v1/create_session", "{}");
  return got;
};
</script>""".replace("HEALTH", HEALTH).replace("KEY", KEY)


@pytest.fixture
def running(tmp_path, monkeypatch):
    command = browser.find()
    if command is None:
        pytest.skip(browser.MISSING)
    rule = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"
    monkeypatch.setattr(browser, "FLAGS", (*(flag for flag in browser.FLAGS if "resolver" not in flag), rule))
    with browser.opened(command, tmp_path) as running:
        yield running


def test_a_page_of_another_port_gets_nothing(running, tmp_path):
    arrived, reached = [], []

    async def anything(request: Request):
        reached.append((request.method, request.url.path))
        return JSONResponse({"status": "behind the door"})

    behind = Starlette(
        routes=[Route("/{path:path}", anything, methods=["GET", "POST", "PUT", "OPTIONS", "DELETE", "HEAD"])],
        middleware=[Middleware(Guard, key=KEY)],
    )

    async def door(scope, receive, send):
        if scope["type"] == "http":
            arrived.append(
                (scope["method"], scope["path"], {key.decode(): value.decode() for key, value in scope["headers"]})
            )
        await behind(scope, receive, send)

    async def page(request: Request):
        return HTMLResponse(PAGE)

    with served(door) as engine, served(Starlette(routes=[Route("/", page)])) as site:
        for address in (engine, engine.replace("127.0.0.1", "localhost")):  # another site, and the same one
            shown = running.open(blank(tmp_path))
            running.call("Page.navigate", url=f"{site}/#{address}")
            deadline = time.monotonic() + 30
            while shown.evaluate("typeof all") != "function" and time.monotonic() < deadline:
                time.sleep(0.1)
            got = dict(shown.evaluate("all()"))
            assert len(got) >= 12
            for name, what in got.items():
                assert (
                    what == "refused"
                    or (name.startswith(("opaque", "no referrer")) and what == [0, "opaque", ""])
                    or "web pages may not" in str(what)
                ), (name, what)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(f"{engine}/api/v1/sessions", headers={"X-API-Key": KEY})) as answer:
            assert json.load(answer) == {"status": "behind the door"}
    assert reached == [("GET", "/api/v1/sessions")]
    seen = {headers.get("sec-fetch-site") for *_, headers in arrived}
    assert {"cross-site", "same-site"} & seen
    assert len(arrived) > 20


def blank(folder):
    path = folder / "blank.html"
    path.write_text("<!doctype html><title>blank</title>")
    return path
