"""A headless Chromium for tests."""

import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver

from tests.conftest import missing


def start_browser(profile: Path, reaches: str = "") -> Any:
    """One with a profile of its own that reaches no network, but for the host `reaches`."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        missing("browser", "chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    # No name resolves: whatever the page asked for from elsewhere would fail and be logged.
    rules = "MAP * ~NOTFOUND" + (f", EXCLUDE {reaches}" if reaches else "")
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    arguments += ["--window-size=1300,1000", f"--host-resolver-rules={rules}"]
    arguments.append(f"--user-data-dir={profile}")
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=str(programs[1]))
    return webdriver.Chrome(options=options, service=service)
