"""As much of WebDriver (W3C) as the tests of the page need, over HTTP; nothing but the standard library."""

import base64
import json
import re
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 60.0


class WebDriverError(Exception):
    """What the browser or its driver has against a command."""


class Browser:
    """A headless Chromium with a window of its own."""

    def __init__(self, width=1100, height=1000, dark=False, language="en-US"):
        command = ["chromedriver", "--port=0"]
        self.driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = next(filter(None, (re.search(r"successfully on port (\d+)", line) for line in self.driver.stdout))).group(1)
        self.base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--lang={language}"]
        arguments += ["--force-dark-mode"] if dark else []
        options = {"args": arguments, "prefs": {"intl.accept_languages": language}}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{session['sessionId']}"
        # A window has a least width; this is what pages see.
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.chrome("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chrome("Emulation.setEmulatedMedia", {"features": [scheme]})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, address):
        self._call("POST", f"{self.session}/url", {"url": address})

    def run(self, script, *arguments):
        """What a script returns; `arguments` are its own."""
        return self._call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script, *arguments):
        """What a script gives to its last argument, a function."""
        return self._call("POST", f"{self.session}/execute/async", {"script": script, "args": list(arguments)})

    def click(self, selector):
        self._call("POST", f"{self._element(selector)}/click", {})

    def type(self, selector, text):
        self._call("POST", f"{self._element(selector)}/value", {"text": text})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", f"{self.session}/screenshot")))

    def complaints(self):
        """What the browser's console holds since the last time."""
        return [entry["message"] for entry in self._call("POST", f"{self.session}/se/log", {"type": "browser"})]

    def chrome(self, command, parameters):
        """A command of Chromium's own (DevTools protocol)."""
        self._call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def key(self, name, code):
        """A key is pressed."""
        self.chrome("Input.dispatchKeyEvent", {"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code})

    def until(self, what, condition):
        """Waits until a condition holds; `what` is said if it never does."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        raise WebDriverError(f"expected within {PATIENCE:.0f} s: {what}; the page says {self.text('main')!r}")

    def _element(self, selector):
        found = self._call("POST", f"{self.session}/element", {"using": "css selector", "value": selector})
        return f"{self.session}/element/{next(iter(found.values()))}"

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise WebDriverError(error.read().decode(errors="replace")[:1000]) from error
