"""One party of SPU on ResNet-18 (CIFAR input, all ReLUs), for scripts/peers.

  peers-spu.py share FOLDER                       compiles the network and shares image and weights
  peers-spu.py run FOLDER RANK ADDRESS ADDRESS    one party: 0 at the hospital, 1 at the clinic

Batch norms are folded, as Sordino folds them, and weights are random. Each party computes with one thread. The clock starts
when both parties have their shares and are connected, and stops when the logits' shares are there.
"""

import json
import pickle
import resource
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import spu
import spu.utils.frontend as frontend

CLASSES = 100


def configuration():
    config = spu.RuntimeConfig(protocol=spu.ProtocolKind.CHEETAH, field=spu.FieldType.FM64)
    config.max_concurrency = 1
    return config


def shapes():
    """Filters as height, width, inputs, outputs: the stem, then each block's two and its shortcut where sizes change."""
    found, inputs = [(3, 3, 3, 64)], 64
    for stage, channels in enumerate([64, 128, 256, 512]):
        for block in range(2):
            found += [(3, 3, inputs, channels), (3, 3, channels, channels)]
            if stage > 0 and block == 0:
                found.append((1, 1, inputs, channels))
            inputs = channels
    return found


def weights():
    draw = np.random.default_rng(1)
    filters = [draw.normal(0, (2 / (h * w * i)) ** 0.5, (h, w, i, o)).astype(np.float32) for h, w, i, o in shapes()]
    biases = [np.zeros(filter.shape[-1], np.float32) for filter in filters]
    head = draw.normal(0, 512**-0.5, (512, CLASSES)).astype(np.float32)
    return filters, biases, head


def resnet18(image, filters, biases, head):
    pairs = iter(zip(filters, biases))

    def convolve(values, stride=1):
        filter, bias = next(pairs)
        layout = ("NHWC", "HWIO", "NHWC")
        padding = "SAME" if filter.shape[0] > 1 else "VALID"
        if padding == "SAME":
            padding = [(1, 1), (1, 1)]
        return jax.lax.conv_general_dilated(values, filter, (stride, stride), padding, dimension_numbers=layout) + bias

    def relu(values):
        return jnp.maximum(values, 0)

    values = relu(convolve(image))
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = convolve(relu(convolve(values, stride)))
            values = relu(inner + (convolve(values, stride) if stride == 2 else values))
    return jnp.mean(values, axis=(1, 2)) @ head


def share(folder):
    image = np.random.default_rng(2).normal(0, 1, (1, 32, 32, 3)).astype(np.float32)
    arguments = (image, *weights())
    flat, _ = jax.tree_util.tree_flatten(arguments)
    names = [f"in{number}" for number in range(len(flat))]
    secret = [spu.Visibility.VIS_SECRET] * len(flat)
    executable, _ = frontend.compile(
        frontend.Kind.JAX, resnet18, arguments, {}, names, secret, lambda outputs: [f"out{n}" for n in range(len(outputs))]
    )
    (folder / "program").write_bytes(executable.SerializeToString())
    io = spu.Io(2, configuration())
    shared = [io.make_shares(values, spu.Visibility.VIS_SECRET) for values in flat]
    for rank in range(2):
        (folder / f"shares{rank}").write_bytes(pickle.dumps([parts[rank] for parts in shared]))
    np.save(folder / "expected.npy", np.asarray(resnet18(*arguments)))


def run(folder, rank, addresses):
    executable = spu.Executable()
    executable.ParseFromString((folder / "program").read_bytes())
    description = spu.link.Desc()
    description.recv_timeout_ms = description.http_timeout_ms = 600_000
    for number, address in enumerate(addresses):
        description.add_party(f"party{number}", address)
    context = spu.link.create_brpc(description, rank)
    runtime = spu.Runtime(context, configuration())
    for name, values in zip(executable.input_names, pickle.loads((folder / f"shares{rank}").read_bytes())):
        runtime.set_var(name, values)
    context.barrier()
    sent = link_bytes()
    start = time.monotonic()
    runtime.run(executable)
    wall = time.monotonic() - start
    context.barrier()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    logits = [runtime.get_var(name) for name in executable.output_names]
    (folder / f"logits{rank}").write_bytes(pickle.dumps(logits))
    figures = {"wall_s": wall, "link_bytes": link_bytes() - sent, "cpu_s": usage.ru_utime + usage.ru_stime}
    (folder / f"figures{rank}.json").write_text(json.dumps(figures))


def link_bytes():
    """Both directions of this namespace's link, headers of packets included."""
    rows = [line.split() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return sum(int(row[1]) + int(row[9]) for row in rows if not row[0].startswith("lo"))


def check(folder):
    """How far the private logits are off; an error where they are no logits of this network."""
    parts = [pickle.loads((folder / f"logits{rank}").read_bytes()) for rank in range(2)]
    logits = spu.Io(2, configuration()).reconstruct([part[0] for part in parts])
    off = float(np.abs(logits - np.load(folder / "expected.npy")).max())
    if off > 0.5:
        sys.exit(f"SPU's logits are off by {off:.2f}")
    print(f"{off:.4f}")


if __name__ == "__main__":
    verb, where = sys.argv[1], Path(sys.argv[2])
    if verb == "share":
        share(where)
    elif verb == "run":
        run(where, int(sys.argv[3]), sys.argv[4:])
    else:
        check(where)
