"""The outline as bytes (docs/src/reference/files.md), and what follows from it: shapes, rounds and flights."""

import struct
from collections import namedtuple

from .blake3 import blake3

Shape = namedtuple("Shape", "channels height width")
Step = namedtuple("Step", "name operation fields inputs shape fraction ring_bits")
Pool = namedtuple("Pool", "window stride padding")
Conv = namedtuple("Conv", "inputs outputs filter stride padding dilation groups")

INTERACTIVE, WEIGHTED = ("activate", "gate", "maximum"), ("linear",)


def scalars(shape):
    return shape.channels * shape.height * shape.width


def linear_input(conv, shape):
    """A fully connected layer is a convolution over one pixel whose channels are all scalars of its input."""
    return shape if conv.inputs == shape.channels else Shape(conv.inputs, 1, 1)


class Reader:
    def __init__(self, data):
        self.data, self.place = data, 0

    def take(self, count):
        assert self.place + count <= len(self.data), "the outline ends too early"
        self.place += count
        return self.data[self.place - count:self.place]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        return int.from_bytes(self.take(4), "little")

    def numbers(self, count):
        return [self.number() for _ in range(count)]

    def text(self):
        return self.take(self.number()).decode()

    def shape(self):
        return Shape(*self.numbers(3))

    def floats(self, count):
        return list(struct.unpack(f"<{count}f", self.take(4 * count)))

    def bits(self, count):
        data = int.from_bytes(self.take(-(-count // 8)), "little")
        return [data >> place & 1 for place in range(count)]


class Outline:
    def __init__(self, data):
        self.data = data
        body, digest = data[:-32], data[-32:]
        assert body[:8] == b"SRDNOUTL" and body[8:12] == b"\1\0\0\0" and blake3(body) == digest
        reader = Reader(body[12:])
        self.name, self.input = reader.text(), reader.shape()
        self.image_ring_bits, self.image_fraction = reader.number(), reader.number()
        self.mean, self.deviation = reader.floats(self.input.channels), reader.floats(self.input.channels)
        self.classes = reader.number()
        self.class_names = [reader.text() for _ in range(reader.number())]
        self.weight_bound = {8: 127, 12: 2047}[reader.byte()]
        self.logit_drop = reader.number()
        self.steps = [self.read_step(reader) for _ in range(reader.number())]
        assert reader.place == len(reader.data)

    @staticmethod
    def read_step(reader):
        name = reader.text()
        reader.take(9)  # where it stands in the network, for people
        inputs = reader.numbers(reader.number())
        shape, fraction, ring_bits, code = reader.shape(), reader.byte(), reader.byte(), reader.byte()
        shifts = lambda: list(reader.take(reader.number()))

        def pool():
            values = reader.numbers(3)
            reader.byte()
            return Pool(*values)

        def mask(channels):
            kind = reader.byte()
            plane = shape.height * shape.width
            if kind < 2:
                return [1 - kind] * channels * plane
            if kind == 2:
                return [bit for bit in reader.bits(channels) for _ in range(plane)]
            return reader.bits(channels * plane)

        if code == 0:
            values = reader.numbers(7)
            reader.byte()
            operation, fields = "linear", (Conv(*values), shifts())
        elif code == 1:
            count, outputs = reader.numbers(2)
            operation, fields = "linear", (Conv(count, outputs, 1, 1, 0, 1, 1), shifts())
        elif code in (2, 3):
            operation, fields = ("add", "concat")[code - 2], (shifts(),)
        elif code == 4:
            operation, fields = "slice", tuple(reader.numbers(2))
        elif code == 5:
            operation, fields = "crop", ()
        elif code == 6:
            operation, fields = "sum pool", (pool(),)
        elif code == 7:
            operation, fields = "global sum", ()
        elif code == 8:
            operation, fields = "scale pixels", (reader.numbers(reader.number()),)
        elif code == 9:
            width, shift = reader.byte(), reader.byte()
            ceiling = int.from_bytes(reader.take(8), "little") if reader.byte() else None
            operation, fields = "activate", (width, shift, ceiling, mask(shape.channels))
        elif code == 10:
            width = reader.byte()
            operation, fields = "maximum", (pool(), width)
        else:
            assert code == 11
            width, shift = reader.byte(), reader.byte()
            groups = [reader.numbers(reader.number()) for _ in range(reader.number())]
            slope_bits = reader.byte()
            slopes = [slope - 256 * (slope > 127) for slope in reader.take(reader.number())]
            operation, fields = "gate", (width, shift, groups, slope_bits, slopes, mask(len(groups)))
        return Step(name, operation, fields, inputs, shape, fraction, ring_bits)

    def shape(self, value):
        return self.input if value == 0 else self.steps[value - 1].shape

    def ring_bits(self, value):
        return self.image_ring_bits if value == 0 else self.steps[value - 1].ring_bits

    def encode_image(self, pixels):
        """Fixed point. The normalization is in single precision, each operation rounded."""
        single = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
        plane, values = self.input.height * self.input.width, []
        for place, pixel in enumerate(pixels):
            channel = place // plane
            unit = single(pixel / 255.0)
            normal = single(single(unit - self.mean[channel]) / self.deviation[channel])
            scaled = normal * 2.0**self.image_fraction
            # Half away from zero.
            values.append(int(abs(scaled) + 0.5) * (-1 if scaled < 0 else 1))
        return values

    def schedule(self):
        """Rounds as (interactive, local) and flights as (weighted, local), each a list of step numbers."""
        rounds, flights, depths, answers = [([], [])], [([], [])], [0], [0]

        def entry(all_of, number):
            while len(all_of) <= number:
                all_of.append(([], []))
            return all_of[number]

        for number, step in enumerate(self.steps):
            depth = max(depths[value] for value in step.inputs)
            answer = max(answers[value] for value in step.inputs)
            if step.operation in INTERACTIVE:
                depth, answer = depth + 1, 0
                entry(rounds, depth)[0].append(number)
            elif step.operation in WEIGHTED:
                answer += 1
                entry(rounds, depth)[1].append(number)
                entry(flights, answer)[0].append(number)
            else:
                entry(rounds, depth)[1].append(number)
                entry(flights, answer)[1].append(number)
            depths.append(depth)
            answers.append(answer)
        return rounds, flights


def windows(shape, pool):
    """The places under each window that lie within the map, row by row; windows by channel, row, column."""
    rows = (shape.height + 2 * pool.padding - pool.window) // pool.stride + 1
    columns = (shape.width + 2 * pool.padding - pool.window) // pool.stride + 1
    for channel in range(shape.channels):
        for row in range(rows):
            for column in range(columns):
                yield [(channel * shape.height + y) * shape.width + x
                       for y in range(row * pool.stride - pool.padding, row * pool.stride - pool.padding + pool.window)
                       for x in range(column * pool.stride - pool.padding,
                                      column * pool.stride - pool.padding + pool.window)
                       if 0 <= y < shape.height and 0 <= x < shape.width]


def convolve(conv, shape, out_shape, weights, values):
    """A convolution in the clear, on integers."""
    results = []
    group_inputs, group_outputs = conv.inputs // conv.groups, conv.outputs // conv.groups
    shape = linear_input(conv, shape)
    for output in range(conv.outputs):
        first = output // group_outputs * group_inputs
        for row in range(out_shape.height):
            for column in range(out_shape.width):
                total = 0
                for channel in range(group_inputs):
                    for v in range(conv.filter):
                        for u in range(conv.filter):
                            y = row * conv.stride + v * conv.dilation - conv.padding
                            x = column * conv.stride + u * conv.dilation - conv.padding
                            if 0 <= y < shape.height and 0 <= x < shape.width:
                                place = ((output * group_inputs + channel) * conv.filter + v) * conv.filter + u
                                total += weights[place] * values[
                                    ((first + channel) * shape.height + y) * shape.width + x]
                results.append(total)
    return results


def apply_local(outline, step, inputs):
    """A step that each party computes on its own shares; the caller reduces to the ring."""
    shape = outline.shape(step.inputs[0])
    plane = shape.height * shape.width
    if step.operation == "add":
        return [sum(value[place] << shift for value, shift in zip(inputs, step.fields[0]))
                for place in range(scalars(step.shape))]
    if step.operation == "concat":
        return [value << shift for values, shift in zip(inputs, step.fields[0]) for value in values]
    if step.operation == "slice":
        start, channels = step.fields
        return inputs[0][start * plane:(start + channels) * plane]
    if step.operation == "crop":
        return [value for place, value in enumerate(inputs[0])
                if place // shape.width % shape.height > 0 and place % shape.width > 0]
    if step.operation == "sum pool":
        return [sum(inputs[0][place] for place in window) for window in windows(shape, step.fields[0])]
    if step.operation == "global sum":
        return [sum(inputs[0][start:start + plane]) for start in range(0, len(inputs[0]), plane)]
    assert step.operation == "scale pixels"
    return [value * step.fields[0][place % plane] for place, value in enumerate(inputs[0])]
