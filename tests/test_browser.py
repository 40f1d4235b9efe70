"""The pages as a browser shows them: a headless Chromium opens each from disk, at the widths of a desk and of a phone."""

import pytest

from machine.dataset import show
from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.evals.page import write_page
from runpages import case, evaluated, trained
from students import assistant, byte_student, row, system, user, weather_row

READABLE = 4.5
"""Least contrast of text to its ground (WCAG 2.2, level AA)."""
VIEWS = [(1280, False), (1280, True), (400, False), (400, True)]
LONG = "https://example.org/" + "a" * 400

CONTRASTS = """(() => {
  const pen = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
  const over = (colour, ground) => {
    pen.fillStyle = `rgb(${ground})`; pen.fillRect(0, 0, 1, 1);
    pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(getComputedStyle(e).backgroundColor);
    return chain.reduce((below, colour) => over(colour, below), [255, 255, 255]);
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !parent.getClientRects().length || parent.tagName === "title") continue;
    const style = getComputedStyle(parent), below = ground(parent);
    const ink = over(parent instanceof SVGElement ? style.fill : style.color, below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text.slice(0, 30)]);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    run = trained(folder)
    cases = [case(f"case-{i}", f"Question {i}? {LONG if i == 3 else ''}", "ANSWER: Oslo.") for i in range(9)]
    before = [("The capital of Norway is Oslo.", False)] * 8 + [("ANSWER: Oslo.", True)]
    after = [("ANSWER: Oslo.", True)] * 7 + [(LONG, False), ("ANSWER: Oslo, I think.", False)]
    return write_page(run, evaluated(run, cases, before, after))


@pytest.fixture(scope="module")
def token_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    student = byte_student(folder)
    rows = [weather_row(), row(system("s"), user(f"Wie heißt der Fluß? 天気 {LONG}"), assistant("Rhein\n\tund 🌦️"))]
    path = folder / "t.html"
    path.write_text(show.html(student, "t_1", [render(student, target) for target in expand(rows)]), "utf-8")
    return path


@pytest.fixture(params=["run_page", "token_page"])
def path(request):
    return request.getfixturevalue(request.param)


def test_a_page_asks_for_nothing_but_itself_and_complains_of_nothing(opened, path):
    page = opened.open(path)
    page.look(width=1280)
    assert page.evaluate("document.querySelector('h1').getBoundingClientRect().height") > 10
    assert page.requests == [path.as_uri()]
    assert page.complaints == []


@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_a_page_fits_its_window_and_can_be_read(opened, path, width, dark):
    page = opened.open(path)
    page.look(width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    found = page.evaluate(CONTRASTS)
    assert len(found) > 40
    assert [text for contrast, text in found if contrast < READABLE] == []
    grounds = page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
    assert (max(map(int, grounds)) < 64) == dark


@pytest.mark.parametrize(("width", "which"), [(1280, "wide"), (400, "narrow")])
def test_the_curves_are_drawn(opened, run_page, width, which):
    page = opened.open(run_page)
    page.look(width=width)
    charts = page.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(svg => [svg.getBoundingClientRect().width,"
        " ...[...svg.querySelectorAll('polyline')].map(line => line.getBoundingClientRect().height)])"
    )
    shown, hidden = charts if which == "wide" else charts[::-1]
    assert shown[0] > 0.8 * width
    assert min(shown[1:]) > 100
    assert hidden[0] == 0
    size = page.evaluate(f"document.querySelector('svg.{which} text').getBoundingClientRect().height")
    assert size > 10
    outside = page.evaluate(
        f"(() => {{ const box = document.querySelector('svg.{which}').getBoundingClientRect();"
        f" return [...document.querySelectorAll('svg.{which} :is(text, circle)')].map(e => [e.getBoundingClientRect(), e])"
        ".filter(([r]) => r.left < box.left || r.right > box.right || r.top < box.top || r.bottom > box.bottom)"
        ".map(([r, e]) => e.outerHTML); })()"
    )
    assert outside == []


def test_a_regression_stands_above_a_win_and_the_sides_are_beside_each_other(opened, run_page):
    page = opened.open(run_page)
    top = "document.querySelector('{}').getBoundingClientRect().{}"
    page.look(width=1280)
    assert page.evaluate(top.format("article.lost", "top")) < page.evaluate(top.format("article.won", "top"))
    assert page.evaluate(top.format(".after", "left")) >= page.evaluate(top.format(".before", "right"))
    page.look(width=400)
    assert page.evaluate(top.format(".after", "top")) >= page.evaluate(top.format(".before", "bottom"))


def test_trained_tokens_stand_out_and_can_be_jumped_to(opened, token_page):
    page = opened.open(token_page)
    page.look(width=1280)
    colours = page.evaluate(
        "['.tokens .t', '.tokens span:not(.t)'].map(which => [...new Set([...document.querySelectorAll(which)]"
        ".map(span => getComputedStyle(span).backgroundColor))])"
    )
    assert [len(each) for each in colours] == [2, 2]
    assert not set(colours[0]) & set(colours[1])
    text = page.evaluate("[...document.querySelectorAll('.t')].map(s => s.textContent).join('')")
    assert "Rhein↵\n\tund 🌦️" in text
    links = page.evaluate("[...document.links].map(link => !!document.querySelector(link.hash))")
    assert links == [True] * 3


def test_what_slipped_through_would_neither_run_nor_load(opened, run_page, tmp_path):
    slipped = (
        '<script>document.title = "ran"</script><img src="https://example.org/a.png" onerror="document.title = 1">'
        '<p id="p" style="position: fixed">x</p><style>body { display: none }</style>'
    )
    path = tmp_path / "slipped.html"
    path.write_text(run_page.read_text("utf-8").replace("</body>", f"{slipped}</body>"), "utf-8")
    page = opened.open(path)
    assert page.evaluate("document.title").startswith("Better")
    assert page.evaluate("getComputedStyle(document.getElementById('p')).position") == "static"
    assert page.evaluate("getComputedStyle(document.body).display") == "block"
    assert page.requests == [path.as_uri()]
    assert page.refused == ["https://example.org/a.png"]
    assert len(page.complaints) >= 4
