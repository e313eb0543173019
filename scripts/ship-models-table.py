"""Writes the tables of models/README.md from what freeze, demo and bench said; called by scripts/ship-models."""

import json
import re
import sys
from pathlib import Path

# DeepReShape Table 6: seconds for one inference, linear layers under homomorphic encryption and garbled circuits, four threads.
PAPER = {13_056: "123 + 1.5 s", 26_112: "49 + 2.9 s", 52_224: "123 + 5.9 s"}


def read(path):
    return json.loads(Path(path).read_text())


def keep_what_matters(name):
    """What freezing said, without the layers and without paths of the machine it ran on."""
    path = Path(f"models/{name}.frozen.json")
    said = read(path)
    said.pop("layers", None)
    said["file"] = f"{name}.sordino"
    said["bytes"] = Path(f"models/{name}.sordino").stat().st_size
    said["weights"]["path"] = f"runs/{name}"
    path.write_text(json.dumps(said, indent=2) + "\n")


def percent(part):
    return f"{100 * part:.2f}%"


def recipe(name):
    """Of its own, or one of a frontier's, which are named without the data."""
    own = Path(f"recipes/{name}.toml")
    return own if own.exists() else Path(f"recipes/frontier/{name.removesuffix('-cifar100')}.toml")


def seed(name):
    found = re.search(r"^seed\s*=\s*(\d+)", recipe(name).read_text(), re.MULTILINE)
    return found.group(1) if found else "1"


def comparisons(demo):
    return demo["relus"] if "relus" in demo else demo["comparisons"]


def counts(demo):
    if "relus" in demo:
        return f"{demo['relus']:,} ReLUs of {demo['relus_of']:,}"
    return f"{demo['comparisons']:,} comparisons, {demo['gated_values']:,} gated values"


def accuracy_row(name, demo):
    frozen = read(f"models/{name}.frozen.json")
    accuracy = frozen["accuracy"]
    trained = accuracy.get("measured_in_training", {}).get("test")
    parts = [trained, accuracy.get("float"), accuracy.get("integer"), accuracy.get("private_rounding")]
    size = Path(f"models/{name}.sordino").stat().st_size
    right = sum(image["class"] == image["expected"] for image in demo["images"])
    cells = [
        f"`{name}.sordino`",
        f"{size / 1e6:.2f} MB",
        f"`{frozen['network']}`",
        counts(demo),
        " / ".join(percent(part) if part else "-" for part in parts),
        f"{accuracy.get('overflows', '-')}",
        f"{right} of {len(demo['images'])}",
        f"`{recipe(name)}`, seed {seed(name)}",
    ]
    if accuracy["images"] != 10_000:
        sys.exit(f"{name} was tried on {accuracy['images']} images; the table is of all 10,000")
    return "| " + " | ".join(cells) + " |"


def latency_row(name, bench, demo):
    # Of a further image.
    megabytes = {"online": bench["predicted"]["online_bytes"] / 1e6, "offline": bench["predicted"]["later_offline_bytes"] / 1e6}
    cells = [
        f"`{name}.sordino`",
        f"{1000 * bench['online']['wall_s']:.0f} ms",
        f"{bench['offline']['wall_s']:.2f} s",
        f"{megabytes['online']:.1f} / {megabytes['offline']:.1f}",
        PAPER.get(demo.get("relus"), "-"),
    ]
    return "| " + " | ".join(cells) + " |"


def replace(text, mark, lines):
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"models/README.md needs {begin} and {end} once each")
    before, rest = text.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def main(measured):
    demos = {path.name.split(".")[0]: read(path) for path in Path(measured).glob("*.demo.json")}
    benches = {path.name.split(".")[0]: read(path) for path in Path(measured).glob("*.bench.json")}
    names = sorted(demos, key=lambda name: (comparisons(demos[name]), name))
    for name in names:
        keep_what_matters(name)
        # Where signs are shared, a last place may decide for a whole group.
        if "relus" in demos[name] and not all(image["equal_to_plaintext"] for image in demos[name]["images"]):
            sys.exit(f"{name}: an answer differs from the one in the clear")
    accuracy = [
        "| file | size | network | comparisons | CIFAR-100 test accuracy: trained (bf16) / float / frozen / rounded by shares | overflows | photographs | recipe |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *[accuracy_row(name, demos[name]) for name in names],
    ]
    latency = [
        "| file | online | offline | online / offline MB | DeepReShape Table 6, HE + GC |",
        "| --- | --- | --- | --- | --- |",
        *[latency_row(name, benches[name], demos[name]) for name in names],
    ]
    page = Path("models/README.md")
    text = replace(page.read_text(), "accuracy", accuracy)
    page.write_text(replace(text, "latency", latency))


main(sys.argv[1])
