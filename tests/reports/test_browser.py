"""A real browser shows and prints a report, and reports no error."""

import base64

import pytest
from support.browser import NAMES, PROGRAM, Browser
from support.hostile_report import SCRIPT


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip(f"needs a browser: {', '.join(NAMES)}")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        browser.start()
        yield browser
        browser.close()
    finally:
        browser.end()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_the_page(browser, folder, width):
    file = folder / "report.html"
    complaints, addresses = browser.open(file, width)
    assert complaints == []
    assert addresses == [file.as_uri()]
    assert browser.value("document.title") == SCRIPT
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.scripts.length") == 0
    pictures = browser.value("[...document.images].map(i => [i.naturalWidth, i.clientWidth])")
    assert len(pictures) == 9
    assert all(natural > 0 and 300 < shown <= width for natural, shown in pictures)
    # A phone gets the narrow drawings, where the page has them.
    chosen = browser.value("[...document.images].map(i => [i.currentSrc === i.src, !!i.parentNode."
                           "querySelector('source')])")  # fmt: skip
    assert all(wide == (width > 600 or not has_narrow) for wide, has_narrow in chosen)
    assert sum(has_narrow for _, has_narrow in chosen) == 7
    image = browser.screenshot()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 50_000


def test_the_browser_prints_the_page(browser, folder):
    browser.open(folder / "report.html", 1200)
    pdf = base64.b64decode(browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")


def test_the_browser_would_have_complained(browser, tmp_path):
    """The same checks on a page that breaks each rule."""
    file = tmp_path / "bad.html"
    file.write_text(
        '<html><title>bad</title><img src="https://example.invalid/x.png"><div style="width:900px">'
        "wide</div><script>document.title = 'ran'; console.error('e')</script></html>"
    )
    complaints, addresses = browser.open(file, 390)
    assert {event["method"] for event in complaints} >= {"Runtime.consoleAPICalled"}
    assert "https://example.invalid/x.png" in addresses
    assert browser.value("document.documentElement.scrollWidth") > 390
    assert browser.value("document.title") == "ran"
