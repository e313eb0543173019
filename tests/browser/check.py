#!/usr/bin/env python3
"""The page in a real browser, against `sordino serve` as a user runs it. `scripts/browser-test` gets what this needs.

    tests/browser/check.py SORDINO [--axe FILE] [--screenshots FOLDER] [--firefox]
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from bidi import Firefox
from slow_link import SlowLink
from webdriver import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "crates/sordino/assets/hybrenet-26k-cifar100.sordino"
PHOTOGRAPHS = ROOT / "crates/sordino/assets/photographs"
# How far logits may be from those in the clear, by rounding: a share of their range.
CLOSE = 0.02
# What the command line said.
arguments = None


class Server:
    """`sordino serve --web` on loopback, ended with the test."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="sordino-browser-")
        command = [arguments.sordino, "serve", MODEL, "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"]
        command += ["--store", "none", "--state", self.folder.name, *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.said = {}
        while "page" not in self.said:
            key, value = self.process.stdout.readline().split(maxsplit=1)
            self.said[key] = value.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def classify(self, image):
        """What the native client says."""
        command = [arguments.sordino, "classify", image, "--server", self.said["listening"]]
        command += ["--fingerprint", self.said["fingerprint"], "--json"]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        return json.loads(answer)["images"][0]["best"][0]


def opened(browser, server, page=None):
    browser.open(page or server.said["page"])
    browser.until("a connection", lambda: not browser.run("return document.getElementById('prepare').disabled"))


def drop(browser, path):
    """A file falls onto the page, as from a folder."""
    script = """
        const [name, text] = arguments;
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([bytes], name));
        document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    """
    browser.run(script, path.name, base64.b64encode(path.read_bytes()).decode())


def press(browser, button):
    browser.until(f"{button} can be pressed", lambda: not browser.run("return document.getElementById(arguments[0]).disabled", button))
    browser.click(f"#{button}")


def finished(browser):
    idle = "return !document.getElementById('prepare').disabled && document.getElementById('progress').hidden"
    browser.until("the work's end", lambda: browser.run(idle))
    return browser.text("#work-status")


def answered(browser):
    browser.run("delete document.getElementById('answer').dataset.class")
    press(browser, "classify")
    browser.until("an answer", lambda: browser.run("return document.getElementById('answer').dataset.class"))
    status = finished(browser)
    return browser.run("return { ...document.getElementById('answer').dataset }"), status


def photographs_get_the_answers_of_the_native_client(server):
    with Browser(height=1560) as browser:
        started = time.monotonic()
        opened(browser, server)
        print(f"    page opened to connected: {time.monotonic() - started:.2f} s")
        for name in ["goldfish.jpg", "rocket.jpg"]:
            drop(browser, PHOTOGRAPHS / name)
            browser.until("the picture", lambda: not browser.run("return document.getElementById('seen').hidden"))
            press(browser, "prepare")
            print(f"    {finished(browser)}")
            answer, status = answered(browser)
            native = server.classify(PHOTOGRAPHS / name)
            print(f"    {status} {answer['class']}; native client: {native['name']}")
            assert answer["class"] == native["name"], (answer["class"], native)
            held_against_the_model(PHOTOGRAPHS / name, answer["logits"], browser)
        # Prepared twice, asked twice: all of it again in one go.
        answer, _ = answered(browser)
        assert answer["class"] == "rocket", answer
        assert browser.run("return document.getElementById('compare').hidden"), "this server is no demo"
        assert status_of(server.said["page"] + "plain") == 404
        the_servers_view_is_noise(browser)
        screenshot(browser, "light")
        complaints = browser.complaints()
        assert complaints == [], complaints


def status_of(address):
    try:
        return urllib.request.urlopen(address).status
    except urllib.error.HTTPError as error:
        return error.code


def the_servers_view_is_noise(browser):
    """What the page shows as the server's: as many numbers as the picture has, spread over all shades."""
    script = """
        const canvas = document.getElementById("view-pixels");
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return [canvas.width, canvas.height, Array.from(data).filter((_, at) => at % 4 !== 3)];
    """
    width, height, shades = browser.run(script)
    assert (width, height, len(shades)) == (32, 32, 3072)
    # Of 3,072 even draws each sixteenth of the shades gets 192 on average, with a deviation of 13.
    counts = [sum(shade // 16 == part for shade in shades) for part in range(16)]
    assert all(100 < count < 300 for count in counts), counts
    numbers = browser.text("#view-numbers").split()
    assert len(set(numbers)) > 20, numbers
    assert "3,072 numbers" in browser.text("#view-text")


def a_demo_compares_with_plain():
    with Server("--web-compare") as server, Browser() as browser:
        opened(browser, server)
        drop(browser, PHOTOGRAPHS / "rocket.jpg")
        assert answered(browser)[0]["class"] == "rocket"
        assert browser.run("return document.getElementById('plain').hidden"), "nobody asked to compare"
        assert "which then sees it" in browser.text("#compare-text")
        assert "It stays on this device" in browser.text("#pixels-text")
        assert browser.run("return document.getElementById('file').files[0].name") == "rocket.jpg"
        browser.click("#compare-on")
        assert "The server gets it, too" in browser.text("#pixels-text")
        answer, _ = answered(browser)
        status = browser.text("#plain-status")
        plain = browser.run("return document.getElementById('plain-answer').dataset.class")
        print(f"    {status}")
        assert answer["class"] == plain == "rocket" and "has seen this picture" in status
        assert browser.complaints() == []
        other_origins_may_not_connect(server)


def a_slow_link_is_predicted(server):
    host = server.said["page"].removeprefix("http://").rstrip("/")
    with SlowLink(host, 3e6, delay=0.01) as link, Browser() as browser:
        opened(browser, server, f"http://{link.address}/")
        drop(browser, PHOTOGRAPHS / "rocket.jpg")
        press(browser, "prepare")
        browser.until("a prediction", lambda: "about" in browser.text("#work-left"))
        print(f"    {browser.text('#work-left')}")
        print(f"    {finished(browser)}")
        assert answered(browser)[0]["class"] == "rocket"


def the_front_shows_our_points_and_the_papers(server):
    for width, dark, name in [(360, False, "front-phone"), (1100, True, "front-dark"), (1100, False, "front-light")]:
        with Browser(width=width, height=1400, dark=dark, language="de-DE" if dark else "en-US") as browser:
            opened(browser, server)
            # From one tab to the other as a keyboard does.
            browser.run("document.getElementById('tab-ask').focus()")
            browser.key("ArrowRight", 39)
            browser.until("the chart", lambda: browser.run("return document.querySelectorAll('#chart circle').length > 20"))
            assert browser.run("return document.activeElement.id") == "tab-front"
            for axis in ["bytes", "time", "comparisons"]:
                script = """
                    const axis = document.getElementById("front-axis");
                    axis.value = arguments[0];
                    axis.dispatchEvent(new Event("change"));
                    return ["ours", "theirs"].map((kind) => document.querySelectorAll(`#chart .${kind}`).length);
                """
                ours, theirs = browser.run(script, axis)
                assert ours >= 10 and (theirs >= 20 or axis != "comparisons"), (axis, ours, theirs)
            browser.run("document.querySelector('#chart a[href^=\"#\"]').focus()")
            assert "%" in browser.text("#point"), browser.text("#point")
            links = browser.run("return [...document.querySelectorAll('#papers a')].map((link) => link.href)")
            assert links and all(link.startswith("https://arxiv.org/abs/") for link in links), links
            browser.run("document.querySelector('#results details').open = true")
            assert browser.run("return document.querySelectorAll('#results details li').length") > 0
            fits_and_is_accessible(browser, name)
            assert browser.complaints() == []


def firefox_gets_the_same_answer(server):
    with Firefox() as browser:
        opened(browser, server)
        drop(browser, PHOTOGRAPHS / "goldfish.jpg")
        press(browser, "prepare")
        print(f"    {finished(browser)}")
        answer, status = answered(browser)
        print(f"    {status}")
        assert answer["class"] == server.classify(PHOTOGRAPHS / "goldfish.jpg")["name"]
        held_against_the_model(PHOTOGRAPHS / "goldfish.jpg", answer["logits"], browser)
        browser.click("#tab-front")
        browser.until("the chart", lambda: browser.run("return document.querySelectorAll('#chart circle').length > 20"))
        assert browser.complaints() == []
        browser.run("document.getElementById('fingerprint').value = '07'.repeat(32)")
        press(browser, "reconnect")
        browser.until("a refusal", lambda: "another server" in browser.text("#connection-status"))


def held_against_the_model(photograph, logits, browser):
    """The logits are those of the model in the clear, but for rounding."""
    fraction = browser.run("return model.logit_fraction")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / photograph.name).symlink_to(photograph)
        expected = pathlib.Path(folder) / "logits.json"
        expected.write_text(json.dumps([[int(logit) / 2**fraction for logit in logits.split()]]))
        command = [arguments.sordino, "verify", MODEL, "--plain", "--images", folder, "--expect", expected, "--json"]
        report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    print(f"    logits differ from those in the clear by {report['logit_difference']:.2%} of their range")
    assert report["logit_difference"] <= CLOSE and report["class_agreements"] == 1, report


def another_fingerprint_ends_the_connection(server):
    with Browser() as browser:
        opened(browser, server)
        browser.click("summary")
        browser.run("document.getElementById('fingerprint').value = '07'.repeat(32)")
        press(browser, "reconnect")
        status = lambda: browser.text("#connection-status")
        browser.until("a refusal", lambda: "another server" in status())
        assert server.said["fingerprint"] in status() and "07" * 32 in status(), status()
        assert browser.run("return document.getElementById('prepare').disabled")
        browser.run("document.getElementById('fingerprint').value = 'nonsense'")
        press(browser, "reconnect")
        browser.until("a refusal", lambda: "64 hexadecimal digits" in status())


def an_address_where_no_server_is_says_so(server):
    with Browser() as browser:
        opened(browser, server)
        for address in ["ws://127.0.0.1:9/socket", "http://[", "ftp://127.0.0.1/"]:
            browser.run("document.getElementById('address').value = arguments[0]", address)
            browser.run("document.getElementById('connection-status').textContent = ''")
            browser.run("document.getElementById('reconnect').click()")
            browser.until("words", lambda: "Check its address" in browser.text("#connection-status"))
            assert browser.run("return document.getElementById('prepare').disabled")


def files_that_are_no_images_are_refused(server):
    with Browser(language="de-DE") as browser:
        opened(browser, server)
        browser.type("#file", str(PHOTOGRAPHS / "README.md"))
        browser.until("a refusal, in German", lambda: "kein lesbares Bild" in browser.text("#image-status"))
        assert browser.run("return document.getElementById('classify').disabled")
        browser.type("#file", str(PHOTOGRAPHS / "apple.jpg"))
        assert answered(browser)[0]["class"] == "apple"


def a_server_that_dies_is_noticed():
    with Server() as server, Browser() as browser:
        opened(browser, server)
        drop(browser, PHOTOGRAPHS / "rocket.jpg")
        press(browser, "prepare")
        browser.until("work under way", lambda: "Preparing" in browser.text("#work-status"))
        server.process.kill()
        browser.until("the loss", lambda: "connection to the server is lost" in browser.text("#connection-status"))
        assert browser.run("return document.getElementById('classify').disabled")


def other_origins_may_not_connect(server):
    """A page of the browser's own tries to open the WebSocket."""
    with Browser() as browser:
        browser.open("data:text/html,<main>x</main>")
        script = """
            const [address, done] = arguments;
            const socket = new WebSocket(address, "sordino");
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
        """
        address = server.said["page"].replace("http", "ws")
        for place in ["socket", "plain"]:
            assert browser.run_later(script, address + place) == "refused", place


def a_phone_and_the_dark_have_room_and_contrast(server):
    for width, dark, name in [(360, False, "phone"), (1100, True, "dark")]:
        with Browser(width=width, height=1600, dark=dark) as browser:
            opened(browser, server)
            drop(browser, PHOTOGRAPHS / "raccoon.jpg")
            assert answered(browser)[0]["class"] == "raccoon"
            fits_and_is_accessible(browser, name)


def fits_and_is_accessible(browser, name):
    overflow = browser.run("return document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0, f"{name}: {overflow} pixels too wide"
    screenshot(browser, name)
    if arguments.axe:
        browser.run(pathlib.Path(arguments.axe).read_text())
        found = browser.run_later("axe.run().then(arguments[0])")["violations"]
        assert found == [], [(item["id"], [node["html"] for node in item["nodes"]]) for item in found]


def the_keyboard_reaches_everything(server):
    with Browser() as browser:
        opened(browser, server)
        drop(browser, PHOTOGRAPHS / "rocket.jpg")
        press(browser, "prepare")
        finished(browser)
        reached = []
        browser.run("document.body.focus()")
        for _ in range(16):
            browser.key("Tab", 9)
            reached.append(browser.run("return document.activeElement.id || document.activeElement.tagName"))
        for name in ["language", "tab-ask", "SUMMARY", "file", "camera", "prepare", "classify"]:
            assert name in reached, (name, reached)


def screenshot(browser, name):
    if arguments.screenshots:
        browser.screenshot(pathlib.Path(arguments.screenshots) / f"browser-{name}.png")


def main():
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("sordino")
    parser.add_argument("--axe", help="axe-core's script: the page's accessibility is checked with it")
    parser.add_argument("--screenshots", help="a folder for pictures of the page")
    parser.add_argument("--firefox", action="store_true", help="the same in Firefox, in short")
    parser.add_argument("--only", help="checks whose names contain this")
    arguments = parser.parse_args()
    with Server() as server:
        checks = [
            photographs_get_the_answers_of_the_native_client,
            another_fingerprint_ends_the_connection,
            an_address_where_no_server_is_says_so,
            files_that_are_no_images_are_refused,
            other_origins_may_not_connect,
            a_phone_and_the_dark_have_room_and_contrast,
            the_keyboard_reaches_everything,
            the_front_shows_our_points_and_the_papers,
            a_slow_link_is_predicted,
        ]
        checks += [firefox_gets_the_same_answer] if arguments.firefox else []
        for check in checks:
            run(check, server)
    for check in [a_server_that_dies_is_noticed, a_demo_compares_with_plain]:
        run(check)


def run(check, *given):
    if arguments.only and arguments.only not in check.__name__:
        return
    started = time.monotonic()
    print(check.__name__, flush=True)
    check(*given)
    print(f"    ok, {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
