#!/usr/bin/env python3
"""What private inference takes in Chromium, beside the native client on the same machine.

    tests/browser/measure.py SORDINO MODEL [--repeat COUNT]

Both clients are served by `sordino serve` on loopback. The first preparation of a session is told apart; of the others, and of all
answers, it gives the median and the least.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import check
from webdriver import Browser

PHOTOGRAPH = check.PHOTOGRAPHS / "rocket.jpg"


def in_the_browser(server, repeat):
    with Browser() as browser:
        started = time.monotonic()
        check.opened(browser, server)
        connected = time.monotonic() - started
        check.drop(browser, PHOTOGRAPH)
        # What the page's own clock says, without rounding.
        script = "const ask = Link.prototype.ask; window.took = []; Link.prototype.ask = async function (question, given) {" \
            " const answer = await ask.call(this, question, given); window.took.push([question, answer.milliseconds]); return answer; }"
        browser.run(script)
        for _ in range(repeat):
            check.press(browser, "prepare")
            check.finished(browser)
            check.answered(browser)
        took = browser.run("return window.took")
        model = browser.run("return model")
    of = lambda wanted: [milliseconds / 1000 for question, milliseconds in took if question == wanted]
    return connected, of(2), of(3), model


def natively(model, repeat):
    command = [check.arguments.sordino, "demo", "--model", model, "-n", str(repeat), "--json"]
    images = json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout)["images"]
    return [image["offline_s"] for image in images], [image["online_ms"] / 1000 for image in images]


def row(name, prepared, answered):
    middle, least = lambda values: f"{statistics.median(values):.3f} s", lambda values: f"{min(values):.3f} s"
    print(f"{name}: first prepared in {prepared[0]:.2f} s; further {middle(prepared[1:])}, least {least(prepared[1:])}; "
          f"answered {middle(answered)}, least {least(answered)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sordino")
    parser.add_argument("model")
    parser.add_argument("--repeat", type=int, default=7)
    check.arguments = parser.parse_args()
    check.MODEL = check.arguments.model
    with check.Server() as server:
        connected, prepared, answered, model = in_the_browser(server, check.arguments.repeat)
    print(f"{model['model']}: {model['offline_bytes'] / 1e6:.1f} MB before the first picture, {model['later_offline_bytes'] / 1e6:.1f} MB "
          f"before each further one, {model['online_bytes'] / 1e6:.1f} MB after it; page opened to connected {connected:.2f} s")
    row("Chromium", prepared, answered)
    row("native  ", *natively(check.arguments.model, check.arguments.repeat))


if __name__ == "__main__":
    sys.exit(main())
