"""The report and the plan's map in a real browser that reaches no network."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from isosweep.analysis.report import analyse
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import BUDGETS, peaked, write_sweep
from tests.analysis.sweeps import make_plan as make_small_plan
from tests.browser import start_browser

pytestmark = pytest.mark.browser

# The page has its figures in itself.
CONFIG = AnalysisConfig(formats=[])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def load(browser: Any, page: Path) -> None:
    """Open the page; fail on whatever it complains of."""
    browser.get(page.as_uri())
    WebDriverWait(browser, 30).until(
        lambda b: b.execute_script("return document.readyState") == "complete"
    )


def complaints(browser: Any) -> list[str]:
    return [str(entry["message"]) for entry in browser.get_log("browser")]


# What `analysis/pages/page.css` calls the ground, as a browser has it.
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(21, 23, 27)"


def prefer(browser: Any, scheme: str) -> None:
    """What the reader's system asks of pages: light or dark."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def ground(browser: Any) -> str:
    script = "return getComputedStyle(document.body).backgroundColor"
    color: str = browser.execute_script(script)
    return color


def shade(browser: Any) -> str:
    """What turns the figure of reward dark."""
    script = 'return getComputedStyle(document.querySelector("#figure-reward svg")).filter'
    turned: str = browser.execute_script(script)
    return turned


# What a model is called, and what stays text.
SCRIPT = "<script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def small_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = make_small_plan((2, 4, 8), batches=(4, 8), seeds=(0, 1), budgets=BUDGETS[:3])
    where = tmp_path_factory.mktemp("small")
    paths = write_sweep(where, peaked(lambda C: 4.0), plan=plan, model=SCRIPT)
    return analyse(paths, CONFIG).report


def test_page_and_figures_have_the_colours_that_the_system_asks_for(
    small_report: Path, browser: Any
) -> None:
    prefer(browser, "light")
    load(browser, small_report)
    assert ground(browser) == WHITE
    assert shade(browser) == "none"
    prefer(browser, "dark")
    assert ground(browser) == BLACK
    assert shade(browser).startswith("invert(")
    # Paper is white.
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert shade(browser) == "none"
    prefer(browser, "light")
    assert complaints(browser) == []


AXE = Path(axe_core_python.__file__).with_name("axe.min.js")


def test_axe_finds_nothing_amiss(small_report: Path, browser: Any) -> None:
    prefer(browser, "light")
    load(browser, small_report)
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    try:
        for scheme, width in (("light", 1400), ("dark", 400)):
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            prefer(browser, scheme)
            script = """
            document.querySelectorAll("main details").forEach((each) => { each.open = true; });
            axe.run().then(arguments[0]);
            """
            found = browser.execute_async_script(script)["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
            # Nothing but tables, each in a box of its own, is wider than the window.
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            # Letters of figures are large enough to read.
            script = """
            return Array.from(document.querySelectorAll("figure svg text"),
              (each) => each.getBoundingClientRect().height);
            """
            assert min(browser.execute_script(script)) > 9
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        prefer(browser, "light")


def test_contents_lead_to_every_section(small_report: Path, browser: Any) -> None:
    load(browser, small_report)
    assert SCRIPT in browser.find_element(By.TAG_NAME, "h1").text
    assert "taken" not in browser.title.replace(SCRIPT, "")
    links = browser.find_elements(By.CSS_SELECTOR, "#contents a")
    headings = browser.find_elements(By.CSS_SELECTOR, "main h2")
    targets = [link.get_attribute("href").partition("#")[2] for link in links]
    assert targets == [heading.get_attribute("id") for heading in headings]
    assert links[0].text == "Answer"
    captions = browser.find_elements(By.CSS_SELECTOR, "figcaption b")
    numbers = [int(re.findall(r"Figure (\d+)\.", caption.text)[0]) for caption in captions]
    assert numbers == list(range(1, len(captions) + 1))
    assert complaints(browser) == []
