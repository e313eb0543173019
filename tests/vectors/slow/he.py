"""Linear layers under encryption: how a layer's numbers travel, keys, requests, answers."""

from . import bits
from .blake3 import derive_key
from .packing import SESSION_INFERENCES, Layout
from .randomness import ciphertext_generator, context, derive, generator
from .ring import Ring, binomial, multiply, ternary

# Rows of rings; within a row the fewest bits decide.
LADDER = (((2048, (50,)), (4096, (50,))), ((4096, (50, 23)),), ((4096, (50, 50)),))
RINGS = {}
GUARD_BITS, MAX_UNIT_BITS, MIN_KEPT_BITS = 3, 58, 4


def ring_of(degree, sizes):
    if (degree, sizes) not in RINGS:
        RINGS[degree, sizes] = Ring(degree, sizes)
    return RINGS[degree, sizes]


def dropping(count):
    """Twelve times the variance of leaving out so many bits and reading the middle back."""
    return 4**count + 2 if count else 0


class Layer:
    """The ring of one linear layer, its layout, and how many low bits its messages leave out."""

    def __init__(self, conv, shape, ring_bits, tolerance, weight_bound):
        self.ring_bits, self.weight_bound = ring_bits, weight_bound
        self.tolerance = min(tolerance, ring_bits - MIN_KEPT_BITS)
        for row in LADDER:
            fitting = [choice for size in row if (choice := self.choice(conv, shape, *size)) is not None]
            if fitting:
                # The first of those with the fewest bits.
                _, self.ring, self.layout, self.kept, dropped = min(fitting, key=lambda choice: choice[0])
                break
        else:
            raise ValueError("no ring bears the noise of this layer")
        self.input_dropped, self.uniform_dropped, self.value_dropped = dropped
        self.kept_modulus = self.ring.primes[0] if self.kept == 1 else self.ring.modulus
        kept_bits = self.kept_modulus.bit_length()
        self.input_bits = self.ring.bits - self.input_dropped
        self.uniform_bits, self.value_bits = kept_bits - self.uniform_dropped, kept_bits - self.value_dropped

    def choice(self, conv, shape, degree, sizes):
        """All bits that are sent in this ring, and how; nothing where the layer or its noise does not fit."""
        layout = Layout.find(conv, shape, degree, self.ring_bits - self.tolerance, self.weight_bound)
        if layout is None:
            return None
        ring = ring_of(degree, sizes)
        counts = layout.input_ciphertexts * degree, layout.output_ciphertexts * degree // SESSION_INFERENCES, layout.output_values
        for kept in range(1, len(sizes) + 1):
            kept_modulus = ring.primes[0] if kept == 1 else ring.modulus
            dropped = self.most_dropped(ring, layout.taps, kept_modulus, counts)
            if dropped is not None:
                widths = ring.bits, kept_modulus.bit_length(), kept_modulus.bit_length()
                sent = sum(count * (width - less) for count, width, less in zip(counts, widths, dropped))
                return sent, ring, layout, kept, dropped
        return None

    def most_dropped(self, ring, taps, kept_modulus, counts):
        """Low bits to leave out of requests, second halves and values, so that the noise stays within the tolerance."""
        unit = min(ring.modulus >> self.ring_bits - self.tolerance, 1 << MAX_UNIT_BITS)
        allowed = 12 * unit * unit >> 2 * GUARD_BITS
        energy, rescaling = taps * self.weight_bound**2, (ring.modulus // kept_modulus)**2
        key_weight = -(-2 * ring.degree // 3)
        fixed = 127 * energy + 168 * ring.degree + (rescaling * (1 + key_weight) if rescaling > 1 else 0)
        if fixed > allowed // 2:
            return None
        best, kept_bits = None, kept_modulus.bit_length()
        for i in range(ring.bits - 1):
            for u in range(kept_bits - 1):
                room = allowed - fixed - energy * dropping(i) - rescaling * key_weight * dropping(u)
                if room < 0:
                    break
                v = max(v for v in range(kept_bits - 1) if rescaling * dropping(v) <= room)
                saved = counts[0] * i + counts[1] * u + counts[2] * v
                best = max(best or (0,), (saved, v, i, u))
        _, v, i, u = best
        return i, u, v

    def numbers(self):
        """What enters the plan's digest."""
        return [self.ring.degree, self.ring_bits, self.tolerance, self.weight_bound, self.layout.taps, self.kept,
                self.input_bits, self.value_bits, self.uniform_bits] + self.ring.primes

    def ciphertext_bytes(self):
        """One ciphertext of a request."""
        return self.ring.degree * self.input_bits // 8

    def request_bytes(self):
        return self.layout.input_ciphertexts * self.ciphertext_bytes()

    def answer_bytes(self):
        """Both halves, as for a client that has no second halves."""
        total = self.layout.output_ciphertexts * (-(-self.ring.degree * self.uniform_bits // 8))
        for number in range(self.layout.output_ciphertexts):
            count = sum(1 for _ in self.layout.output_places(number))
            total += -(-count * self.value_bits // 8)
        return total

    def uniform(self, seed, value, number):
        """The uniform half of a request's ciphertext: the same in all inferences of a model."""
        material = seed + value.to_bytes(4, "little") + number.to_bytes(8, "little")
        own = derive_key(context("he ciphertext uniform seed"), material)
        return self.ring.uniform("he ciphertext uniform half", own)

    def encode(self, element):
        return (self.ring.modulus * element + (1 << self.ring_bits - 1)) >> self.ring_bits

    def share(self, number, modulus):
        """round(2^l number / modulus) modulo 2^l."""
        return ((number << self.ring_bits) + modulus // 2) // modulus & (1 << self.ring_bits) - 1


def restored(value, dropped):
    """The middle of the numbers that a shortened one may have been."""
    return (value << dropped) + (1 << dropped >> 1)


def public_seed(halves_id):
    return derive_key(context("he public key seed"), halves_id)


class ClientKey:
    """The client's key for one ring in one inference."""

    def __init__(self, ring, root, place):
        self.ring = ring
        self.secret = ternary(generator(derive(root, "he secret key", place)), ring.degree)

    def encrypt(self, uniform, error, message):
        product = multiply(uniform, self.secret, self.ring.modulus)
        return [(m + e - p) % self.ring.modulus for m, e, p in zip(message, error, product)]

    def public_key(self, seed, root, place):
        ring = self.ring
        error = binomial(generator(derive(root, "he public key error", place)), ring.degree)
        uniform = ring.uniform("he public key uniform half", seed)
        return ring.residues_to_bytes(self.encrypt(uniform, error, [0] * ring.degree))

    def request(self, layer, seed, value, blinds, root, place):
        ring, message, errors = self.ring, b"", derive(root, "he error", place)
        for number in range(layer.layout.input_ciphertexts):
            uniform = layer.uniform(seed, value, number)
            error = binomial(ciphertext_generator(errors, number), ring.degree)
            plain = [0] * ring.degree
            for coefficient, source in layer.layout.input_places(number):
                plain[coefficient] = layer.encode(blinds[source])
            computed = self.encrypt(uniform, error, plain)
            message += bits.pack([value >> layer.input_dropped for value in computed], layer.input_bits)
        return message

    def read_second(self, layer, half):
        """The second half of an answer's ciphertext that came earlier."""
        values = bits.unpack(half, self.ring.degree, layer.uniform_bits)
        return [restored(value, layer.uniform_dropped) for value in values]

    def decrypt(self, layer, answer, second_halves):
        """The client's share. Second halves are taken from the answer where the list is empty, and left in it."""
        layout, kept, read = layer.layout, layer.kept_modulus, 0
        share, come = [0] * layout.output_values, not second_halves

        def section(count, width, dropped):
            nonlocal read
            size = -(-count * width // 8)
            values = bits.unpack(answer[read:read + size], count, width)
            read += size
            return [restored(value, dropped) for value in values]

        for number in range(layout.output_ciphertexts):
            places = list(layout.output_places(number))
            if come:
                second_halves.append(section(self.ring.degree, layer.uniform_bits, layer.uniform_dropped))
            values = section(len(places), layer.value_bits, layer.value_dropped)
            product = multiply(second_halves[number], self.secret, kept)
            for value, (coefficient, target) in zip(values, places):
                share[target] = layer.share((value + product[coefficient]) % kept, kept)
        assert read == len(answer)
        return share


class ServerLayer:
    """The answer to one request, for the layer that makes this value.

    What hides the second halves, `zeros`, belongs to the model, as they do; `masks` belong to the inference.
    """

    def __init__(self, layer, value, weights, public_key, seed, request, zeros, masks, makes_second, sends_second):
        self.layer, layout, ring = layer, layer.layout, layer.ring
        self.share, self.message, self.second_halves = [0] * layout.output_values, b"", []
        key = ring.residues_from_bytes(public_key), ring.uniform("he public key uniform half", seed)
        inputs = self.read(request, seed, value)
        for number in range(layout.output_ciphertexts):
            tile, output = divmod(number, layout.outputs_per_tile)
            stream = ciphertext_generator(zeros, number)
            u, error = ternary(stream, ring.degree), binomial(stream, ring.degree)
            halves = [multiply(u, half, ring.modulus) for half in key]
            for term in range(layout.inputs_per_tile):
                polynomial = layout.weight_polynomial(output, term, weights)
                if not any(polynomial):
                    continue
                own = inputs[tile * layout.inputs_per_tile + term]
                for half in (0, 1) if makes_second else (0,):
                    product = multiply(polynomial, own[half], ring.modulus)
                    halves[half] = [(a + b) % ring.modulus for a, b in zip(halves[half], product)]
            second = [(a + e) % ring.modulus for a, e in zip(halves[1], error)]
            places = list(layout.output_places(number))
            stream = ciphertext_generator(masks, number)
            mask = ring.compose([[stream.u128() % prime for _ in places] for prime in ring.primes])
            first = []
            for own, (coefficient, target) in zip(mask, places):
                self.share[target] = layer.share(own, ring.modulus)
                first.append((halves[0][coefficient] - own) % ring.modulus)
            if makes_second:
                self.second_halves.append(self.section(second, layer.uniform_bits, layer.uniform_dropped))
            if sends_second:
                self.message += self.second_halves[-1]
            self.message += self.section(first, layer.value_bits, layer.value_dropped)

    def read(self, request, seed, value):
        """Both halves of the request's ciphertexts."""
        layer, ring, inputs = self.layer, self.layer.ring, []
        size = layer.ciphertext_bytes()
        assert len(request) == layer.request_bytes()
        for number in range(layer.layout.input_ciphertexts):
            sent = bits.unpack(request[number * size:(number + 1) * size], ring.degree, layer.input_bits)
            computed = [restored(one, layer.input_dropped) % ring.modulus for one in sent]
            inputs.append((computed, layer.uniform(seed, value, number)))
        return inputs

    def section(self, values, width, dropped):
        ring, modulus = self.layer.ring, self.layer.ring.modulus
        for prime in reversed(ring.primes[self.layer.kept:]):
            # Divides by the prime, rounding to the nearest.
            modulus //= prime
            centered = [value % prime - (prime if value % prime > prime // 2 else 0) for value in values]
            values = [(value - rest) // prime % modulus for value, rest in zip(values, centered)]
        return bits.pack([value >> dropped for value in values], width)
