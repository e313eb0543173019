"""As much of WebDriver BiDi (W3C) as the tests of the page need, over Firefox's own port: Debian has Firefox, and no driver for
it. Nothing but the standard library."""

import base64
import json
import os
import re
import socket
import struct
import subprocess
import tempfile
import time

PATIENCE = 60.0
# Fonts, updates and reports from elsewhere are of no use here.
PREFERENCES = {
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "browser.aboutwelcome.enabled": False,
    "remote.active-protocols": 1,
}


class BidiError(Exception):
    """What the browser has against a command."""


class WebSocket:
    """A client's end, for text alone (RFC 6455)."""

    def __init__(self, port, path):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.stream.sendall(f"{request}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.reader = self.stream.makefile("rb")
        if b" 101 " not in self.reader.readline():
            raise BidiError(f"expected a WebSocket at {path}")
        while self.reader.readline().strip():
            pass

    def send(self, text):
        payload = text.encode()
        length = len(payload)
        head = b"\x81" + (bytes([0x80 | length]) if length < 126 else b"\xfe" + struct.pack(">H", length) if length < 65536 else b"\xff" + struct.pack(">Q", length))
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.stream.sendall(head + mask + masked)

    def receive(self):
        text = b""
        while True:
            first, second = self.reader.read(2)
            length = second & 0x7F
            if length > 125:
                length = int.from_bytes(self.reader.read(2 if length == 126 else 8), "big")
            payload = self.reader.read(length)
            if first & 0x0F in (0, 1):
                text += payload
                if first & 0x80:
                    return text.decode()
            elif first & 0x0F == 8:
                raise BidiError("Firefox hung up")


class Firefox:
    """A headless Firefox with a profile of its own; the same words as `webdriver.Browser`."""

    def __init__(self, width=1100, height=1000, language="en-US"):
        self.profile = tempfile.TemporaryDirectory(prefix="sordino-firefox-", ignore_cleanup_errors=True)
        preferences = {**PREFERENCES, "intl.accept_languages": language}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        with open(f"{self.profile.name}/user.js", "w") as file:
            file.writelines(lines)
        command = ["firefox-esr", "--headless", "--no-remote", "--profile", self.profile.name, "--remote-debugging-port", "0"]
        environment = {**os.environ, "HOME": self.profile.name, "MOZ_DISABLE_CONTENT_SANDBOX": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            self._begin(width, height)
        except BaseException:
            self.__exit__()
            raise

    def _begin(self, width, height):
        found = next(filter(None, (re.search(r"BiDi listening on ws://[^:]+:(\d+)", line) for line in self.process.stderr)), None)
        if found is None:
            raise BidiError("Firefox ended before it listened")
        self.socket = WebSocket(int(found.group(1)), "/session")
        self.number = 0
        self.events = []
        self._call("session.new", {"capabilities": {}})
        self._call("session.subscribe", {"events": ["log.entryAdded"]})
        self.context = self._call("browsingContext.getTree", {})["contexts"][0]["context"]
        viewport = {"width": width, "height": height}
        self._call("browsingContext.setViewport", {"context": self.context, "viewport": viewport})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()
        self.profile.cleanup()

    def open(self, address):
        self._call("browsingContext.navigate", {"context": self.context, "url": address, "wait": "complete"})

    def run(self, script, *arguments):
        """What a script returns; `arguments` are its own."""
        function = f"function() {{ return JSON.stringify((function() {{ {script} }}).apply(null, JSON.parse(arguments[0]))) }}"
        given = [{"type": "string", "value": json.dumps(arguments)}]
        parameters = {"functionDeclaration": function, "arguments": given, "awaitPromise": False, "target": {"context": self.context}}
        answer = self._call("script.callFunction", parameters)
        if answer["type"] != "success":
            raise BidiError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"]) if answer["result"]["type"] == "string" else None

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("browsingContext.captureScreenshot", {"context": self.context})["data"]))

    def complaints(self):
        """What the browser's console holds since the last time: warnings and errors."""
        self.run("return 0")
        entries, self.events = self.events, []
        return [entry["text"] for entry in entries if entry["level"] in ("warn", "error")]

    def until(self, what, condition):
        """Waits until a condition holds; `what` is said if it never does."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        raise BidiError(f"expected within {PATIENCE:.0f} s: {what}; the page says {self.text('main')!r}")

    def _call(self, method, parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("type") == "event":
                self.events.append(message["params"])
            elif message.get("id") == self.number:
                if message["type"] == "error":
                    raise BidiError(f"{method}: {message['message']}")
                return message["result"]
