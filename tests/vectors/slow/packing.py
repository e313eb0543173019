"""Where the values of a linear layer lie in the coefficients of its ciphertexts (reference chapter, "Packing")."""

from collections import namedtuple

from .outline import linear_input

Storage = namedtuple("Storage", "outputs extent gap before after shift tiles")
MAX_TERMS = 2047
# Second halves of answers are weighed as if so many inferences shared them.
SESSION_INFERENCES = 3


class Axis:
    """One direction: each tap reads a phase of the input at an offset."""

    def __init__(self, size, filter_size, stride, padding, dilation):
        self.size, self.stride = size, stride
        self.outputs = (size + 2 * padding - dilation * (filter_size - 1) - 1) // stride + 1
        distances = [tap * dilation - padding for tap in range(filter_size)]
        self.taps = [(distance % stride, distance // stride) for distance in distances]
        self.phases = sorted({phase for phase, _ in self.taps})
        self.first = min(offset for _, offset in self.taps)
        self.last = max(offset for _, offset in self.taps)

    def storage(self, tile_outputs):
        tiles = -(-self.outputs // tile_outputs)
        if tiles > 1:
            return Storage(tile_outputs, tile_outputs + self.last - self.first, 0, 0, 0, self.first, tiles)
        extent = max(1, -(-max(0, self.size - self.phases[0]) // self.stride))
        before = max(0, -self.first)
        after = max(0, self.outputs - 1 + self.last - (extent - 1))
        return Storage(self.outputs, extent, max(before, after), before, after, 0, 1)

    def source(self, storage, tile, phase, place):
        source = (tile * storage.outputs + place + storage.shift) * self.stride + phase
        return source if 0 <= source < self.size else None


def tile_sizes(outputs):
    sizes = []
    for tiles in range(1, outputs + 1):
        size = -(-outputs // tiles)
        if not sizes or sizes[-1] != size:
            sizes.append(size)
    return sizes


class Layout:
    """The cheapest packing of one layer into polynomials of `degree` coefficients, where shares keep so many bits."""

    @classmethod
    def find(cls, *arguments):
        """Nothing where the ciphertexts are too small for the layer."""
        layout = cls(*arguments)
        return layout if layout.fits else None

    def __init__(self, conv, shape, degree, kept_bits, weight_bound):
        self.conv, self.shape, self.degree = conv, linear_input(conv, shape), degree
        self.expected = kept_bits + weight_bound.bit_length() - 1 + 8, (kept_bits + 10) // SESSION_INFERENCES, kept_bits + 4
        shape = self.shape
        axis = lambda size: Axis(size, conv.filter, conv.stride, conv.padding, conv.dilation)
        self.axes = vertical, horizontal = axis(shape.height), axis(shape.width)
        self.phases = len(vertical.phases) * len(horizontal.phases)
        self.all_planes = conv.inputs * self.phases
        best = None
        for columns in tile_sizes(horizontal.outputs):
            tried = 0
            for rows in tile_sizes(vertical.outputs):
                storage = vertical.storage(rows), horizontal.storage(columns)
                slots = self.slots(storage)
                if slots == 0:
                    continue
                tried += 1
                if tried > 4:
                    break
                for planes, outputs in self.splits(slots):
                    cost = self.cost(storage, planes, outputs)
                    if cost is not None and (best is None or cost < best[0]):
                        best = cost, storage, planes, outputs
        self.fits = best is not None
        if not self.fits:
            return
        _, self.storage, self.planes, self.outputs = best
        self.row = self.storage[1].extent + self.storage[1].gap
        self.plane = (self.storage[0].extent + self.storage[0].gap) * self.row
        self.tiles = self.storage[0].tiles * self.storage[1].tiles
        self.inputs_per_tile = -(-self.all_planes // self.planes)
        self.outputs_per_tile = -(-conv.outputs // self.outputs)
        self.input_ciphertexts = self.tiles * self.inputs_per_tile
        self.output_ciphertexts = self.tiles * self.outputs_per_tile
        self.taps = self.outputs * (conv.inputs // conv.groups) * conv.filter * conv.filter
        self.output_values = conv.outputs * vertical.outputs * horizontal.outputs

    def slots(self, storage):
        vertical, horizontal = storage
        row = horizontal.extent + horizontal.gap
        plane = (vertical.extent + vertical.gap) * row
        stored = (vertical.extent - 1) * row + horizontal.extent
        before = vertical.before * row + horizontal.before
        after = vertical.after * row + horizontal.after
        answers = (vertical.outputs - 1) * row + horizontal.outputs
        last = max(stored + max(before, after), answers)
        return 0 if self.degree < last else (self.degree - last) // plane + 1

    def splits(self, slots):
        splits, previous = [], 0
        for planes in range(1, min(slots, self.all_planes) + 1):
            ciphertexts = -(-self.all_planes // planes)
            if ciphertexts != previous:
                previous = ciphertexts
                splits.append((planes, min(slots // planes, self.conv.outputs)))
        return splits

    def cost(self, storage, planes, outputs):
        inputs_per_tile = -(-self.all_planes // planes)
        if inputs_per_tile > MAX_TERMS:
            return None
        tiles = storage[0].tiles * storage[1].tiles
        values = self.conv.outputs * self.axes[0].outputs * self.axes[1].outputs
        inputs, uniform, value = self.expected
        return (tiles * inputs_per_tile * self.degree * inputs
                + tiles * -(-self.conv.outputs // outputs) * self.degree * uniform + values * value)

    def plane_phases(self, plane):
        channel, phase = divmod(plane, self.phases)
        across = len(self.axes[1].phases)
        return channel, self.axes[0].phases[phase // across], self.axes[1].phases[phase % across]

    def input_places(self, ciphertext):
        """Pairs of coefficient and input value."""
        tile, index = divmod(ciphertext, self.inputs_per_tile)
        tile_row, tile_column = divmod(tile, self.storage[1].tiles)
        planes = range(index * self.planes, min((index + 1) * self.planes, self.all_planes))
        for slot, plane in enumerate(planes):
            channel, phase_row, phase_column = self.plane_phases(plane)
            for row in range(self.storage[0].extent):
                y = self.axes[0].source(self.storage[0], tile_row, phase_row, row)
                if y is None:
                    continue
                for column in range(self.storage[1].extent):
                    x = self.axes[1].source(self.storage[1], tile_column, phase_column, column)
                    if x is not None:
                        yield (slot * self.plane + row * self.row + column,
                               (channel * self.shape.height + y) * self.shape.width + x)

    def answer_start(self, slot):
        return ((slot + 1) * self.planes - 1) * self.plane

    def output_places(self, ciphertext):
        """Pairs of coefficient and output value."""
        tile, index = divmod(ciphertext, self.outputs_per_tile)
        tile_row, tile_column = divmod(tile, self.storage[1].tiles)
        height, width = self.axes[0].outputs, self.axes[1].outputs
        rows = range(tile_row * self.storage[0].outputs, min((tile_row + 1) * self.storage[0].outputs, height))
        columns = range(tile_column * self.storage[1].outputs,
                        min((tile_column + 1) * self.storage[1].outputs, width))
        channels = range(index * self.outputs, min((index + 1) * self.outputs, self.conv.outputs))
        for slot, channel in enumerate(channels):
            for inner_row, row in enumerate(rows):
                for inner_column, column in enumerate(columns):
                    yield (self.answer_start(slot) + inner_row * self.row + inner_column,
                           (channel * height + row) * width + column)

    def places(self):
        """What the digest of the plan says about where weights lie."""
        numbers = [self.planes, self.outputs, self.row, self.plane, self.storage[0].tiles, self.storage[1].tiles]
        for output, term in (0, 0), (self.outputs_per_tile - 1, self.inputs_per_tile - 1):
            places = list(self.weight_places(output, term))
            numbers.append(len(places))
            numbers += [weight << 32 | place % self.degree << 1 | (place < 0) for weight, place in places]
        return numbers

    def weight_places(self, output, term):
        """Pairs of weight and place of the polynomial that takes input ciphertext `term` of a tile to output `output`."""
        conv = self.conv
        group_inputs, group_outputs = conv.inputs // conv.groups, conv.outputs // conv.groups
        for slot in range(min(self.outputs, conv.outputs - output * self.outputs)):
            channel_out = output * self.outputs + slot
            for inner in range(min(self.planes, self.all_planes - term * self.planes)):
                channel, phase_row, phase_column = self.plane_phases(term * self.planes + inner)
                if channel // group_inputs != channel_out // group_outputs:
                    continue
                filter_number = channel_out * group_inputs + channel % group_inputs
                start = self.answer_start(slot) - inner * self.plane
                for v, (phase_v, offset_v) in enumerate(self.axes[0].taps):
                    for u, (phase_u, offset_u) in enumerate(self.axes[1].taps):
                        if (phase_v, phase_u) != (phase_row, phase_column):
                            continue
                        place = start - (offset_v - self.storage[0].shift) * self.row
                        place -= offset_u - self.storage[1].shift
                        yield (filter_number * conv.filter + v) * conv.filter + u, place

    def weight_polynomial(self, output, term, weights):
        """The polynomial that takes input ciphertext `term` of a tile to output ciphertext `output` of it."""
        polynomial = [0] * self.degree
        for weight, place in self.weight_places(output, term):
            # x^degree is -1, so a negative place comes in from above with its sign changed.
            polynomial[place % self.degree] = -weights[weight] if place < 0 else weights[weight]
        return polynomial
