"""The page of `mode=watch` in a real browser: it follows by itself, and only what differs moves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from selenium.webdriver.support.ui import WebDriverWait

from isosweep.launchers.launcher import Observed
from isosweep.modes.watch import Watched
from isosweep.modes.watch_server import PageServer
from tests.browser import start_browser
from tests.modes.looked_after import Scheduled, reported, submitted, sweep_in
from tests.modes.sweeps import recorded
from tests.modes.test_watch import settled, spent

pytestmark = pytest.mark.browser


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    driver = start_browser(tmp_path / "profile", reaches="127.0.0.1")
    yield driver
    driver.quit()


def text(browser: Any, selector: str) -> str:
    found: str = browser.execute_script(
        "return document.querySelector(arguments[0])?.textContent ?? ''", selector
    )
    return found


def test_the_page_follows_by_itself_at_any_width_and_in_the_dark(
    browser: Any, tmp_path: Path
) -> None:
    sweep = sweep_in(tmp_path)
    first, second, *_ = sweep.plan.runs
    run = sweep.paths.run(first.run_id)
    submitted(run)
    reported(run, "running", 0.5, first)
    recorded(run, [(each, (0, 1, 1)) for each in spent(sweep, 0.0, 0.3, 1.0)])
    jobs = Scheduled({run.run_id: Observed(status="running")})
    server = PageServer(0)
    with Watched(sweep, jobs, server.nonce) as watched:
        settled(watched)
        server.page = watched.page()
        with server.serving():
            browser.get(server.link)
            WebDriverWait(browser, 20).until(lambda b: "Up to date" in text(b, "#checked"))
            assert "running" in text(browser, "tbody[data-part=runs] tr:first-child")
            for width in (400, 1200):
                browser.set_window_size(width, 900)
                wider = "return document.documentElement.scrollWidth > innerWidth"
                assert not browser.execute_script(wider)
            grounds = set()
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                emulated = {"features": [feature]}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
                ground = "getComputedStyle(document.querySelector('svg path')).fill"
                grounds.add(browser.execute_script(f"return {ground}"))
                script = Path(axe_core_python.__file__).parent / "axe.min.js"
                browser.execute_script(script.read_text())
                found = browser.execute_async_script(
                    "axe.run().then((found) => arguments[arguments.length - 1](found.violations))"
                )
                assert not found, [each["id"] for each in found]
            assert len(grounds) == 2
            browser.execute_script("document.querySelector('svg').kept = true")

            other = sweep.paths.run(second.run_id)
            submitted(other)
            reported(other, "running", 0.5, second)
            jobs.answers[other.run_id] = Observed(status="running")
            server.page = watched.page()
            rows = "tbody[data-part=runs] tr:nth-child(2)"
            WebDriverWait(browser, 20).until(lambda b: "running" in text(b, rows))
            assert browser.execute_script("return document.querySelector('svg').kept")
            assert browser.get_log("browser") == []
        WebDriverWait(browser, 20).until(lambda b: "No answer since" in text(b, "#checked"))
