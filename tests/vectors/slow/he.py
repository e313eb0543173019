"""Linear layers under encryption: parameters, keys, requests, answers."""

from . import bits
from .blake3 import derive_key
from .packing import Layout
from .randomness import ciphertext_generator, context, derive, generator

DEGREE, SMALL_PRIME_BITS, WIDEST_PRIME_BITS = 4096, 23, 50
LADDER = ([(size,) for size in range(30, 51)] + [(size, SMALL_PRIME_BITS) for size in range(36, 51)]
          + [(WIDEST_PRIME_BITS, size) for size in range(SMALL_PRIME_BITS, 51)])


def is_prime(number):
    if number % 2 == 0:
        return number == 2
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        if not any((power := power * power % number) == number - 1 for _ in range(twos - 1)):
            return False
    return True


def ntt_primes(size, degree, count):
    """The largest primes below 2^size that are 1 modulo twice the degree."""
    candidate, primes = ((1 << size) - 1) // (2 * degree) * 2 * degree + 1, []
    while len(primes) < count:
        if is_prime(candidate):
            primes.append(candidate)
        candidate -= 2 * degree
    return primes


class Ntt:
    """Value k of a polynomial is its value at root^(2 rev(k) + 1), rev reversing the bits of k."""

    def __init__(self, prime, degree):
        self.prime, self.degree = prime, degree
        base = 2
        while pow(pow(base, (prime - 1) // (2 * degree), prime), degree, prime) != prime - 1:
            base += 1
        self.root = pow(base, (prime - 1) // (2 * degree), prime)
        power, powers = 1, []
        for _ in range(2 * degree):
            powers.append(power)
            power = power * self.root % prime
        self.powers = powers

    def forward(self, polynomial):
        """Modulo x^m - r^2 splits into modulo x^(m/2) - r and x^(m/2) + r, down to single values."""
        prime, parts = self.prime, [(polynomial, self.degree)]
        while len(parts[0][0]) > 1:
            below = []
            for values, exponent in parts:
                # Here x^m = root^exponent; its root is root^(exponent/2).
                half, turn = len(values) // 2, self.powers[exponent // 2]
                low, high = values[:half], [value * turn % prime for value in values[half:]]
                below.append(([(a + b) % prime for a, b in zip(low, high)], exponent // 2))
                below.append(([(a - b) % prime for a, b in zip(low, high)], exponent // 2 + self.degree))
            parts = below
        return [values[0] for values, _ in parts]

    def inverse(self, values):
        prime, degree = self.prime, self.degree
        parts = [[value] for value in values]
        exponents = [degree]
        while len(exponents) < degree:
            exponents = [e for exponent in exponents for e in (exponent // 2, exponent // 2 + degree)]
        while len(parts) > 1:
            # The parts of a pair stand for x^half = root^e and root^(e + degree), which is minus that.
            pairs = zip(parts[::2], parts[1::2], exponents[::2])
            below = []
            for plus, minus, exponent in pairs:
                back = self.powers[-exponent % (2 * degree)]
                low = [(a + b) % prime for a, b in zip(plus, minus)]
                high = [(a - b) * back % prime for a, b in zip(plus, minus)]
                below.append(low + high)
            parts, exponents = below, [2 * exponent % (2 * degree) for exponent in exponents[::2]]
        scale = pow(degree, -1, prime)
        return [value * scale % prime for value in parts[0]]


def multiply(left, right, modulus):
    """A product modulo x^n + 1: both polynomials as one long number each, and one long multiplication."""
    degree = len(left)
    size = -(-(2 * modulus.bit_length() + degree.bit_length()) // 8)
    joined = lambda values: int.from_bytes(b"".join((v % modulus).to_bytes(size, "little") for v in values), "little")
    product = (joined(left) * joined(right)).to_bytes(2 * degree * size, "little")
    coefficient = lambda place: int.from_bytes(product[place * size:(place + 1) * size], "little")
    return [(coefficient(place) - coefficient(place + degree)) % modulus for place in range(degree)]


class Parameters:
    """The first row of the ladder that serves these layers."""

    def __init__(self, layers, ring_bits, weight_bound):
        self.degree, self.ring_bits, self.weight_bound = DEGREE, ring_bits, weight_bound
        self.max_taps = max(Layout(conv, shape, DEGREE).taps for conv, shape in layers)
        for sizes in LADDER:
            self.sizes = sizes
            if len(sizes) == 2 and sizes[0] == sizes[1]:
                self.primes = ntt_primes(sizes[0], DEGREE, 2)
            else:
                self.primes = [ntt_primes(size, DEGREE, 1)[0] for size in sizes]
            if self.choose_format() and (self.kept == 1 or sizes[0] == WIDEST_PRIME_BITS):
                break
        else:
            raise ValueError("no parameters bear the noise of this layer")
        self.tables = [Ntt(prime, DEGREE) for prime in self.primes]

    def choose_format(self):
        """How many primes an answer keeps, and how many low bits it leaves out."""
        self.modulus = 1
        for prime in self.primes:
            self.modulus *= prime
        noise = self.max_taps * self.weight_bound * 43 + 84 * DEGREE + 1
        for kept in range(1, len(self.primes) + 1):
            kept_modulus = self.primes[0] if kept == 1 else self.modulus
            dropped_modulus = self.modulus // kept_modulus
            room = (self.modulus >> self.ring_bits) - noise
            available = room // dropped_modulus - (DEGREE + 2)
            available -= 2 * (2 + 2 * len(self.primes) * (kept_modulus >> 78))
            if room < 0 or available < 0:
                continue
            size = kept_modulus.bit_length()
            cost = lambda value, uniform: (1 << value if value else 0) + DEGREE * (1 << uniform if uniform else 0)
            best = (0, 0, 0)
            for uniform in range(size - 1):
                if cost(0, uniform) > available:
                    break
                value = max(v for v in range(size - 1) if cost(v, uniform) <= available)
                best = max(best, (2 * uniform + value, value, uniform))
            _, self.value_dropped, self.uniform_dropped = best
            self.kept, self.kept_modulus = kept, kept_modulus
            self.value_bits, self.uniform_bits = size - self.value_dropped, size - self.uniform_dropped
            return True
        return False

    def numbers(self):
        """What enters the plan's digest."""
        return [self.degree, self.ring_bits, self.weight_bound, self.max_taps, self.kept, self.value_bits,
                self.uniform_bits] + self.primes

    def key_bytes(self):
        return 32 + self.degree * sum(self.sizes) // 8

    def request_bytes(self, layout):
        return layout.input_ciphertexts * self.key_bytes()

    def answer_bytes(self, layout):
        total = 0
        for number in range(layout.output_ciphertexts):
            count = sum(1 for _ in layout.output_places(number))
            total += -(-self.degree * self.uniform_bits // 8) + -(-count * self.value_bits // 8)
        return total

    def residues_to_bytes(self, polynomial):
        """Values of the polynomial modulo each prime, packed."""
        return b"".join(bits.pack(table.forward([c % table.prime for c in polynomial]), size)
                        for table, size in zip(self.tables, self.sizes))

    def residues_from_bytes(self, data):
        limbs, read = [], 0
        for table, size in zip(self.tables, self.sizes):
            values = bits.unpack(data[read:read + self.degree * size // 8], self.degree, size)
            read += self.degree * size // 8
            assert all(value < table.prime for value in values)
            limbs.append(table.inverse(values))
        assert read == len(data)
        return self.compose(limbs)

    def compose(self, limbs):
        """Numbers modulo q from numbers modulo each prime."""
        result = [0] * len(limbs[0])
        for table, limb in zip(self.tables, limbs):
            others = self.modulus // table.prime
            factor = others * pow(others, -1, table.prime)
            result = [(total + factor * value) % self.modulus for total, value in zip(result, limb)]
        return result

    def uniform(self, purpose, seed):
        """A uniform polynomial: values modulo each prime by rejection from a public stream."""
        limbs = []
        for number, (table, size) in enumerate(zip(self.tables, self.sizes)):
            # The primes lie close below a power of two, so a few candidates more than needed are enough.
            drawn = self.degree + 512
            stream = derive_key(context(purpose), seed + bytes([number]), 7 * drawn)
            candidates = (int.from_bytes(stream[7 * k:7 * k + 7], "little") & (1 << size) - 1 for k in range(drawn))
            values = [value for value in candidates if value < table.prime][:self.degree]
            assert len(values) == self.degree
            limbs.append(table.inverse(values))
        return self.compose(limbs)

    def encode(self, element):
        return (self.modulus * element + (1 << self.ring_bits - 1)) >> self.ring_bits

    def share(self, number, modulus):
        """round(2^l number / modulus) modulo 2^l."""
        return ((number << self.ring_bits) + modulus // 2) // modulus & (1 << self.ring_bits) - 1


def ternary(stream, degree):
    coefficients = []
    for start in range(0, degree, 20):
        fraction = stream.u128()
        for _ in range(min(20, degree - start)):
            fraction *= 3
            coefficients.append((fraction >> 128) - 1)
            fraction &= (1 << 128) - 1
    return coefficients


def binomial(stream, degree):
    data = stream.bytes(6 * degree)
    draws = (int.from_bytes(data[6 * k:6 * k + 6], "little") & (1 << 42) - 1 for k in range(degree))
    return [bin(draw).count("1") - 21 for draw in draws]


def public_seed(client_nonce, server_nonce):
    return derive_key(context("he public key seed"), client_nonce + server_nonce)


class ClientKey:
    def __init__(self, parameters, root, place):
        self.parameters = parameters
        self.secret = ternary(generator(derive(root, "he secret key", place)), parameters.degree)

    def encrypt(self, uniform, error, message):
        product = multiply(uniform, self.secret, self.parameters.modulus)
        return [(m + e - p) % self.parameters.modulus for m, e, p in zip(message, error, product)]

    def public_key(self, seed, root, place):
        parameters = self.parameters
        error = binomial(generator(derive(root, "he public key error", place)), parameters.degree)
        uniform = parameters.uniform("he public key uniform half", seed)
        return seed + parameters.residues_to_bytes(self.encrypt(uniform, error, [0] * parameters.degree))

    def request(self, layout, blinds, root, place):
        parameters, message = self.parameters, b""
        errors, seeds = derive(root, "he error", place), derive(root, "he ciphertext uniform seed", place)
        for number in range(layout.input_ciphertexts):
            seed = ciphertext_generator(seeds, number).bytes(32)
            uniform = parameters.uniform("he ciphertext uniform half", seed)
            error = binomial(ciphertext_generator(errors, number), parameters.degree)
            plain = [0] * parameters.degree
            for coefficient, source in layout.input_places(number):
                plain[coefficient] = parameters.encode(blinds[source])
            message += seed + parameters.residues_to_bytes(self.encrypt(uniform, error, plain))
        return message

    def decrypt(self, layout, answer):
        parameters, share, read = self.parameters, [0] * layout.output_values, 0
        kept = parameters.kept_modulus

        def section(count, width, dropped):
            nonlocal read
            size = -(-count * width // 8)
            values = bits.unpack(answer[read:read + size], count, width)
            read += size
            return [(value << dropped) + (1 << dropped >> 1) for value in values]

        for number in range(layout.output_ciphertexts):
            places = list(layout.output_places(number))
            uniform = section(parameters.degree, parameters.uniform_bits, parameters.uniform_dropped)
            values = section(len(places), parameters.value_bits, parameters.value_dropped)
            product = multiply(uniform, self.secret, kept)
            for value, (coefficient, target) in zip(values, places):
                share[target] = parameters.share((value + product[coefficient]) % kept, kept)
        assert read == len(answer)
        return share


class ServerLayer:
    """The answer to one request."""

    def __init__(self, parameters, layout, weights, public_key, seed, request, root, masks_root, place):
        degree, modulus = parameters.degree, parameters.modulus
        self.share, self.message = [0] * layout.output_values, b""
        assert public_key[:32] == seed
        key = (parameters.residues_from_bytes(public_key[32:]),
               parameters.uniform("he public key uniform half", seed))
        size, inputs = parameters.key_bytes(), []
        for start in range(0, len(request), size):
            computed = parameters.residues_from_bytes(request[start + 32:start + size])
            inputs.append((computed, parameters.uniform("he ciphertext uniform half", request[start:start + 32])))
        masks, zeros = derive(masks_root, "he answer mask", place), derive(root, "he encryption of zero", place)
        for number in range(layout.output_ciphertexts):
            tile, output = divmod(number, layout.outputs_per_tile)
            stream = ciphertext_generator(zeros, number)
            u, error = ternary(stream, degree), binomial(stream, degree)
            halves = [multiply(u, half, modulus) for half in key]
            for term in range(layout.inputs_per_tile):
                polynomial = layout.weight_polynomial(output, term, weights)
                if not any(polynomial):
                    continue
                own = inputs[tile * layout.inputs_per_tile + term]
                for half in (0, 1):
                    product = multiply(polynomial, own[half], modulus)
                    halves[half] = [(a + b) % modulus for a, b in zip(halves[half], product)]
            second = [(a + e) % modulus for a, e in zip(halves[1], error)]
            places = list(layout.output_places(number))
            stream = ciphertext_generator(masks, number)
            mask = parameters.compose([[stream.u128() % prime for _ in places] for prime in parameters.primes])
            first = []
            for own, (coefficient, target) in zip(mask, places):
                self.share[target] = parameters.share(own, modulus)
                first.append((halves[0][coefficient] - own) % modulus)
            self.message += self.section(parameters, second, parameters.uniform_bits, parameters.uniform_dropped)
            self.message += self.section(parameters, first, parameters.value_bits, parameters.value_dropped)

    @staticmethod
    def section(parameters, values, width, dropped):
        modulus = parameters.modulus
        for prime in reversed(parameters.primes[parameters.kept:]):
            # Divides by the prime, rounding to the nearest.
            modulus //= prime
            centered = [value % prime - (prime if value % prime > prime // 2 else 0) for value in values]
            values = [(value - rest) // prime % modulus for value, rest in zip(values, centered)]
        return bits.pack([value >> dropped for value in values], width)
