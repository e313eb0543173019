"""The rings Z_q[x] / (x^n + 1): primes, products, and what is drawn in them."""

from . import bits
from .blake3 import derive_key
from .randomness import context


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


class Ring:
    """Polynomials of `degree` coefficients modulo the product of primes of these sizes."""

    def __init__(self, degree, sizes):
        self.degree, self.sizes = degree, sizes
        taken = {size: iter(ntt_primes(size, degree, sizes.count(size))) for size in set(sizes)}
        self.primes = [next(taken[size]) for size in sizes]
        self.modulus, self.bits = 1, sum(sizes)
        for prime in self.primes:
            self.modulus *= prime
        self.tables, self.expanded = None, {}

    def key_bytes(self):
        return self.degree * self.bits // 8

    def residues_to_bytes(self, polynomial):
        """The polynomial modulo each prime, packed."""
        return b"".join(bits.pack([c % prime for c in polynomial], size)
                        for prime, size in zip(self.primes, self.sizes))

    def residues_from_bytes(self, data):
        limbs, read = [], 0
        for prime, size in zip(self.primes, self.sizes):
            limbs.append(bits.unpack(data[read:read + self.degree * size // 8], self.degree, size))
            read += self.degree * size // 8
            assert all(value < prime for value in limbs[-1])
        assert read == len(data)
        return self.compose(limbs)

    def compose(self, limbs):
        """Numbers modulo q from numbers modulo each prime."""
        result = [0] * len(limbs[0])
        for prime, limb in zip(self.primes, limbs):
            others = self.modulus // prime
            factor = others * pow(others, -1, prime)
            result = [(total + factor * value) % self.modulus for total, value in zip(result, limb)]
        return result

    def uniform(self, purpose, seed):
        """A uniform polynomial, the same for both parties: values modulo each prime by rejection from a public stream."""
        if (purpose, seed) not in self.expanded:
            self.expanded[purpose, seed] = self.expand(purpose, seed)
        return self.expanded[purpose, seed]

    def expand(self, purpose, seed):
        limbs = []
        self.tables = self.tables or [Ntt(prime, self.degree) for prime in self.primes]
        for number, (table, size) in enumerate(zip(self.tables, self.sizes)):
            # The primes lie close below a power of two, so a few candidates more than needed are enough.
            drawn = self.degree + 512
            stream = derive_key(context(purpose), seed + bytes([number]), 7 * drawn)
            candidates = (int.from_bytes(stream[7 * k:7 * k + 7], "little") & (1 << size) - 1 for k in range(drawn))
            values = [value for value in candidates if value < table.prime][:self.degree]
            assert len(values) == self.degree
            limbs.append(table.inverse(values))
        return self.compose(limbs)


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
